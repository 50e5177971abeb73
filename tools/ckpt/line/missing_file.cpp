#include "tools/ckpt/line/missing_file.h"

#include <filesystem>

#include "libcore/base/text.h"
#include "tools/support/suggest.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFiles = 10'000;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (names.size() == kMaxFiles) break;
    names.push_back(at->path().filename().string());
  }
  return names;
}

}  // namespace

std::optional<core::Error> file_guess(const core::Error& error) {
  std::error_code ignored;
  bool is_about_missing = error.code() == core::ErrorCode::io && error.message().ends_with("no such file or folder");
  if (!is_about_missing || error.context().empty() || fs::exists(error.context().front(), ignored)) return std::nullopt;
  fs::path path = error.context().front();
  fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::optional<std::string> meant = nearest(path.filename().string(), names_in(folder));
  if (!meant) return std::nullopt;
  fs::path guess = path.has_parent_path() ? path.parent_path() / *meant : fs::path(*meant);
  core::Error out(error.code(), error.message() + "; did you mean " + core::quote(guess.string()) + "?");
  for (auto subject = error.context().rbegin(); subject != error.context().rend(); ++subject) out.add_context(*subject);
  return out;
}

}  // namespace cli
