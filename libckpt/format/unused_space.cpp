#include "libckpt/format/unused_space.h"

#include <algorithm>

#include "libckpt/format/format.h"
#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"
#include "libckpt/format/native/gaps.h"

namespace ckpt {
namespace {

constexpr std::uint64_t kLittle = 16ULL << 10;
constexpr std::uint64_t kLittleShare = 16;

}  // namespace

std::uint64_t unused_space(const Checkpoint& checkpoint) {
  bool native = checkpoint.format == "native";
  if (!native && checkpoint.format != "hdf5") return 0;
  Input input = open_input(checkpoint.path, {});
  std::uint64_t unused = native ? detail::native_unused_bytes(input) : detail::hdf5_unused_bytes(*input.file);
  return unused >= std::max(kLittle, input.file->size() / kLittleShare) ? unused : 0;
}

}  // namespace ckpt
