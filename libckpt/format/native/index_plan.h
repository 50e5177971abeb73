#pragma once
// What a native file says of a tree whose payloads are planned: the index, and the datasets that HDF5 readers see.
// Thread safety: pure functions. Use: NativeIndex index = plan_index(checkpoint, plan_payloads(checkpoint.root));

#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/format/hdf5_write/hdf5_tree.h"
#include "libckpt/format/native/layout.h"
#include "libckpt/format/native/payload_plan.h"

namespace ckpt::detail {

/// All of it but payloads, the hashes of the HDF5 side, and parity.
NativeIndex plan_index(const Checkpoint& checkpoint, const PayloadPlan& plan);

/// One for every tensor that has a window into this file. They refer to `checkpoint` and to the payloads of `index`,
/// which must stay.
std::vector<DatasetPlan> plan_datasets(const Checkpoint& checkpoint, const PayloadPlan& plan, const NativeIndex& index);

/// The superblock with the zeros that follow it up to the first payload.
core::ByteVector padded_superblock(const Hdf5Image& image);

/// The hashes of the HDF5 side.
std::vector<StampedRange> stamp(Bytes superblock, std::uint64_t metadata_begin, Bytes metadata);

}  // namespace ckpt::detail
