#include "tools/ckpt/line/address.h"

#include "libckpt/format/folder.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/line/standard_input.h"

namespace cli {
namespace {

constexpr std::string_view kIndex = ".index.json";

/// "https://[::1]/best.pth::model": only what stands behind the host can be a place in the file.
Address parse_remote(const std::string& text) {
  if (ckpt::has_password(text)) {
    throw core::Error(core::ErrorCode::usage,
                      "an address has a user or password in it, which is not taken from an address; use a token");
  }
  std::size_t path = text.find('/', text.find("://") + 3);
  std::size_t at = text.rfind("::");
  if (path == std::string::npos || at == std::string::npos || at < path) return {text, ""};
  return {text.substr(0, at), text.substr(at + 2)};
}

/// The name that a file of another machine would have here.
std::filesystem::path local_name(const std::filesystem::path& remote) {
  std::string text = remote.native();
  text.resize(std::min(text.find('?'), text.size()));
  while (text.ends_with('/')) text.pop_back();
  return std::filesystem::path(text).filename();
}

}  // namespace

std::string Address::shown() const {
  return shown_path(path.string());
}

bool Address::is_standard_input() const {
  return path.string() == standard_input_path();
}

std::string shown_path(const std::string& path) {
  return !path.empty() && path == standard_input_path() ? "standard input" : path;
}

Address parse_address(const std::string& text) {
  for (std::string_view name : {"-", "/dev/stdin"}) {
    if (text == name) return {spool_standard_input(), ""};
    if (text.starts_with(std::string(name) + "::")) return {spool_standard_input(), text.substr(name.size() + 2)};
  }
  if (ckpt::is_remote_name(text)) return parse_remote(text);
  std::error_code ignored;
  std::size_t at = text.rfind("::");
  if (at == std::string::npos || std::filesystem::exists(text, ignored)) return {text, ""};
  if (at == 0) throw core::Error(core::ErrorCode::usage, core::quote(text) + " has no file name before '::'");
  return {text.substr(0, at), text.substr(at + 2)};
}

std::filesystem::path single_name(const std::filesystem::path& source) {
  std::filesystem::path file = ckpt::is_remote_name(source) ? local_name(source) : source;
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored) && file == source) file = ckpt::resolve_folder(source);
  std::string name = file.filename().string();
  // What one process wrote of a ZeRO checkpoint stands for the folder that was named.
  const bool zero = std::filesystem::is_directory(source, ignored) && name.ends_with("_optim_states.pt");
  if (name == ".metadata" || zero) {
    std::filesystem::path folder = std::filesystem::absolute(zero ? source / name : file, ignored).parent_path();
    return folder.parent_path() / (folder.filename().string() + ".pth");
  }
  if (name.size() > kIndex.size() && name.ends_with(kIndex)) name.resize(name.size() - kIndex.size());
  return file.parent_path() / name;
}

std::filesystem::path derived_name(const std::filesystem::path& source, const std::string& tag) {
  std::filesystem::path bare = single_name(source);
  return bare.parent_path() / (bare.stem().string() + "." + tag + bare.extension().string());
}

std::string without_end_slashes(std::string name) {
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

}  // namespace cli
