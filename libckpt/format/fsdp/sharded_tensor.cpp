#include "libckpt/format/fsdp/sharded_tensor.h"

#include <algorithm>

#include "libckpt/format/corrupt.h"
#include "libckpt/format/fsdp/device_mesh.h"
#include "libckpt/format/torch/symbols.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using Kind = Value::Kind;

constexpr std::string_view kClass = "torch.distributed._shard.sharded_tensor.api.ShardedTensor";
constexpr std::string_view kRebuild = "torch._tensor._rebuild_from_type_v2";

/// (local shards, metadata, process group, sharding, ...): the last argument of the call that makes it, or the state of
/// an instance. Null for another object.
const Value::List* state_of_shards(const Value& value) {
  if (!value.is(Kind::object)) return nullptr;
  const Object& object = value.as_object();
  const Value* state = &object.state;
  if (object.symbol == kRebuild) {
    if (!object.args.is(Kind::tuple) || object.args.as_list().size() != 4) return nullptr;
    const Value::List& args = object.args.as_list();
    if (!args[1].is(Kind::object) || args[1].as_object().symbol != kClass) return nullptr;
    state = &args[3];
  } else if (object.symbol != kClass || object.form == Object::Form::global) {
    return nullptr;
  }
  return state->is(Kind::tuple) && state->as_list().size() >= 3 ? &state->as_list() : nullptr;
}

Box box_of(const Value& metadata) {
  return {numbers_of(attribute(metadata, "shard_offsets")), numbers_of(attribute(metadata, "shard_sizes"))};
}

core::DType known_dtype(const Value& dtype) {
  std::optional<core::DType> known;
  if (dtype.is(Kind::object)) known = core::try_parse_dtype(dtype.as_object().symbol);
  if (!known || core::bit_width(*known) % 8 != 0) corrupt("a sharded tensor is of no known type");
  return *known;
}

/// (dtype, layout, ...) or {'dtype': ...}.
core::DType dtype_of(const Value& properties) {
  const Value* state = properties.is(Kind::object) ? &properties.as_object().state : &properties;
  const bool tuple = state->is(Kind::tuple) && !state->as_list().empty();
  const Value& dtype = tuple ? state->as_list()[0] : attribute(properties, "dtype");
  return known_dtype(dtype);
}

Shard shard_of(Box box, const Value& tensor, const Shards& whole) {
  Shard shard{std::move(box), nullptr};
  const std::string text = "the piece " + core::to_list(shard.box.sizes) + " at " + core::to_list(shard.box.offsets);
  if (!whole.all.contains(place_of(shard.box))) corrupt(text + " is none of those that the tensor lists");
  if (!tensor.is(Kind::tensor) || tensor.as_entry().bytes == nullptr) corrupt(text + " has no values");
  const Entry& entry = tensor.as_entry();
  if (entry.shape != shard.box.sizes || entry.dtype != whole.dtype) {
    corrupt(text + " has values of the shape " + core::to_list(entry.shape) + " and the type " +
            std::string(core::name(entry.dtype)) + " where the tensor is " + std::string(core::name(whole.dtype)));
  }
  shard.values = tensor.entry_ptr();
  return shard;
}

/// (what makes it, DTensor, (DTensor, type, size, ...), state): the call that makes a DTensor. Null for another object.
const Value::List* call_of_dtensor(const Value& value) {
  if (!value.is(Kind::object) || value.as_object().symbol != kRebuild) return nullptr;
  const Value& args = value.as_object().args;
  if (!args.is(Kind::tuple) || args.as_list().size() != 4) return nullptr;
  const Value::List& call = args.as_list();
  if (!call[1].is(Kind::object) || !is_dtensor_class(call[1].as_object().symbol)) return nullptr;
  return call[2].is(Kind::tuple) && call[2].as_list().size() >= 3 ? &call : nullptr;
}

const Value& spec_of(const Value& dtensor) {
  return attribute((*call_of_dtensor(dtensor))[3], "_spec");
}

/// One dimension cut among `count` as torch.chunk() does: all pieces as long, but the last.
void cut(Box& box, std::int64_t dim, const MeshPlace& place) {
  const auto rank = static_cast<std::int64_t>(box.sizes.size());
  if (dim < -rank || dim >= rank) {
    corrupt("a DTensor of " + std::to_string(rank) + " dimensions is cut along dimension " + std::to_string(dim));
  }
  const auto at = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  const std::int64_t whole = box.sizes[at];
  const std::int64_t each = whole / place.count + (whole % place.count != 0 ? 1 : 0);
  const std::int64_t begin = place.index > whole / std::max<std::int64_t>(each, 1) ? whole : place.index * each;
  box.offsets[at] += begin;
  box.sizes[at] = std::min(each, whole - begin);
}

/// Along which dimension of the tensor each dimension of the mesh cuts; none for copies.
std::vector<std::optional<std::int64_t>> cuts_of(const Value& spec, std::size_t dims) {
  const Value& placements = attribute(spec, "placements");
  if (!placements.is_sequence() || placements.as_list().size() != dims) {
    corrupt("a DTensor has not one placement for each dimension of its mesh");
  }
  std::vector<std::optional<std::int64_t>> out;
  for (const Value& placement : placements.as_list()) {
    const std::string symbol = placement.is(Kind::object) ? placement.as_object().symbol : "";
    const std::string kind = symbol.substr(symbol.rfind('.') + 1);
    out.emplace_back();
    if (kind == "Replicate") continue;
    if (kind != "Shard") {
      throw core::Error(core::ErrorCode::unsupported,
                        "a DTensor has the placement " + core::quote(kind.empty() ? "?" : kind) +
                            ", and only 'Shard' and 'Replicate' are joined here; where the model runs, full_tensor() "
                            "makes it whole, and torch.distributed.checkpoint.save() a folder of all ranks");
    }
    const Value& dim = attribute(placement, "dim");
    if (!dim.is(Kind::integer)) corrupt("a DTensor is cut along a dimension that is no number");
    out.back() = dim.as_integer();
  }
  return out;
}

/// The dimensions of the mesh that cut, one after the other: by number, unless the tensor says another order.
std::vector<std::int64_t> order_of(const std::vector<std::optional<std::int64_t>>& cuts, const Value& spec) {
  std::vector<std::int64_t> by_number;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    if (cuts[i]) by_number.push_back(static_cast<std::int64_t>(i));
  }
  const Value* order = find_attribute(spec, "shard_order");  // releases before 2.10 have none
  if (order == nullptr || !order->is_sequence()) return by_number;
  std::vector<std::int64_t> said;
  for (const Value& entry : order->as_list()) {  // (dimension of the tensor, dimensions of the mesh)
    const Value& pair = entry.is(Kind::object) ? entry.as_object().args : entry;
    if (!pair.is(Kind::tuple) || pair.as_list().size() != 2) corrupt("a DTensor has no list of its cuts");
    for (const std::int64_t dim : numbers_of(pair.as_list()[1])) said.push_back(dim);
  }
  if (!std::ranges::is_permutation(said, by_number)) corrupt("a DTensor's order of cuts is not that of its placements");
  return said;
}

/// Its piece: the whole, cut by each dimension of the mesh in turn.
Box box_of_dtensor(const Value& spec, const core::Shape& shape) {
  const std::vector<MeshPlace> mesh = places_in_mesh(attribute(spec, "mesh"));
  const std::vector<std::optional<std::int64_t>> cuts = cuts_of(spec, mesh.size());
  Box box{shape, shape};
  std::fill(box.offsets.begin(), box.offsets.end(), 0);
  for (const std::int64_t dim : order_of(cuts, spec)) {
    const auto i = static_cast<std::size_t>(dim);
    cut(box, *cuts[i], mesh[i]);
  }
  return box;
}

Shards shards_of_dtensor(const Value& value) {
  const Value::List& call = *call_of_dtensor(value);
  Shards out;
  out.dtype = known_dtype(call[2].as_list()[1]);
  out.shape = numbers_of(call[2].as_list()[2]);
  Box box = box_of_dtensor(spec_of(value), out.shape);
  out.all.insert(place_of(box));
  out.local.push_back(shard_of(std::move(box), attribute(call[3], "_local_tensor"), out));
  return out;
}

}  // namespace

Place place_of(const Box& box) {
  return {{box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()}};
}

bool is_sharded(const Value& value) {
  return state_of_shards(value) != nullptr || call_of_dtensor(value) != nullptr;
}

const Value* first_sharded(const Value& root) {
  std::vector<const Value*> open = {&root};
  while (!open.empty()) {
    const Value& value = *open.back();
    open.pop_back();
    if (is_sharded(value)) return &value;
    if (value.is(Kind::dict)) {
      for (const auto& item : value.as_dict().items) open.push_back(&item.second);
    } else if (value.is_sequence()) {
      for (const Value& item : value.as_list()) open.push_back(&item);
    }
  }
  return nullptr;
}

Shards shards_of(const Value& value) {
  if (call_of_dtensor(value) != nullptr) return shards_of_dtensor(value);
  const Value::List& state = *state_of_shards(value);
  Shards out;
  out.shape = numbers_of(attribute(state[1], "size"));
  out.dtype = dtype_of(attribute(state[1], "tensor_properties"));
  const Value& all = attribute(state[1], "shards_metadata");
  if (!all.is(Kind::list) || !state[0].is(Kind::list)) corrupt("a sharded tensor has no list of pieces");
  for (const Value& metadata : all.as_list()) out.all.insert(place_of(box_of(metadata)));
  for (const Value& shard : state[0].as_list()) {
    out.local.push_back(shard_of(box_of(attribute(shard, "metadata")), attribute(shard, "tensor"), out));
  }
  return out;
}

std::optional<RankOf> rank_of(const Value& root) {
  const Value* sharded = first_sharded(root);
  if (sharded == nullptr) return std::nullopt;
  if (call_of_dtensor(*sharded) != nullptr) return rank_in_mesh(attribute(spec_of(*sharded), "mesh"));
  const Value& group = (*state_of_shards(*sharded))[2];
  const Value& rank = attribute(group, "global_rank");
  const Value& ranks = attribute(group, "global_world_size");
  if (!rank.is(Kind::integer) || !ranks.is(Kind::integer)) return std::nullopt;
  return RankOf{rank.as_integer(), ranks.as_integer()};
}

}  // namespace ckpt::detail
