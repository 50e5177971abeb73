#include "libckpt/format/torch/value_pickler.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/format/torch/dict_builder.h"
#include "libckpt/format/torch/loops.h"
#include "libckpt/format/torch/pickle_writer.h"
#include "libckpt/format/torch/symbols.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::DType;

/// Python flushes containers in batches of this many items; readers count on short stacks.
constexpr std::size_t kBatch = 1000;

struct PlannedStorage {
  std::size_t number = 0;
  std::string key;
  SourcePtr bytes;
  DType dtype = DType::u8;
  bool untyped = false;
};

/// What has to be known before the first byte: which objects come more than once, and all storages.
class TreeSurvey {
 public:
  TreeSurvey(const Value& root, const StorageKeys& keys) : keys_(keys) { visit(root); }

  bool is_shared(const void* identity) const { return identity != nullptr && counts_.at(identity) > 1; }
  const PlannedStorage& storage(const Entry& entry) const { return storages_.at(storage_identity(entry)); }
  std::vector<SourcePtr> sources() const;

 private:
  void visit(const Value& value);
  void visit_object(const Object& object);
  void visit_items(const std::vector<std::pair<Value, Value>>& items);
  void plan(const Entry& entry);

  const StorageKeys& keys_;
  std::unordered_map<const void*, unsigned> counts_;
  std::unordered_map<const void*, PlannedStorage> storages_;
};

std::vector<SourcePtr> TreeSurvey::sources() const {
  std::vector<SourcePtr> out(storages_.size());
  for (const auto& [identity, storage] : storages_) out[storage.number] = storage.bytes;
  return out;
}

void TreeSurvey::visit(const Value& value) {
  const void* identity = value.identity();
  if (identity == nullptr || ++counts_[identity] > 1) return;
  if (value.is_sequence()) {
    for (const Value& item : value.as_list()) visit(item);
  } else if (value.is(Value::Kind::dict)) {
    const Dict& dict = value.as_dict();
    visit_items(dict.items);
    visit(dict.attributes);
    visit(dict.constructor_args);
  } else if (value.is(Value::Kind::object)) {
    visit_object(value.as_object());
  } else if (value.is(Value::Kind::tensor)) {
    plan(value.as_entry());
    visit(value.as_entry().attributes);
  }
}

void TreeSurvey::visit_items(const std::vector<std::pair<Value, Value>>& items) {
  for (const auto& [key, value] : items) {
    visit(key);
    visit(value);
  }
}

void TreeSurvey::visit_object(const Object& object) {
  visit(object.args);
  visit(object.kwargs);
  for (const Value& item : object.appended) visit(item);
  visit_items(object.items);
  visit(object.state);
}

void TreeSurvey::plan(const Entry& entry) {
  const void* identity = storage_identity(entry);
  if (identity == nullptr) return;
  auto [at, fresh] = storages_.try_emplace(identity);
  PlannedStorage& storage = at->second;
  if (fresh) {
    storage.number = storages_.size() - 1;
    storage.bytes = entry.view && entry.view->storage ? entry.view->storage->bytes : entry.bytes;
    storage.key = keys_ ? keys_(*storage.bytes, storage.number) : std::to_string(storage.number);
    storage.dtype = entry.dtype;
    auto width = static_cast<std::uint64_t>(core::bit_width(entry.dtype));
    storage.untyped = storage_class_name(entry.dtype).empty() || storage.bytes->size() * 8 % width != 0;
  } else if (storage.dtype != entry.dtype) {
    storage.untyped = true;  // one storage class cannot name two types
  }
}

class ValuePickler {
 public:
  ValuePickler(const Value& root, const StorageKeys& keys) : survey_(root, keys) {}

  PickledTree run(const Value& root) {
    write(root);
    out_.stop();
    return {out_.take(), survey_.sources()};
  }

 private:
  void write(const Value& value);
  void write_new(const Value& value);
  void write_tuple(const Value::List& items);
  void write_list(const Value::List& items);
  void write_dict(const Dict& dict);
  void write_items(const std::vector<std::pair<Value, Value>>& items);
  void append_items(const Value::List& items);
  void write_bytes(core::Bytes bytes);
  void write_call(std::string_view symbol, const Value::List& args);
  void write_object(const Object& object);
  void write_reference(std::int64_t label);
  void write_made_object(const Object& object, std::optional<std::int64_t> label);
  bool write_storage_object(const Object& object);

  void write_tensor(const Entry& entry);
  void write_parameter_with_state(const Entry& entry);
  void write_typed_tensor(const Entry& entry);
  void write_outer_args(const Entry& entry);
  void write_plain_call(const Entry& entry);
  void write_plain_args(const Entry& entry);
  void write_meta_args(const Entry& entry);
  void write_window(const Entry& entry);
  void write_quantized(const Object& object);
  void write_storage(const Entry& entry);
  void write_shape(const core::Shape& shape);
  void write_hooks();
  bool is_untyped(const Entry& entry) const { return survey_.storage(entry).untyped; }
  static bool is_meta(const Entry& entry) { return entry.bytes == nullptr; }
  std::string_view plain_function(const Entry& entry) const;

  TreeSurvey survey_;
  PickleWriter out_;
  std::unordered_map<const void*, std::uint32_t> memo_;
  std::unordered_map<std::int64_t, std::uint32_t> labels_;  ///< memo numbers of objects that contain themselves
};

void ValuePickler::write(const Value& value) {
  const void* identity = value.identity();
  if (identity == nullptr || !survey_.is_shared(identity)) return write_new(value);
  if (auto known = memo_.find(identity); known != memo_.end()) return out_.get(known->second);
  write_new(value);
  memo_.emplace(identity, out_.put());
}

void ValuePickler::write_new(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::null:
      return out_.none();
    case Value::Kind::boolean:
      return out_.boolean(value.as_boolean());
    case Value::Kind::integer:
      return out_.integer(value.as_integer());
    case Value::Kind::big_integer:
      return out_.big_integer(value.as_bytes());
    case Value::Kind::real:
      return out_.real(value.as_real());
    case Value::Kind::complex: {
      auto [re, im] = value.as_complex();
      return write_call("builtins.complex", {Value::real(re), Value::real(im)});
    }
    case Value::Kind::text:
      return out_.text(value.as_text());
    case Value::Kind::bytes:
      return write_bytes(value.as_bytes());
    case Value::Kind::bytearray:
      return write_call("builtins.bytearray", {Value::text(latin1_text(value.as_bytes())), Value::text("latin-1")});
    case Value::Kind::list:
      return write_list(value.as_list());
    case Value::Kind::tuple:
      return write_tuple(value.as_list());
    case Value::Kind::set:
    case Value::Kind::frozenset:
      out_.global(value.is(Value::Kind::set) ? "builtins.set" : "builtins.frozenset");
      write_list(value.as_list());
      out_.close_tuple(1);
      return out_.reduce();
    case Value::Kind::dict:
      return write_dict(value.as_dict());
    case Value::Kind::tensor:
      return write_tensor(value.as_entry());
    case Value::Kind::object:
      return write_object(value.as_object());
  }
}

void ValuePickler::write_tuple(const Value::List& items) {
  if (PickleWriter::tuple_needs_mark(items.size())) out_.mark();
  for (const Value& item : items) write(item);
  out_.close_tuple(items.size());
}

void ValuePickler::write_list(const Value::List& items) {
  out_.empty_list();
  append_items(items);
}

void ValuePickler::append_items(const Value::List& items) {
  for (std::size_t from = 0; from < items.size(); from += kBatch) {
    std::size_t count = std::min(kBatch, items.size() - from);
    if (count > 1) out_.mark();
    for (std::size_t i = from; i < from + count; ++i) write(items[i]);
    count > 1 ? out_.appends() : out_.append();
  }
}

void ValuePickler::write_items(const std::vector<std::pair<Value, Value>>& items) {
  for (std::size_t from = 0; from < items.size(); from += kBatch) {
    std::size_t count = std::min(kBatch, items.size() - from);
    if (count > 1) out_.mark();
    for (std::size_t i = from; i < from + count; ++i) {
      write(items[i].first);
      write(items[i].second);
    }
    count > 1 ? out_.set_items() : out_.set_item();
  }
}

void ValuePickler::write_dict(const Dict& dict) {
  if (dict.type == "dict") {
    out_.empty_dict();
    return write_items(dict.items);
  }
  out_.global(dict.type);
  bool counter = dict.type == "collections.Counter";
  if (counter) {
    out_.empty_dict();
    write_items(dict.items);
    out_.close_tuple(1);
  } else {
    write_tuple(dict.constructor_args.is_sequence() ? dict.constructor_args.as_list() : Value::List());
  }
  out_.reduce();
  if (!counter) write_items(dict.items);
  if (dict.attributes.is_null()) return;
  write(dict.attributes);
  out_.build();
}

void ValuePickler::write_call(std::string_view symbol, const Value::List& args) {
  out_.global(symbol);
  for (const Value& arg : args) write_new(arg);  // made on the spot, so never shared; three at most
  out_.close_tuple(args.size());
  out_.reduce();
}

/// Protocol 2 has no bytes: Python writes the Latin-1 text that encodes to them.
void ValuePickler::write_bytes(core::Bytes bytes) {
  out_.global("_codecs.encode");
  out_.text(latin1_text(bytes));
  out_.common_text("latin1");
  out_.close_tuple(2);
  out_.reduce();
}

void ValuePickler::write_object(const Object& object) {
  if (object.form == Object::Form::global) return out_.global(object.symbol);
  if (object.symbol == "torch._utils._rebuild_qtensor") return write_quantized(object);
  if (std::optional<std::int64_t> label = reference_number(object)) return write_reference(*label);
  if (std::optional<Label> label = as_label(object)) return write_made_object(*label->object, label->number);
  if (!write_storage_object(object)) write_made_object(object, std::nullopt);
}

void ValuePickler::write_reference(std::int64_t label) {
  auto known = labels_.find(label);
  if (known == labels_.end()) throw core::Error(core::ErrorCode::unsupported, "an object that others refer to is gone");
  out_.get(known->second);
}

/// An object with a label is put into the memo before its state, which may lead back to it.
void ValuePickler::write_made_object(const Object& object, std::optional<std::int64_t> label) {
  out_.global(object.symbol);
  write_tuple(object.args.is_sequence() ? object.args.as_list() : Value::List());
  bool kwargs = object.kwargs.is(Value::Kind::dict);
  if (kwargs) write(object.kwargs);
  if (object.form == Object::Form::call) {
    out_.reduce();
  } else {
    kwargs ? out_.new_object_kwargs() : out_.new_object();
  }
  if (label) labels_[*label] = out_.put();
  append_items(object.appended);
  write_items(object.items);
  if (!object.has_state) return;
  write(object.state);
  out_.build();
}

/// A storage saved by itself is carried as its class called with one flat tensor.
bool ValuePickler::write_storage_object(const Object& object) {
  bool is_storage = storage_class_dtype(object.symbol) && object.args.is_sequence() &&
                    object.args.as_list().size() == 1 && object.args.as_list()[0].is(Value::Kind::tensor);
  if (is_storage) write_storage(object.args.as_list()[0].as_entry());
  return is_storage;
}

void ValuePickler::write_quantized(const Object& object) {
  const Value::List& args = object.args.as_list();  // integers, qparams, requires_grad
  out_.global(object.symbol);
  out_.mark();
  write_window(args[0].as_entry());
  write(args[1]);
  write(args[2]);
  write_hooks();
  out_.close_tuple(7);
  out_.reduce();
}

void ValuePickler::write_tensor(const Entry& entry) {
  bool attributes = entry.attributes.is(Value::Kind::dict);
  if (entry.parameter && attributes && entry.python_class.empty()) return write_parameter_with_state(entry);
  if (attributes || !entry.python_class.empty()) return write_typed_tensor(entry);
  if (!entry.parameter) return write_plain_call(entry);
  out_.global("torch._utils._rebuild_parameter");
  write_outer_args(entry);
  out_.reduce();
}

void ValuePickler::write_parameter_with_state(const Entry& entry) {
  out_.global("torch._utils._rebuild_parameter_with_state");
  out_.mark();
  write_plain_call(entry);
  out_.boolean(entry.requires_grad);
  write_hooks();
  write(entry.attributes);
  out_.close_tuple(4);
  out_.reduce();
}

/// (function, class, arguments, state)
void ValuePickler::write_typed_tensor(const Entry& entry) {
  out_.global("torch._tensor._rebuild_from_type_v2");
  out_.mark();
  out_.global(entry.parameter ? "torch._utils._rebuild_parameter" : plain_function(entry));
  out_.global(entry.python_class.empty() ? "torch.Tensor" : entry.python_class);
  write_outer_args(entry);
  write(entry.attributes);
  out_.close_tuple(4);
  out_.reduce();
}

/// Arguments of the outermost function: those of _rebuild_parameter, or of the tensor itself.
void ValuePickler::write_outer_args(const Entry& entry) {
  if (!entry.parameter) return write_plain_args(entry);
  write_plain_call(entry);
  out_.boolean(entry.requires_grad);
  write_hooks();
  out_.close_tuple(3);
}

std::string_view ValuePickler::plain_function(const Entry& entry) const {
  if (is_meta(entry)) return "torch._utils._rebuild_meta_tensor_no_storage";
  return is_untyped(entry) ? "torch._utils._rebuild_tensor_v3" : "torch._utils._rebuild_tensor_v2";
}

void ValuePickler::write_plain_call(const Entry& entry) {
  out_.global(plain_function(entry));
  write_plain_args(entry);
  out_.reduce();
}

void ValuePickler::write_plain_args(const Entry& entry) {
  if (is_meta(entry)) return write_meta_args(entry);
  out_.mark();
  write_window(entry);
  out_.boolean(entry.requires_grad && !entry.parameter);
  write_hooks();
  std::size_t count = 6;
  if (is_untyped(entry)) {
    out_.global("torch." + std::string(core::name(entry.dtype)));
    ++count;
  }
  if (entry.conjugate || entry.negative) {
    out_.empty_dict();
    for (std::string_view flag : {"conj", "neg"}) {
      if (!(flag == "conj" ? entry.conjugate : entry.negative)) continue;
      out_.text(flag);
      out_.boolean(true);
      out_.set_item();
    }
    ++count;
  }
  out_.close_tuple(count);
}

void ValuePickler::write_meta_args(const Entry& entry) {
  out_.mark();
  out_.global("torch." + std::string(core::name(entry.dtype)));
  write_shape(entry.shape);
  write_shape(entry.view ? entry.view->strides : core::contiguous_strides(entry.shape));
  out_.boolean(entry.requires_grad && !entry.parameter);
  out_.close_tuple(4);
}

/// Storage, offset, sizes, strides.
void ValuePickler::write_window(const Entry& entry) {
  write_storage(entry);
  bool view = entry.view && entry.view->storage;
  out_.integer(view ? entry.view->offset : 0);
  write_shape(entry.shape);
  write_shape(view ? entry.view->strides : core::contiguous_strides(entry.shape));
}

void ValuePickler::write_storage(const Entry& entry) {
  const PlannedStorage& storage = survey_.storage(entry);
  std::uint64_t count = storage.bytes->size();
  std::string type = "torch.storage.UntypedStorage";
  if (!storage.untyped) {
    type = "torch." + std::string(storage_class_name(storage.dtype));
    count = count * 8 / static_cast<std::uint64_t>(core::bit_width(storage.dtype));
  }
  out_.mark();
  out_.common_text("storage");
  out_.global(type);
  out_.text(storage.key);
  out_.common_text(entry.location);
  out_.integer(static_cast<std::int64_t>(count));
  out_.close_tuple(5);
  out_.persistent_id();
}

void ValuePickler::write_shape(const core::Shape& shape) {
  if (PickleWriter::tuple_needs_mark(shape.size())) out_.mark();
  for (std::int64_t n : shape) out_.integer(n);
  out_.close_tuple(shape.size());
}

void ValuePickler::write_hooks() {
  out_.global("collections.OrderedDict");
  out_.empty_tuple();
  out_.reduce();
}

}  // namespace

PickledTree pickle_tree(const Value& root, const StorageKeys& keys) {
  return ValuePickler(root, keys).run(root);
}

bool torch_can_hold(DType dtype) {
  return dtype != DType::f6_e2m3 && dtype != DType::f6_e3m2;
}

}  // namespace ckpt
