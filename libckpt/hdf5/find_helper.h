#pragma once
// Finds the program ckpt-hdf5 and makes sure that it may be started. Thread safety: any thread, as long as nobody
// changes the environment. Use: std::filesystem::path helper = find_hdf5_helper();

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ckpt {

/// The program to start: $CKPT_HDF5_HELPER; else ckpt-hdf5 beside the running program or the library, in
/// ../libexec/ckpt from there, where this library was to be installed, near the program ckpt of $PATH, in the build
/// tree. It must be a regular file that may be executed and that nobody but the user and root can have put there.
/// Errors: Error(unsupported) that says where it was looked for, or what is wrong with the one that $CKPT_HDF5_HELPER
/// names.
std::filesystem::path find_hdf5_helper();

/// nullopt instead of an error.
std::optional<std::filesystem::path> try_find_hdf5_helper();

namespace detail {
/// Where the program is looked for when $CKPT_HDF5_HELPER does not name it, in this order.
std::vector<std::filesystem::path> helper_candidates();
}  // namespace detail

}  // namespace ckpt
