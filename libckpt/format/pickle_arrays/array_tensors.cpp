#include "libckpt/format/pickle_arrays/array_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "libckpt/checkpoint.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/pickle_arrays/joblib_runs.h"
#include "libckpt/format/pickle_arrays/paddle_slices.h"
#include "libckpt/gather.h"
#include "libckpt/io/byte_swap.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using Kind = Value::Kind;

struct TypeCode {
  std::string_view code;
  DType dtype;
};
constexpr auto kTypes = std::to_array<TypeCode>({{"b1", DType::boolean},
                                                 {"i1", DType::i8},
                                                 {"i2", DType::i16},
                                                 {"i4", DType::i32},
                                                 {"i8", DType::i64},
                                                 {"u1", DType::u8},
                                                 {"u2", DType::u16},
                                                 {"u4", DType::u32},
                                                 {"u8", DType::u64},
                                                 {"f2", DType::f16},
                                                 {"f4", DType::f32},
                                                 {"f8", DType::f64},
                                                 {"c8", DType::c64},
                                                 {"c16", DType::c128}});

/// An array before anything of it was believed.
struct RawArray {
  const Value* values = nullptr;
  const Value* type = nullptr;
  const Value* shape = nullptr;
  bool fortran = false;
};

bool calls(const Value& value, std::string_view function) {
  if (!value.is(Kind::object) || value.as_object().form != Object::Form::call) return false;
  const std::string& symbol = value.as_object().symbol;
  return symbol.starts_with("numpy.") && symbol.ends_with(function) && value.as_object().args.is(Kind::tuple);
}

/// (version, shape, type, Fortran or not, values), which BUILD gives an empty array.
std::optional<RawArray> built(const Value& value) {
  if (!calls(value, "core.multiarray._reconstruct") || !value.as_object().has_state) return std::nullopt;
  const Value& state = value.as_object().state;
  if (!state.is(Kind::tuple) || state.as_list().size() != 5) return std::nullopt;
  const Value::List& parts = state.as_list();
  bool fortran = parts[3].is(Kind::boolean) && parts[3].as_boolean();
  return RawArray{&parts[4], &parts[2], &parts[1], fortran};
}

/// (values, type, shape, order), of protocol 5.
std::optional<RawArray> from_buffer(const Value& value) {
  if (!calls(value, "core.numeric._frombuffer")) return std::nullopt;
  const Value::List& args = value.as_object().args.as_list();
  if (args.size() != 4 || !args[3].is(Kind::text)) return std::nullopt;
  return RawArray{args.data(), &args[1], &args[2], args[3].as_text() == "F"};
}

/// A wrapper of joblib, whose state got the values that lie behind it.
std::optional<RawArray> wrapped(const Value& value) {
  if (!value.is(Kind::object) || !is_joblib_wrapper(value.as_object().symbol)) return std::nullopt;
  const Value& state = value.as_object().state;
  if (!state.is(Kind::dict)) return std::nullopt;
  const Value* values = state.find(kRunKey);
  const Value* type = state.find("dtype");
  const Value* shape = state.find("shape");
  const Value* order = state.find("order");
  if (values == nullptr || type == nullptr || shape == nullptr || order == nullptr) return std::nullopt;
  return RawArray{values, type, shape, order->is(Kind::text) && order->as_text() == "F"};
}

struct ElementType {
  std::string code;
  std::optional<DType> dtype;
  bool big_endian = false;
};

ElementType element_type(const Value& value) {
  ElementType out;
  if (!calls(value, "numpy.dtype") || value.as_object().args.as_list().empty()) return out;
  const Value& code = value.as_object().args.as_list()[0];
  if (!code.is(Kind::text)) return out;
  out.code = code.as_text();
  for (const TypeCode& type : kTypes) {
    if (type.code == out.code) out.dtype = type.dtype;
  }
  const Value& state = value.as_object().state;
  if (!value.as_object().has_state || !state.is(Kind::tuple) || state.as_list().size() < 2) return out;
  const Value& order = state.as_list()[1];
  out.big_endian = order.is(Kind::text) && order.as_text() == ">";
  return out;
}

SourcePtr row_major(SourcePtr columns, DType dtype, const core::Shape& shape) {
  auto storage = std::make_shared<Storage>();
  storage->dtype = dtype;
  storage->bytes = std::move(columns);
  View view;
  view.storage = std::move(storage);
  std::int64_t stride = 1;
  for (std::int64_t size : shape) {
    view.strides.push_back(stride);
    stride *= size;
  }
  return gather(view, dtype, shape);
}

class ArrayTensors {
 public:
  ArrayTensors(const PickleOutline& outline, SourcePtr file, FoundArrays& found)
      : outline_(outline), file_(std::move(file)), found_(found) {}

  /// Recursion is bounded: the reader of pickles has checked the depth.
  Value map(const Value& value) {
    const void* node = value.identity();
    if (node != nullptr) {
      if (auto known = known_.find(node); known != known_.end()) return known->second;
    }
    Value out = make(value);
    if (node != nullptr) known_.emplace(node, out);
    return out;
  }

 private:
  Value make(const Value& value) {
    if (value.is(Kind::dict)) {
      Dict dict = value.as_dict();
      for (auto& [key, item] : dict.items)
        item = core::with_context(core::quote(step_text(key), 80), [&] { return map(item); });
      return Value::dict(std::move(dict));
    }
    if (value.is(Kind::list)) return Value::list(list(value));
    if (value.is(Kind::tuple)) return Value::tuple(list(value));
    if (std::optional<RawArray> array = built(value)) return tensor(value, *array);
    if (std::optional<RawArray> array = from_buffer(value)) return tensor(value, *array);
    if (std::optional<RawArray> array = wrapped(value)) return tensor(value, *array);
    if (value.is(Kind::object) && value.as_object().symbol == "builtins.tuple") return named_tensor(value);
    return value;
  }

  Value::List list(const Value& value) {
    Value::List out;
    for (const Value& item : value.as_list()) out.push_back(map(item));
    return out;
  }

  /// tuple((name, array)): how Paddle pickles a tensor.
  Value named_tensor(const Value& value) {
    const Object& object = value.as_object();
    bool one = object.args.is(Kind::tuple) && object.args.as_list().size() == 1 && !object.has_state &&
               object.form == Object::Form::call && object.args.as_list()[0].is(Kind::tuple);
    if (!one) return value;
    Value pair = map(object.args.as_list()[0]);
    const Value::List& parts = pair.as_list();
    bool named = parts.size() == 2 && parts[0].is(Kind::text) && parts[1].is(Kind::tensor);
    return named ? parts[1] : pair;
  }

  SourcePtr values_of(const Value& value) const {
    bool raw = value.is(Kind::bytes) || value.is(Kind::bytearray);
    if (!raw) corrupt("an array of numbers has no values");
    const core::ByteVector& bytes = value.as_bytes();
    const PickleOutline::Run* run = outline_.run_behind(bytes);
    return run == nullptr ? memory_source(bytes) : slice(file_, run->offset, run->length);
  }

  Value tensor(const Value& value, const RawArray& array) {
    ElementType type = element_type(*array.type);
    if (!type.dtype) {
      constexpr std::size_t kMostNamed = 100;
      if (found_.others.size() < kMostNamed) found_.others.push_back(type.code);
      return value;
    }
    auto entry = std::make_shared<Entry>();
    entry->dtype = *type.dtype;
    entry->shape = array_shape(*array.shape);
    entry->bytes = values_of(*array.values);
    std::optional<std::uint64_t> count = core::try_numel(entry->shape.span());
    if (!count || core::byte_size(entry->dtype, *count) != entry->bytes->size()) {
      corrupt("an array of shape " + core::to_list(entry->shape) + " and type " + type.code + " has " +
              core::format_count(entry->bytes->size()) + " bytes of values");
    }
    if (type.big_endian) entry->bytes = byte_swapped(entry->bytes, swap_width(entry->dtype));
    if (array.fortran && entry->shape.size() > 1 && *count > 0) {
      entry->bytes = row_major(entry->bytes, entry->dtype, entry->shape);
    }
    ++found_.tensors;
    return Value::tensor(std::move(entry));
  }

  const PickleOutline& outline_;
  SourcePtr file_;
  FoundArrays& found_;
  std::unordered_map<const void*, Value> known_;
};

/// Puts long runs that are no values of tensors back in their places: texts of bytes, arrays that stay objects.
class PutBack final : public TreeMap {
 public:
  PutBack(const PickleOutline& outline, const ByteSource& file, const Limits& limits)
      : outline_(outline), file_(file), limits_(limits), taken_(outline.pickle.size()) {}

 protected:
  bool edit_dict(const Value& /*node*/, Dict& dict) override { return fill_items(dict.items); }
  bool edit_sequence(const Value& /*node*/, Value::List& items) override { return fill_list(items); }
  bool edit_object(const Value& /*node*/, Object& object) override {
    bool changed = fill(object.state);
    changed |= fill_list(object.appended);
    return fill_items(object.items) || changed;
  }

 private:
  bool fill_items(std::vector<std::pair<Value, Value>>& items) {
    bool changed = false;
    for (auto& [key, item] : items) {
      changed |= fill(key);
      changed |= fill(item);
    }
    return changed;
  }
  bool fill_list(Value::List& items) {
    bool changed = false;
    for (Value& item : items) changed |= fill(item);
    return changed;
  }
  bool fill(Value& value) {
    if (!value.is(Kind::bytes) && !value.is(Kind::bytearray)) return false;
    const PickleOutline::Run* run = outline_.run_behind(value.as_bytes());
    if (run == nullptr) return false;
    Value& known = whole_[value.identity()];
    if (known.is_null()) {
      core::ByteVector bytes = read_run(*run);
      known = value.is(Kind::bytes) ? Value::bytes(std::move(bytes)) : Value::bytearray(std::move(bytes));
    }
    value = known;
    return true;
  }
  core::ByteVector read_run(const PickleOutline::Run& run) {
    if (run.length > limits_.max_pickle_bytes - std::min(taken_, limits_.max_pickle_bytes)) {
      throw core::Error(core::ErrorCode::refused, "the pickle is longer than " +
                                                      core::format_size(limits_.max_pickle_bytes) +
                                                      " without the values of its arrays");
    }
    taken_ += run.length;
    core::ByteVector bytes(run.length);
    file_.read(run.offset, bytes);
    return bytes;
  }

  const PickleOutline& outline_;
  const ByteSource& file_;
  const Limits& limits_;
  std::uint64_t taken_;
  std::unordered_map<const void*, Value> whole_;
};

}  // namespace

core::Shape array_shape(const Value& value) {
  constexpr std::size_t kMaxRank = 64;  // NumPy's own
  if (!value.is(Kind::tuple) || value.as_list().size() > kMaxRank) corrupt("an array has no shape");
  core::Shape out;
  for (const Value& size : value.as_list()) {
    if (!size.is(Kind::integer) || size.as_integer() < 0) corrupt("an array has a dimension that is no size");
    out.push_back(size.as_integer());
  }
  return out;
}

Value with_array_tensors(const Value& root, const PickleOutline& outline, const SourcePtr& file, const Limits& limits,
                         FoundArrays& found) {
  Value tree = with_slices_joined(ArrayTensors(outline, file, found).map(root));
  return outline.runs.empty() ? tree : PutBack(outline, *file, limits).map(tree);
}

}  // namespace ckpt::detail
