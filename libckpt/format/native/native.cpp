#include "libckpt/format/native/native.h"

#include <array>

namespace ckpt {
namespace {

constexpr std::array<std::string_view, 1> kExtensions = {".ckpt"};

/// The native format holds everything that a Checkpoint can say.
std::vector<Obstacle> no_obstacles(const Checkpoint& /*checkpoint*/, const SaveOptions& /*options*/) {
  return {};
}

}  // namespace

constexpr Format kNativeFormat = {
    .name = "native",
    .title = "native checkpoint (HDF5)",
    .extensions = kExtensions,
    .detect = detail::detect_native,
    .read = detail::read_native,
    .obstacles = no_obstacles,
    .write = detail::write_native,
    .verify = detail::verify_native,
};

}  // namespace ckpt
