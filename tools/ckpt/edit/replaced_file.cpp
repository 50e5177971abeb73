#include "tools/ckpt/edit/replaced_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

constexpr mode_t kAnyWrite = S_IWUSR | S_IWGRP | S_IWOTH;

/// The superuser may write everything; a file that nobody may write is meant to stay as it is all the same. In a folder
/// that may not be written, that is what is wrong, and the save says so.
bool is_read_only(const std::filesystem::path& path, const struct stat& status) {
  if ((status.st_mode & kAnyWrite) == 0) return true;
  std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  return ::access(path.c_str(), W_OK) != 0 && ::access(folder.c_str(), W_OK) == 0;
}

}  // namespace

void check_replaced(const std::filesystem::path& path, const ReplaceConsent& consent) {
  auto refuse = [&](const std::string& what) {
    throw core::Error(core::ErrorCode::usage, what + ", -o NAME writes a new one").add_context(path);
  };
  std::error_code ignored;
  if (!consent.follow && std::filesystem::is_symlink(path, ignored)) {
    std::filesystem::path behind = std::filesystem::read_symlink(path, ignored);
    refuse("is a symbolic link to " + core::quote(behind.string()) + "; --follow changes that file");
  }
  struct stat status = {};
  if (consent.force || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (status.st_nlink > 1) {
    refuse("is one of " + std::to_string(status.st_nlink) + " hard links to one file; -f changes it all the same");
  }
  if (is_read_only(path, status)) refuse("is read-only; -f changes it all the same");
}

}  // namespace cli
