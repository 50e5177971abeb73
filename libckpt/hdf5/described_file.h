#pragma once
// The helper's answer to the job "describe": superblock and metadata of an HDF5 file, checked against what was asked
// for. Thread safety: plain values. Use: Hdf5Image image = parse_described(std::move(answer), {.metadata_begin = end});

#include <cstdint>
#include <memory>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// What is written at offset 0 and at metadata_begin.
struct Hdf5Image {
  core::Bytes superblock;
  core::Bytes metadata;
  std::shared_ptr<const core::ByteVector> answer;  ///< that both lie in
};

struct DescribedPlan {
  std::uint64_t user_block = 0;
  std::uint64_t metadata_begin = 0;  ///< from the end of the user block
  std::uint64_t datasets = 0;
};

/// Nothing of the answer is trusted: the superblock must be the one that leads to this metadata, and no byte of it lies
/// where tensors are. Errors: what the helper says (unsupported, refused, io for memory, internal); Error(internal) for
/// an answer that contradicts itself or the plan; Error(unsupported) for a helper of another version.
Hdf5Image parse_described(core::ByteVector answer, const DescribedPlan& plan);

}  // namespace ckpt::detail
