#pragma once
// `index.ckpt-parts`: the list of a checkpoint whose parts are ordinary `.ckpt` files, one a rank: what each item is
// and which part has which box of it. JSON. Thread safety: plain values. Use: PartsIndex index =
// read_parts_index(*file, options);

#include <string>
#include <string_view>
#include <vector>

#include "libckpt/format/dcp/nested.h"
#include "libckpt/format/dcp/parts_file.h"
#include "libckpt/format/dcp/tiling.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/options.h"

namespace ckpt::detail {

inline constexpr std::string_view kPartsIndex = "index.ckpt-parts";
inline constexpr std::string_view kSaveIdKey = "ckpt.save_id";  ///< in the metadata of every part

struct IndexedBox {
  Box box;
  std::size_t part = 0;
};

struct IndexedItem {
  std::string name;  ///< under which a part has it
  std::vector<PathStep> path;
  bool is_tensor = false;
  core::DType dtype = core::DType::f32;
  bool requires_grad = false;
  core::Shape shape;
  std::vector<IndexedBox> boxes;  ///< of a tensor
  std::size_t part = 0;           ///< of anything else
};

struct PartsIndex {
  std::string save_id;
  std::vector<PartFacts> parts;
  std::vector<IndexedItem> items;
};

std::string encode_parts_index(const PartsIndex& index);
/// Errors: Error(corrupt) for what contradicts itself; Error(refused) for limits and for parts that do not lie in the
/// folder; Error(unsupported) for a later version.
PartsIndex read_parts_index(const ByteSource& file, const OpenOptions& options);

/// "part-00003.ckpt", of rank 3.
std::string native_part_name(std::uint64_t rank);
/// Whether a save may remove it with the folder that it replaces: the index, parts of ranks, and what killed or undone
/// edits of them left. Other names, also of `.ckpt` files, are somebody's own.
bool is_file_of_parts(std::string_view name);

}  // namespace ckpt::detail
