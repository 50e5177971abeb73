#include "libckpt/format/native/native.h"

#include <array>

namespace ckpt::detail {
namespace {

constexpr std::array<std::string_view, 1> kExtensions = {".ckpt"};

/// The native format holds everything that a Checkpoint can say.
std::vector<Obstacle> no_obstacles(const Checkpoint& /*checkpoint*/, const SaveOptions& /*options*/) {
  return {};
}

}  // namespace

constexpr Format kNative = {
    .name = "native",
    .title = "native checkpoint (HDF5)",
    .extensions = kExtensions,
    .detect = detect_native,
    .read = read_native,
    .obstacles = no_obstacles,
    .write = write_native,
    .verify = verify_native,
    .packs = true,
    .holds_views = true,
};

}  // namespace ckpt::detail
