#include "libckpt/format/torch_zip/keepable.h"

#include <unordered_map>
#include <unordered_set>

#include "libckpt/format/torch/loops.h"
#include "libckpt/format/torch/pickle_cursor.h"
#include "libckpt/format/torch/value_pickler.h"
#include "libckpt/sequence_of.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using Kind = Obstacle::Kind;

class TreeFilter {
 public:
  KeepableTree run(const Value& root) {
    std::optional<Value> kept = filter(root);
    return {kept.value_or(Value()), std::move(obstacles_)};
  }

 private:
  /// The value itself where nothing below it is left out, so that aliases stay aliases. nullopt: cannot be held.
  std::optional<Value> filter(const Value& value);
  std::optional<Value> filter_sequence(const Value& value);
  std::optional<Value> filter_dict(const Value& value);
  std::optional<Value> filter_object(const Value& value);
  std::optional<Value> filter_tensor(const Value& value);
  std::optional<Value> child(const Value& step, const Value& value);
  std::string name() const;
  std::optional<Value> refuse(Obstacle obstacle);

  std::vector<Value> path_;
  std::vector<Obstacle> obstacles_;
  std::unordered_map<const void*, std::string> locations_;  ///< of storages, by the first tensor in them
  std::unordered_set<std::int64_t> labels_;                 ///< of objects that contain themselves
  bool in_quantized_ = false;
};

std::string TreeFilter::name() const {
  std::string name;
  for (const Value& step : path_) name += (name.empty() ? "" : ".") + step_text(step);
  return name;
}

std::optional<Value> TreeFilter::refuse(Obstacle obstacle) {
  obstacles_.push_back(std::move(obstacle));
  return std::nullopt;
}

std::optional<Value> TreeFilter::child(const Value& step, const Value& value) {
  path_.push_back(step);
  std::optional<Value> kept = filter(value);
  path_.pop_back();
  return kept;
}

std::optional<Value> TreeFilter::filter(const Value& value) {
  if (value.is(Value::Kind::tensor)) return filter_tensor(value);
  if (value.is(Value::Kind::dict)) return filter_dict(value);
  if (value.is(Value::Kind::object)) return filter_object(value);
  if (value.is(Value::Kind::text) && !is_pickle_utf8(value.as_text())) {
    return refuse({name(), Kind::value, "text that is not valid UTF-8"});
  }
  return value.is_sequence() ? filter_sequence(value) : value;
}

std::optional<Value> TreeFilter::filter_sequence(const Value& value) {
  std::size_t before = obstacles_.size();
  Value::List items;
  for (std::size_t i = 0; i < value.as_list().size(); ++i) {
    items.push_back(child(Value::integer(static_cast<std::int64_t>(i)), value.as_list()[i]).value_or(Value()));
  }
  return obstacles_.size() == before ? value : detail::sequence_of(value.kind(), std::move(items));
}

std::optional<Value> TreeFilter::filter_dict(const Value& value) {
  std::size_t before = obstacles_.size();
  const Dict& dict = value.as_dict();
  Dict kept = {dict.type, {}, dict.attributes, dict.constructor_args};
  for (const auto& [key, item] : dict.items) {
    bool good = child(key, key).has_value();
    if (std::optional<Value> held = good ? child(key, item) : std::nullopt)
      kept.items.emplace_back(key, std::move(*held));
  }
  if (obstacles_.size() == before) return value;
  return Value::dict(std::move(kept));
}

/// An object is held whole or not at all: with a part missing it would be another object.
std::optional<Value> TreeFilter::filter_object(const Value& value) {
  const Object& object = value.as_object();
  if (object.form == Object::Form::call && object.kwargs.is(Value::Kind::dict)) {
    return refuse({name(), Kind::object, "a call with keyword arguments"});
  }
  if (std::optional<Label> label = as_label(object)) labels_.insert(label->number);
  if (std::optional<std::int64_t> label = reference_number(object); label && !labels_.contains(*label)) {
    return refuse({name(), Kind::object, "it refers to an object that is not there"});
  }
  std::size_t before = obstacles_.size();
  bool outside = in_quantized_;
  in_quantized_ = object.symbol == "torch._utils._rebuild_qtensor" || object.symbol.ends_with("Storage");
  std::size_t index = 0;
  auto look = [&](const Value& part) { child(Value::integer(static_cast<std::int64_t>(index++)), part); };
  look(object.args);
  for (const Value& item : object.appended) look(item);
  for (const auto& [key, item] : object.items) look(item);
  look(object.state);
  in_quantized_ = outside;
  return obstacles_.size() == before ? std::optional<Value>(value) : std::nullopt;
}

std::optional<Value> TreeFilter::filter_tensor(const Value& value) {
  const Entry& entry = value.as_entry();
  if (!torch_can_hold(entry.dtype)) return refuse(dtype_obstacle(name(), entry.dtype));
  if (core::is_quantized(entry.dtype) && !in_quantized_) {
    return refuse({name(), Kind::scale, "dtype " + std::string(core::name(entry.dtype)) + " without a scale"});
  }
  const void* storage = storage_identity(entry);
  if (storage == nullptr) return value;
  auto [at, fresh] = locations_.try_emplace(storage, entry.location);
  if (at->second == entry.location) return value;
  return refuse(
      {name(), Kind::shared,
       "it shares memory with a tensor on " + core::quote(at->second) + " and is on " + core::quote(entry.location)});
}

}  // namespace

KeepableTree keepable_tree(const Value& root) {
  return TreeFilter().run(root);
}

}  // namespace ckpt
