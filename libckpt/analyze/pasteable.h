#pragma once
// Text that a person copies out of a terminal into a shell or into Python: whatever a key, a tag or a file name holds,
// it stays one word, one string, and nothing of it is run. No result holds a control character, a mark that hides or
// reorders text, or a byte that is no UTF-8, so that it can be shown as it is.
// Thread safety: pure functions; a ShellCommand has one owner. Use: std::string line =
// ShellCommand("ckpt").word("ls").file(path).text();  // ckpt ls 'my net.pth'

#include <string>
#include <string_view>

namespace ckpt {

/// Text as one word of a shell. Words of harmless characters stay as they are, others stand in single quotes, which sh,
/// bash, zsh and ksh all take literally. What cannot be shown stands as octal in $'...': bash, zsh and ksh read back
/// the very bytes; a sh that does not know the form (dash) takes another word from it, and still runs nothing.
std::string shell_word(std::string_view text);
/// The same for a file: "./" goes before a name that would be an option, or a list to the parser of options.
std::string shell_file(std::string_view path);

/// One command line. Every part of it is quoted where it is added; there is no way to add text as it is.
class ShellCommand {
 public:
  explicit ShellCommand(std::string_view program) : text_(shell_word(program)) {}
  ShellCommand& word(std::string_view text);
  ShellCommand& file(std::string_view path);
  /// "--prefix module."; "--prefix='-x.'" for a value that begins with a dash.
  ShellCommand& option(std::string_view name, std::string_view value);
  /// "-o net.pth".
  ShellCommand& file_option(std::string_view name, std::string_view path);
  const std::string& text() const { return text_; }
  /// False when a part holds a NUL: no argument of a program can.
  bool is_exact() const { return exact_; }

 private:
  ShellCommand& add(std::string_view start, std::string_view separator, std::string_view given, std::string_view word);

  std::string text_;
  bool exact_ = true;
};

/// Text as a string of Python 3. Halves of surrogate pairs, which Python writes into files as if they were characters,
/// and bytes that are no UTF-8 ('\udcff') become what Python reads from them.
std::string python_text(std::string_view text);
/// A file name as the string that Python's open() takes back to the same bytes.
std::string python_path(std::string_view path);
/// A regular expression, or a replacement for one, as a string of Python: r'...' where that can be.
std::string python_raw(std::string_view expression);
/// The regular expression of Python's `re` that matches `text` and nothing else.
std::string python_pattern(std::string_view text);
/// `text` as re.sub() puts it in.
std::string python_replacement(std::string_view text);

/// The selector (libckpt/transform/selector.h), and glob, that matches the key `text` and nothing else.
std::string selector_of(std::string_view text);

/// The pattern of git-LFS, for --include, that matches the file name `text`; '?' stands where it has no other way.
std::string lfs_pattern(std::string_view text);

}  // namespace ckpt
