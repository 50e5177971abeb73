#include "libckpt/analyze/why/plain_objects.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "libckpt/analyze/plain_values.h"
#include "libckpt/entry.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// 'f8' or '<f8' as numpy.dtype is called with.
std::optional<core::DType> numpy_dtype(const Value& dtype) {
  if (!dtype.is(Value::Kind::object) || dtype.as_object().symbol != "numpy.dtype") return std::nullopt;
  const Value& args = dtype.as_object().args;
  if (!args.is_sequence() || args.as_list().empty() || !args.as_list()[0].is(Value::Kind::text)) return std::nullopt;
  std::string_view code = args.as_list()[0].as_text();
  while (!code.empty() && (code[0] == '<' || code[0] == '|' || code[0] == '=')) code.remove_prefix(1);
  constexpr std::pair<std::string_view, core::DType> kCodes[] = {
      {"f8", core::DType::f64}, {"f4", core::DType::f32}, {"f2", core::DType::f16}, {"i8", core::DType::i64},
      {"i4", core::DType::i32}, {"i2", core::DType::i16}, {"i1", core::DType::i8},  {"u8", core::DType::u64},
      {"u4", core::DType::u32}, {"u2", core::DType::u16}, {"u1", core::DType::u8},  {"b1", core::DType::boolean}};
  for (const auto& [name, type] : kCodes) {
    if (code == name) return type;
  }
  return std::nullopt;
}

bool is_big_endian(const Value& dtype) {
  const Value& state = dtype.as_object().state;  // (version, byte order, ...)
  return state.is_sequence() && state.as_list().size() > 1 && state.as_list()[1].is(Value::Kind::text) &&
         state.as_list()[1].as_text() == ">";
}

template <class T>
T load(const core::ByteVector& bytes) {
  return core::load_le<T>(bytes.data());
}

/// One number of a type that Python has too.
std::optional<Value> number(core::DType dtype, const core::ByteVector& bytes) {
  if (core::byte_size(dtype, 1) != bytes.size()) return std::nullopt;
  switch (dtype) {
    case core::DType::f64:
      return Value::real(load<double>(bytes));
    case core::DType::f32:
      return Value::real(load<float>(bytes));
    case core::DType::i64:
      return Value::integer(load<std::int64_t>(bytes));
    case core::DType::i32:
      return Value::integer(load<std::int32_t>(bytes));
    case core::DType::i16:
      return Value::integer(load<std::int16_t>(bytes));
    case core::DType::u8:
      return Value::integer(load<std::uint8_t>(bytes));
    case core::DType::boolean:
      return Value::boolean(load<std::uint8_t>(bytes) != 0);
    default:
      return std::nullopt;
  }
}

std::optional<Value> numpy_scalar(const Object& object) {
  if (!object.symbol.ends_with("multiarray.scalar") || !object.args.is_sequence()) return std::nullopt;
  const Value::List& args = object.args.as_list();
  if (args.size() != 2 || !args[1].is(Value::Kind::bytes)) return std::nullopt;
  std::optional<core::DType> dtype = numpy_dtype(args[0]);
  if (!dtype || is_big_endian(args[0])) return std::nullopt;
  return number(*dtype, args[1].as_bytes());
}

/// numpy.core.multiarray._reconstruct(...) with state (version, shape, dtype, Fortran order, bytes).
std::optional<Value> numpy_array(const Object& object) {
  if (!object.symbol.ends_with("multiarray._reconstruct") || !object.state.is_sequence()) return std::nullopt;
  const Value::List& state = object.state.as_list();
  if (state.size() != 5 || !state[1].is_sequence() || !state[3].is(Value::Kind::boolean) || state[3].as_boolean() ||
      !state[4].is(Value::Kind::bytes)) {
    return std::nullopt;
  }
  std::optional<core::DType> dtype = numpy_dtype(state[2]);
  if (!dtype || is_big_endian(state[2])) return std::nullopt;
  Entry entry;
  entry.dtype = *dtype;
  for (const Value& size : state[1].as_list()) {
    if (!size.is(Value::Kind::integer) || size.as_integer() < 0) return std::nullopt;
    entry.shape.push_back(size.as_integer());
  }
  std::optional<std::uint64_t> count = core::try_numel(entry.shape.span());
  if (!count || core::byte_size(*dtype, *count) != state[4].as_bytes().size()) return std::nullopt;
  entry.bytes = memory_source(state[4].as_bytes());
  return Value::tensor(std::make_shared<const Entry>(std::move(entry)));
}

std::optional<Value> path_text(const Object& object) {
  if (!object.symbol.starts_with("pathlib.") || !object.args.is_sequence()) return std::nullopt;
  std::string path;
  for (const Value& part : object.args.as_list()) {
    if (!part.is(Value::Kind::text)) return std::nullopt;
    bool slash = !path.empty() && !path.ends_with('/');
    path += (slash ? "/" : "") + part.as_text();
  }
  return Value::text(path);
}

class Plainer {
 public:
  explicit Plainer(const std::vector<std::string>& symbols) : symbols_(symbols.begin(), symbols.end()) {}

  Value convert(const Value& value) {
    if (value.identity() == nullptr) return value;
    if (auto known = done_.find(value.identity()); known != done_.end()) return known->second;
    Value plain = convert_node(value);
    done_.emplace(value.identity(), plain);
    return plain;
  }

 private:
  bool refused(const std::string& symbol) const { return symbols_.contains(symbol); }

  Value convert_node(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::tensor:
        return convert_tensor(value);
      case Value::Kind::dict:
        return convert_dict(value.as_dict());
      case Value::Kind::object:
        return convert_object(value);
      case Value::Kind::list:
        return Value::list(convert_list(value.as_list()));
      case Value::Kind::tuple:
        return Value::tuple(convert_list(value.as_list()));
      case Value::Kind::set:
        return Value::set(convert_list(value.as_list()));
      case Value::Kind::frozenset:
        return Value::frozenset(convert_list(value.as_list()));
      default:
        return value;
    }
  }

  Value convert_tensor(const Value& value) const {
    if (!refused(value.as_entry().python_class)) return value;
    Entry entry = value.as_entry();
    entry.python_class.clear();
    entry.attributes = Value();
    return Value::tensor(std::make_shared<const Entry>(std::move(entry)));
  }

  Value::List convert_list(const Value::List& items) {
    Value::List out;
    for (const Value& item : items) out.push_back(convert(item));
    return out;
  }

  Value convert_dict(const Dict& dict) {
    Dict out = dict;
    if (refused(dict.type)) {
      out.type = "dict";
      out.constructor_args = Value();
    }
    for (auto& [key, child] : out.items) {
      key = convert(key);
      child = convert(child);
    }
    out.attributes = convert(dict.attributes);
    return Value::dict(std::move(out));
  }

  Value convert_object(const Value& value) {
    const Object& object = value.as_object();
    if (!refused(object.symbol)) return value;
    for (auto known : {numpy_scalar, numpy_array, path_text}) {
      if (std::optional<Value> plain = known(object)) return *plain;
    }
    if (object.has_state && object.state.is(Value::Kind::dict)) return convert(object.state);
    if (!object.appended.empty()) return Value::list(convert_list(object.appended));
    return Value::text(value_text(value));
  }

  std::unordered_set<std::string> symbols_;
  std::map<const void*, Value> done_;
};

}  // namespace

Value plain_objects(const Value& root, const std::vector<std::string>& symbols) {
  return Plainer(symbols).convert(root);
}

}  // namespace ckpt::detail
