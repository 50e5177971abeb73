#pragma once
// What a pickled DeviceMesh says of the rank that wrote it, and what pickled objects of torch.distributed have in
// common. Internal to libckpt/format/fsdp. Thread safety: pure.
// Use: for (const MeshPlace& place : places_in_mesh(mesh)) ...

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libckpt/value.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

/// Which rank of how many.
struct RankOf {
  std::int64_t rank = 0;
  std::int64_t ranks = 0;
};

/// Along one dimension of a mesh.
struct MeshPlace {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

/// Where that rank stands. Errors: Error(corrupt) for what PyTorch would not write.
std::vector<MeshPlace> places_in_mesh(const Value& mesh);
/// Of the mesh that this one was cut from, where it was. nullopt where it does not say. Errors: as places_in_mesh().
std::optional<RankOf> rank_in_mesh(const Value& mesh);

/// The attribute of an instance; of a class with slots they stand second. Errors: Error(corrupt) where it has none.
const Value& attribute(const Value& instance, std::string_view name);
/// The same, or null.
const Value* find_attribute(const Value& instance, std::string_view name);

/// Of a list of numbers, a tuple, or a torch.Size. Errors: Error(corrupt) for anything else, and below 0.
core::Shape numbers_of(const Value& value);

}  // namespace ckpt::detail
