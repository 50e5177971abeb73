#include "libckpt/hdf5/helper/described_image.h"

#include <algorithm>

#include "libckpt/io/packed.h"

namespace ckpt::detail {
namespace {

/// The root group's entry in the superblock may repeat where the group lies. Newer libraries clear that when they
/// merely open a file for writing, which would make an unchanged file look changed; so it is never set.
void clear_cached_root(core::ByteVector& superblock) {
  constexpr std::size_t kCacheType = 72;
  constexpr std::size_t kEnd = 96;
  if (superblock.size() != kEnd) throw Failure{kFailureInternal, "libhdf5 wrote another superblock"};
  std::fill(superblock.begin() + kCacheType, superblock.end(), std::byte{0});
}

}  // namespace

void send_image(MemoryFile& memory, std::uint64_t count, Reply& reply) {
  core::ByteVector superblock = memory.take_superblock();
  clear_cached_root(superblock);
  core::ByteVector metadata = memory.take_metadata();
  reply.send(kFrameSuperblock, superblock);
  reply.send(kFrameMetadata, metadata);
  reply.begin(kFrameEnd);
  put_count(reply.content(), count);
  put_count(reply.content(), metadata.size());
  reply.end();
  reply.flush();
}

}  // namespace ckpt::detail
