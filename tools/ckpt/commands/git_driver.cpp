#include "tools/ckpt/commands/git_driver.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "libckpt/format/format.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/byte_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/process.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorCode;

constexpr std::string_view kBegin = "# ckpt: begin (made by 'ckpt git install')\n";
constexpr std::string_view kEnd = "# ckpt: end\n";
constexpr std::uint64_t kMaxAttributes = 16 << 20;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

/// What git says; throws its words when it fails.
std::string git(std::vector<std::string> words) {
  words.insert(words.begin(), "git");
  ProcessResult result = run_process(words);
  if (result.code == 127) throw Error(ErrorCode::io, "git is not installed, or not in $PATH");
  if (result.code != 0) throw Error(ErrorCode::io, "git says: " + core::quote(trimmed(result.err)));
  return trimmed(result.out);
}

/// A value of the configuration, "" for none.
std::string config(const GitScope& scope, const std::string& key) {
  std::string where = scope.global ? "--global" : "--local";
  return trimmed(run_process({"git", "config", where, "--get", key}).out);
}

fs::path global_attributes() {
  std::string chosen = trimmed(run_process({"git", "config", "--global", "--type=path", "core.attributesFile"}).out);
  if (!chosen.empty()) return chosen;
  const char* config_home = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config_home != nullptr && *config_home != '\0') return fs::path(config_home) / "git" / "attributes";
  if (home == nullptr) throw Error(ErrorCode::io, "no $HOME to keep git's attributes in");
  return fs::path(home) / ".config" / "git" / "attributes";
}

std::string read_text(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return "";
  ckpt::SourcePtr file = ckpt::open_file(path);
  if (file->size() > kMaxAttributes) throw Error(ErrorCode::refused, "too large for git attributes").add_context(path);
  core::ByteVector bytes = ckpt::read_all(*file);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The text without our block.
std::string without_block(std::string text) {
  std::size_t begin = text.find(kBegin);
  if (begin == std::string::npos) return text;
  std::size_t end = text.find(kEnd, begin);
  end = end == std::string::npos ? text.size() : end + kEnd.size();
  return text.erase(begin, end - begin);
}

/// Git does not read a .gitattributes that is a link, and a link in a clone may lead anywhere; that of the user's own
/// configuration is followed.
void require_no_link(const GitScope& scope, const fs::path& path) {
  std::error_code ignored;
  if (scope.global || !fs::is_symlink(path, ignored)) return;
  throw Error(ErrorCode::refused, "is a symbolic link, which git does not read; put a file in its place")
      .add_context(path.string());
}

void write_text(const fs::path& path, const std::string& text) {
  std::error_code error;
  if (text.empty()) {
    fs::remove(path, error);
    return;
  }
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  ckpt::AtomicFile file(path);
  file.write(core::as_bytes(text));
  file.commit();
}

/// For the shell that git hands the command to: any sh, and nobody reads it.
std::string shell_quote(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

GitDriver locate_driver(const GitScope& scope) {
  GitDriver driver;
  driver.scope = scope;
  if (scope.global) {
    git({"--version"});
    driver.attributes = global_attributes();
  } else {
    driver.attributes = fs::path(git({"rev-parse", "--show-toplevel"})) / ".gitattributes";
  }
  driver.configured = config(scope, "diff.ckpt.textconv");
  driver.has_patterns = read_text(driver.attributes).find(kBegin) != std::string::npos;
  return driver;
}

std::vector<std::string> driver_patterns() {
  std::set<std::string> patterns;
  for (const ckpt::Format* format : ckpt::formats()) {
    for (std::string_view extension : format->extensions) {
      // An index is text that git shows well, and not everything called .bin is a checkpoint.
      if (extension.ends_with(".json") || extension == ".bin" || !extension.starts_with('.')) continue;
      patterns.insert("*" + std::string(extension) + " diff=ckpt");
    }
  }
  patterns.insert("pytorch_model*.bin diff=ckpt");
  return {patterns.begin(), patterns.end()};
}

std::string textconv_command() {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  const char* path = std::getenv("PATH");
  for (std::string_view folder : core::split(path == nullptr ? "" : path, ':')) {
    fs::path found = fs::path(folder) / "ckpt";
    if (!fs::exists(found, error)) continue;
    if (fs::equivalent(found, self, error)) return "ckpt git textconv --";
    break;
  }
  return shell_quote(self.string()) + " git textconv --";
}

void install_driver(const GitDriver& driver) {
  require_no_link(driver.scope, driver.attributes);
  std::string text = without_block(read_text(driver.attributes));
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += kBegin;
  for (const std::string& pattern : driver_patterns()) text += pattern + "\n";
  write_text(driver.attributes, text + std::string(kEnd));
  std::string where = driver.scope.global ? "--global" : "--local";
  git({"config", where, "diff.ckpt.textconv", textconv_command()});
  git({"config", where, "diff.ckpt.cachetextconv", "true"});
  git({"config", where, "diff.ckpt.binary", "true"});
}

void uninstall_driver(const GitDriver& driver) {
  require_no_link(driver.scope, driver.attributes);
  std::string text = read_text(driver.attributes);
  std::string rest = without_block(text);
  if (rest != text) write_text(driver.attributes, rest);
  if (driver.configured.empty()) return;
  git({"config", driver.scope.global ? "--global" : "--local", "--remove-section", "diff.ckpt"});
}

}  // namespace cli
