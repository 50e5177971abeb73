#include "libckpt/format/fsdp/sharded_tensor.h"

#include "libckpt/format/corrupt.h"
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

/// The attributes of an instance; of a class with slots they stand second.
const Value& attribute(const Value& instance, std::string_view name) {
  const Value* state = instance.is(Kind::object) ? &instance.as_object().state : &instance;
  if (state->is(Kind::tuple) && state->as_list().size() == 2) state = &state->as_list()[1];
  const Value* found = state->is(Kind::dict) ? state->find(name) : nullptr;
  if (found == nullptr) corrupt("a sharded tensor has no " + core::quote(name));
  return *found;
}

/// A list of numbers, a tuple, or a torch.Size.
core::Shape numbers_of(const Value& value) {
  const Value* list = &value;
  if (value.is(Kind::object) && value.as_object().args.is(Kind::tuple) &&
      value.as_object().args.as_list().size() == 1) {
    list = value.as_object().args.as_list().data();
  }
  if (!list->is(Kind::list) && !list->is(Kind::tuple)) corrupt("a sharded tensor has no list of sizes");
  core::Shape out;
  for (const Value& number : list->as_list()) {
    if (!number.is(Kind::integer) || number.as_integer() < 0) corrupt("a sharded tensor has a size that is none");
    out.push_back(number.as_integer());
  }
  return out;
}

Box box_of(const Value& metadata) {
  return {numbers_of(attribute(metadata, "shard_offsets")), numbers_of(attribute(metadata, "shard_sizes"))};
}

/// (dtype, layout, ...) or {'dtype': ...}.
core::DType dtype_of(const Value& properties) {
  const Value* state = properties.is(Kind::object) ? &properties.as_object().state : &properties;
  const bool tuple = state->is(Kind::tuple) && !state->as_list().empty();
  const Value& dtype = tuple ? state->as_list()[0] : attribute(properties, "dtype");
  std::optional<core::DType> known;
  if (dtype.is(Kind::object)) known = core::try_parse_dtype(dtype.as_object().symbol);
  if (!known || core::bit_width(*known) % 8 != 0) corrupt("a sharded tensor is of no known type");
  return *known;
}

Shard shard_of(const Value& value, const Shards& whole) {
  Shard shard{box_of(attribute(value, "metadata")), nullptr};
  const std::string text = "the piece " + core::to_list(shard.box.sizes) + " at " + core::to_list(shard.box.offsets);
  if (!whole.all.contains(place_of(shard.box))) corrupt(text + " is none of those that the tensor lists");
  const Value& tensor = attribute(value, "tensor");
  if (!tensor.is(Kind::tensor) || tensor.as_entry().bytes == nullptr) corrupt(text + " has no values");
  const Entry& entry = tensor.as_entry();
  if (entry.shape != shard.box.sizes || entry.dtype != whole.dtype) {
    corrupt(text + " has values of the shape " + core::to_list(entry.shape) + " and the type " +
            std::string(core::name(entry.dtype)) + " where the tensor is " + std::string(core::name(whole.dtype)));
  }
  shard.values = tensor.entry_ptr();
  return shard;
}

}  // namespace

Place place_of(const Box& box) {
  return {{box.offsets.begin(), box.offsets.end()}, {box.sizes.begin(), box.sizes.end()}};
}

bool is_sharded(const Value& value) {
  return state_of_shards(value) != nullptr;
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
  const Value::List& state = *state_of_shards(value);
  Shards out;
  out.shape = numbers_of(attribute(state[1], "size"));
  out.dtype = dtype_of(attribute(state[1], "tensor_properties"));
  const Value& all = attribute(state[1], "shards_metadata");
  if (!all.is(Kind::list) || !state[0].is(Kind::list)) corrupt("a sharded tensor has no list of pieces");
  for (const Value& metadata : all.as_list()) out.all.insert(place_of(box_of(metadata)));
  for (const Value& shard : state[0].as_list()) out.local.push_back(shard_of(shard, out));
  return out;
}

std::optional<RankOf> rank_of(const Value& root) {
  const Value* sharded = first_sharded(root);
  if (sharded == nullptr) return std::nullopt;
  const Value& group = (*state_of_shards(*sharded))[2];
  const Value& rank = attribute(group, "global_rank");
  const Value& ranks = attribute(group, "global_world_size");
  if (!rank.is(Kind::integer) || !ranks.is(Kind::integer)) return std::nullopt;
  return RankOf{rank.as_integer(), ranks.as_integer()};
}

}  // namespace ckpt::detail
