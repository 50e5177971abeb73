#include "tools/ckpt/commands/why_target.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libckpt/analyze/error_text.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/line/address.h"
#include "zoo/manifest/manifest.h"
#include "zoo/rules/rule_packs.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kMaxText = 256ULL << 20;
constexpr std::size_t kShortMessage = 4000;  // as an argument of the command that is proposed

std::string read_text(const std::filesystem::path& path) {
  ckpt::SourcePtr file = ckpt::open_file(path);
  if (file->size() > kMaxText) throw Error(ErrorCode::refused, "is too long for a text").add_context(path.string());
  return std::string(core::as_text(ckpt::read_all(*file)));
}

/// The name of the file that standard input is, "" for a pipe, a terminal or one that has no name any more.
std::string name_of_standard_input() {
  struct stat open_file {};
  struct stat named {};
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/fd/0", error);
  bool file = !error && ::fstat(STDIN_FILENO, &open_file) == 0 && S_ISREG(open_file.st_mode) &&
              ::stat(path.c_str(), &named) == 0 && named.st_dev == open_file.st_dev && named.st_ino == open_file.st_ino;
  if (!file) return "";
  std::filesystem::path here = std::filesystem::current_path(error);
  if (error) return path.string();
  std::filesystem::path relative = path.lexically_relative(here);
  return !relative.empty() && *relative.begin() != ".." ? relative.string() : path.string();
}

std::string read_stdin() {
  std::string text;
  char piece[65536];
  for (;;) {
    ssize_t n = ::read(STDIN_FILENO, piece, sizeof(piece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw Error(ErrorCode::io, std::string("cannot read: ") + std::strerror(errno)).add_context("standard input");
    if (n == 0) return text;
    text.append(piece, static_cast<std::size_t>(n));
    if (text.size() > kMaxText) throw Error(ErrorCode::refused, "is too long for a text").add_context("standard input");
  }
}

bool standard_input_has_message() {
  struct stat status {};
  if (::fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const off_t from = ::lseek(STDIN_FILENO, 0, SEEK_CUR);
  if (from < 0 || from >= status.st_size) return false;
  std::string text(static_cast<std::size_t>(std::min<off_t>(status.st_size - from, 1 << 20)), '\0');
  const ssize_t size = ::pread(STDIN_FILENO, text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return !ckpt::parse_error_text(text).empty();
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool is_text(const std::string& path) {
  ckpt::SourcePtr file = ckpt::open_file(path);
  core::ByteVector head(std::min<std::uint64_t>(512, file->size()));
  file->read(0, head);
  return std::all_of(head.begin(), head.end(), [](std::byte b) {
    auto c = static_cast<unsigned char>(b);
    return c >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

/// A checkpoint where it is one, else a list of keys.
ckpt::KeyList list_of_file(const ReadOptions& read, const Address& address) {
  std::string name = address.shown();
  ckpt::Report report;
  ckpt::OpenOptions options = read.open(report);
  options.foreign_objects = true;
  try {
    ckpt::Checkpoint checkpoint = ckpt::open(address.path, options);
    return core::with_context(name, [&] { return ckpt::key_list_of(checkpoint, address.text(), address.at); });
  } catch (const Error&) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(address.path, ignored) || !is_text(address.path.string())) throw;
  }
  return ckpt::parse_key_list(read_text(address.path), name);
}

}  // namespace

ckpt::KeyList key_list_of_target(const ReadOptions& read, const std::string& name) {
  Address address = parse_address(name);
  if (ckpt::is_remote_name(address.path) || exists(address.path.string())) return list_of_file(read, address);
  return known_model(name);
}

ckpt::KeyList known_model(const std::string& name) {
  if (auto known = zoo::find_manifest(name)) return std::move(*known);
  std::vector<std::string> similar = zoo::similar_names(name);
  std::string hint = similar.empty() ? "; see 'ckpt zoo ls'" : "; did you mean " + core::join(similar, ", ") + "?";
  throw Error(ErrorCode::usage, core::quote(name) + " is neither a file nor a known model" + hint);
}

void TargetOptions::read_message() {
  if (error.empty() && standard_input_has_message()) error = "-";
  if (error == "-") {
    std::string name = name_of_standard_input();
    message = read_stdin();
    if (!name.empty()) error = name;
  } else if (!error.empty()) {
    bool file = error.find('\n') == std::string::npos && error.size() < 4096 && exists(error);
    message = file ? read_text(error) : error;
  }
}

ckpt::WhyOptions TargetOptions::why(const ReadOptions& read, const std::string& at) const {
  ckpt::WhyOptions options;
  for (const std::string& name : names) options.wanted.push_back(key_list_of_target(read, name));
  options.error = message;
  options.at = at;
  options.known = []() -> const std::vector<ckpt::KeyList>& { return zoo::all_manifests(); };
  options.packs = zoo::rule_packs;
  options.open.lenient = read.lenient;
  options.open.threads = read.threads;
  return options;
}

bool TargetOptions::decides(const ckpt::ErrorFacts& facts) const {
  using Kind = ckpt::ErrorFacts::Kind;
  return (facts.keys() && names.empty()) || facts.has(Kind::dtype) || facts.has(Kind::optimizer_groups) ||
         facts.has(Kind::device);
}

ckpt::FixCommand TargetOptions::command() const {
  ckpt::FixCommand command;
  for (const std::string& name : names) command.options.emplace_back("--for", name);
  if (error.empty() || !decides(ckpt::parse_error_text(message))) return command;
  if (error != "-" && error.size() < 4096 && exists(error)) {
    command.options.emplace_back("--error", error);
    return command;
  }
  std::string said = ckpt::short_error_text(ckpt::parse_error_text(message));
  command.lacks_message = said.empty() || said.size() > kShortMessage;
  if (!command.lacks_message) command.options.emplace_back("--error", said);
  return command;
}

void add_target_options(CommandSpec command, TargetOptions& target) {
  command
      .add_option("--for", target.names,
                  "what it is to be loaded into: a text or JSON list of keys, another checkpoint, or a known model "
                  "(ckpt zoo ls); may be repeated, the best match counts")
      .type_name("X")
      .one_value_each();
  command
      .add_option("--error", target.error,
                  "the error message, a file that holds it, or - for standard input; text around it does no harm")
      .type_name("TEXT");
}

}  // namespace cli
