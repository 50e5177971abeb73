#pragma once
// The HDF5 view of a file: a dataset for every tensor, laid over payload bytes that are already in place. libhdf5 makes
// it in the helper program. Thread safety: a describer has one owner; any number may be at work. Use: Hdf5Describer
// helper; helper.require_ready(); Hdf5Image image = build_hdf5(helper, {datasets, {.metadata_begin = end}});

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/format/hdf5_write/hdf5_names.h"
#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/hdf5/describer.h"

namespace ckpt::detail {

/// A whole dataset of another file, as a part of a virtual dataset.
struct VirtualPiece {
  std::string file;     ///< as seen from the folder of the file that is written
  std::string dataset;  ///< "/data/fc/weight"
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
};

/// One dataset to describe.
struct DatasetPlan {
  std::string name;  ///< of the tensor
  Hdf5Path path;     ///< below the top group
  const Entry* entry = nullptr;
  const Payload* payload = nullptr;
  std::uint64_t offset = 0;  ///< of the tensor's bytes in the payload
  /// Another tensor of the same bytes, which comes before this one: a hard link to its dataset is made.
  const Hdf5Path* same_as = nullptr;
  const std::vector<VirtualPiece>* pieces = nullptr;  ///< of a virtual dataset, which has no payload
};

struct Hdf5Place {
  std::uint64_t user_block = 0;
  std::uint64_t metadata_begin = 0;  ///< from the end of the user block
};

/// A text, an integer, a real or a boolean.
struct Hdf5RootAttribute {
  std::string name;
  Value value;
};

/// What a plain file has and a native one has not, and the other way round.
struct Hdf5Style {
  std::string top_group = "data";  ///< "" for none
  /// Links are made, and listed by readers that ask for it, in the order of the plans. Otherwise by name.
  bool keep_order = false;
  bool locations = false;  ///< attribute ckpt_location where it is not "cpu"
  std::vector<Hdf5RootAttribute> attributes = {};
};

/// Attribute of the root of a file whose datasets are all virtual: the folder that has the values, as seen from there.
inline constexpr std::string_view kVirtualOf = "ckpt_virtual_of";

/// Attributes that are longer do not fit into an object of the old kind.
inline constexpr std::size_t kMaxHdf5Text = 60'000;

/// All that the helper has to know.
struct Hdf5Plan {
  std::vector<DatasetPlan> datasets;
  Hdf5Place place = {};
  Hdf5Style style = {};
};

/// REQUIRES with style.keep_order: plans that share a group follow one another (in_group_order() sees to it).
/// The same input gives the same bytes. Cost: about 20 µs a dataset in the helper, and its metadata in memory, there
/// and here (about 200 bytes each). Errors: those of Hdf5Describer::describe().
Hdf5Image build_hdf5(Hdf5Describer& helper, Hdf5Plan plan);

/// True when the datasets differ in nothing but where they lie. REQUIRES: as many, in the same order.
bool same_but_for_paths(const Hdf5Plan& first, const Hdf5Plan& second);

/// Positions of the paths in an order that keeps groups together and otherwise follows the first appearance.
std::vector<std::size_t> in_group_order(const std::vector<Hdf5Path>& paths);

}  // namespace ckpt::detail
