#pragma once
// The HDF5 view of a native file: a dataset for every tensor, laid over payload bytes that are already in place.
// Thread safety: libhdf5 has one lock; any number of threads may call this. Use: Hdf5Image image =
// build_hdf5(datasets, {.user_block = 4096, .metadata_begin = end});

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/format/hdf5_write/hdf5_names.h"
#include "libckpt/format/hdf5_write/payload.h"

namespace ckpt::detail {

/// One dataset to describe.
struct DatasetPlan {
  std::string name;  ///< of the tensor
  Hdf5Path path;     ///< below the top group
  const Entry* entry = nullptr;
  const Payload* payload = nullptr;
  std::uint64_t offset = 0;  ///< of the tensor's bytes in the payload
};

struct Hdf5Place {
  std::uint64_t user_block = 0;
  std::uint64_t metadata_begin = 0;  ///< from the end of the user block
};

/// What is written at offset 0 and at metadata_begin.
struct Hdf5Image {
  core::ByteVector superblock;
  core::ByteVector metadata;
};

/// The same input gives the same bytes. Cost: about 20 µs a dataset, and its metadata in memory (about 500 bytes each).
/// Errors: Error(internal) with libhdf5's reason.
Hdf5Image build_hdf5(std::vector<DatasetPlan> datasets, const Hdf5Place& place);

}  // namespace ckpt::detail
