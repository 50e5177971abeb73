#pragma once
// What --in-place asks before it touches a file that is more than one file of the user's own.
// Thread safety: pure apart from looking at the file. Use: check_replaced("net.pth", {.follow = options.follow});

#include <filesystem>

namespace cli {

struct ReplaceConsent {
  bool follow = false;  ///< --follow: the file behind a symbolic link is meant
  bool force = false;   ///< -f: also where it has other names, or is read-only
};

/// Error(usage) for a symbolic link without --follow, and for a file with several hard links or without write
/// permission without -f; it names the option.
void check_replaced(const std::filesystem::path& path, const ReplaceConsent& consent);

}  // namespace cli
