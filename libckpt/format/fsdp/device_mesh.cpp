#include "libckpt/format/fsdp/device_mesh.h"

#include <algorithm>

#include "libckpt/entry.h"
#include "libckpt/format/corrupt.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

/// A number, or numbers that are multiplied.
std::int64_t extent_of(const Value& value) {
  std::int64_t extent = 1;
  core::Shape factors;
  if (value.is(Value::Kind::integer)) {
    factors.push_back(value.as_integer());
  } else {
    factors = numbers_of(value);
  }
  for (std::int64_t factor : factors) {
    if (factor < 1 || factor > kMostRanks / extent) corrupt("a device mesh has an impossible size");
    extent *= factor;
  }
  return extent;
}

/// Of each dimension: of a layout with axes, of one with sizes, or of the tensor of ranks that releases before 2.9
/// kept.
std::vector<std::int64_t> sizes_of(const Value& mesh) {
  std::vector<std::int64_t> out;
  if (const Value* layout = find_attribute(mesh, "_layout"); layout != nullptr && layout->is(Value::Kind::object)) {
    const Value* axes = find_attribute(*layout, "axes");
    const Value& list = axes != nullptr ? *axes : attribute(*layout, "shape");
    if (list.is(Value::Kind::integer)) return {extent_of(list)};
    if (!list.is_sequence()) corrupt("a device mesh has no list of sizes");
    for (const Value& axis : list.as_list())
      out.push_back(extent_of(axes != nullptr ? attribute(axis, "shape") : axis));
    return out;
  }
  const Value& ranks = attribute(mesh, "mesh");
  if (!ranks.is(Value::Kind::tensor)) corrupt("a device mesh has no sizes");
  for (std::int64_t size : ranks.as_entry().shape) out.push_back(size);
  return out;
}

std::int64_t count_of(const Value& mesh) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes_of(mesh)) {
    if (size < 1 || size > kMostRanks / count) corrupt("a device mesh has an impossible size");
    count *= size;
  }
  return count;
}

}  // namespace

std::vector<MeshPlace> places_in_mesh(const Value& mesh) {
  const std::vector<std::int64_t> sizes = sizes_of(mesh);
  const Value& coordinate = attribute(mesh, "_coordinate_on_dim");
  if (!coordinate.is_sequence()) corrupt("a tensor lies on a device mesh that its rank is not of");
  const core::Shape at = numbers_of(coordinate);
  if (at.size() != sizes.size()) corrupt("a rank's place in a device mesh has not the mesh's dimensions");
  std::vector<MeshPlace> out;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1 || at[i] >= sizes[i]) corrupt("a rank's place in a device mesh lies outside of it");
    out.push_back({at[i], sizes[i]});
  }
  return out;
}

std::optional<RankOf> rank_in_mesh(const Value& mesh) {
  const Value* root = find_attribute(mesh, "_root_mesh");
  const std::int64_t ranks = count_of(root != nullptr && root->is(Value::Kind::object) ? *root : mesh);
  const Value* own = find_attribute(mesh, "_rank");
  if (own != nullptr && own->is(Value::Kind::integer)) return RankOf{own->as_integer(), ranks};
  // Releases before kept a list of the ranks alone.
  const Value* list = find_attribute(mesh, "_flatten_mesh_list");
  if (list == nullptr || !list->is_sequence()) return std::nullopt;
  std::size_t at = 0;
  for (const MeshPlace& place : places_in_mesh(mesh)) {
    at = at * static_cast<std::size_t>(place.count) + static_cast<std::size_t>(place.index);
  }
  const core::Shape all = numbers_of(*list);
  if (at >= all.size()) corrupt("a device mesh lists fewer ranks than it has");
  return RankOf{all[at], ranks};
}

const Value* find_attribute(const Value& instance, std::string_view name) {
  const Value* state = instance.is(Value::Kind::object) ? &instance.as_object().state : &instance;
  if (state->is(Value::Kind::tuple) && state->as_list().size() == 2) state = &state->as_list()[1];
  return state->is(Value::Kind::dict) ? state->find(name) : nullptr;
}

const Value& attribute(const Value& instance, std::string_view name) {
  const Value* found = find_attribute(instance, name);
  if (found == nullptr) corrupt("a sharded tensor has no " + core::quote(name));
  return *found;
}

core::Shape numbers_of(const Value& value) {
  const Value* list = &value;
  if (value.is(Value::Kind::object) && value.as_object().args.is(Value::Kind::tuple) &&
      value.as_object().args.as_list().size() == 1) {
    list = value.as_object().args.as_list().data();
  }
  if (!list->is(Value::Kind::list) && !list->is(Value::Kind::tuple)) corrupt("a sharded tensor has no list of sizes");
  core::Shape out;
  for (const Value& number : list->as_list()) {
    if (!number.is(Value::Kind::integer) || number.as_integer() < 0)
      corrupt("a sharded tensor has a size that is none");
    out.push_back(number.as_integer());
  }
  return out;
}

}  // namespace ckpt::detail
