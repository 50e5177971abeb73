#pragma once
// The HDF5 part of a native file as the helper program sees it, by path below the top group, and the paths and records
// of the index beside it. Shared by verifying and reindexing. Thread safety: plain values once built.
// Use: Hdf5Side side = read_hdf5_side(*input.file, {limits});

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/format/hdf5_write/hdf5_names.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/format/native/value_codec.h"
#include "libckpt/hdf5/tree.h"

namespace ckpt::detail {

struct Hdf5Side {
  std::shared_ptr<const Hdf5Tree> tree;
  std::map<Hdf5Path, const Hdf5Dataset*> datasets;  ///< below "data", in the order of paths
  std::vector<std::string> others;                  ///< what lies elsewhere: paths of links
};

/// Errors: those of walk_hdf5.
Hdf5Side read_hdf5_side(const ByteSource& file, WalkOptions options);

/// A tensor of the index.
struct IndexedTensor {
  NamedEntry named;
  EntryRecord record;
  Hdf5Path path;  ///< of its dataset, where it has one
};

struct IndexSide {
  Value root;                          ///< entries without bytes
  std::vector<IndexedTensor> tensors;  ///< as list_entries() lists them
};

/// Errors: those of decode_tree.
IndexSide read_index_side(const NativeIndex& index, const Limits& limits);

}  // namespace ckpt::detail
