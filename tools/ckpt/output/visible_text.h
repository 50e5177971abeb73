#pragma once
// Text that came from a file, made fit for a terminal: whatever could move the cursor, change colors, hide or reorder
// text stands as \x1b or \u202e; all else stays as it is, backslashes too (core::printable() doubles them, so that it
// can be read back; this is for text that holds such names already).
// Thread safety: pure functions. Use: out.print("note: " + one_line(note) + "\n");

#include <string>
#include <string_view>

namespace cli {

/// True when nothing of it has to change: printable ASCII and line ends. Cheap, for nearly all of what is printed.
bool is_plain_text(std::string_view text);
/// With its lines and tabs as they are.
std::string visible(std::string_view text);
/// As one line: line ends and tabs are written \n and \t.
std::string one_line(std::string_view text);
/// A JSON document that means the same, with such characters as \u escapes.
std::string visible_json(std::string_view json);

}  // namespace cli
