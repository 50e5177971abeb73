#include "tests/libckpt/format/torch_facts.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "libcore/base/text.h"
#include "tests/support/sha256.h"

namespace test {
namespace {

using ckpt::Object;
using ckpt::Value;
using simdjson::dom::element;

std::string hex(core::Bytes bytes) {
  std::string out;
  for (std::byte b : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(b));
    out += two;
  }
  return out;
}

std::string float_fact(double value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
  return text;
}

/// Decimal text of a two's complement number.
std::string big_text(core::ByteVector number) {
  bool negative = (number.back() & std::byte{0x80}) != std::byte{0};
  unsigned carry = 1;
  for (std::byte& b : number) {
    if (!negative) break;
    unsigned v = (~std::to_integer<unsigned>(b) & 0xffU) + carry;
    b = static_cast<std::byte>(v & 0xffU);
    carry = v >> 8;
  }
  std::string digits;
  while (std::any_of(number.begin(), number.end(), [](std::byte b) { return b != std::byte{0}; })) {
    unsigned rest = 0;
    for (auto at = number.rbegin(); at != number.rend(); ++at) {
      unsigned v = rest * 256 + std::to_integer<unsigned>(*at);
      *at = static_cast<std::byte>(v / 10);
      rest = v % 10;
    }
    digits.insert(digits.begin(), static_cast<char>('0' + rest));
  }
  return (negative ? "-" : "") + digits;
}

std::string text_fact(const std::string& text) {
  std::size_t characters = static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0U) != 0x80U; }));
  if (characters > 4096) return "str " + std::to_string(characters) + " " + sha256(core::as_bytes(text));
  if (!core::is_utf8(text)) return "str surrogates " + hex(core::as_bytes(text));
  return "str " + text;
}

std::string set_fact(std::string type, std::vector<std::string> members) {
  std::sort(members.begin(), members.end());
  for (const std::string& m : members) type += " [" + m + "]";
  return type;
}

std::string our_fact(const Value& value);

std::string numpy_scalar(const Object& object) {
  const Value::List& args = object.args.as_list();
  const Object& dtype = args[0].as_object();
  std::string code = dtype.args.as_list()[0].as_text();
  static const std::vector<std::pair<std::string, std::string>> kNames = {
      {"f8", "float64"}, {"f4", "float32"}, {"i8", "int64"}, {"i4", "int32"}, {"b1", "bool"}, {"u1", "uint8"}};
  for (const auto& [short_name, name] : kNames) {
    if (short_name == code && code == "f8")
      return "float " + float_fact(core::load_le<double>(args[1].as_bytes().data()));
    if (short_name == code) return "numpy." + name + " " + hex(args[1].as_bytes());
  }
  return "numpy." + code;
}

std::string object_fact(const Object& object) {
  const std::string& symbol = object.symbol;
  if (object.form == Object::Form::global) {
    return core::try_parse_dtype(symbol) ? "torch.dtype " + symbol : "object builtins.type";
  }
  const Value::List& args = object.args.as_list();
  if (symbol == "torch.Size") {
    std::string out = "torch.Size";
    for (const Value& n : args[0].as_list()) out += " " + std::to_string(n.as_integer());
    return out;
  }
  if (symbol == "torch.device") {
    return "torch.device " + args[0].as_text() + (args.size() > 1 ? ":" + std::to_string(args[1].as_integer()) : "");
  }
  if (symbol.ends_with("core.multiarray.scalar")) return numpy_scalar(object);
  if (symbol == "builtins.getattr") return "object " + args[0].as_object().symbol;
  return "object " + symbol;
}

std::string our_fact(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::null:
      return "None";
    case Value::Kind::boolean:
      return value.as_boolean() ? "bool true" : "bool false";
    case Value::Kind::integer:
      return "int " + std::to_string(value.as_integer());
    case Value::Kind::big_integer:
      return "int " + big_text(value.as_bytes());
    case Value::Kind::real:
      return "float " + float_fact(value.as_real());
    case Value::Kind::complex:
      return "complex " + float_fact(value.as_complex().first) + " " + float_fact(value.as_complex().second);
    case Value::Kind::text:
      return text_fact(value.as_text());
    case Value::Kind::bytes:
      return "bytes " + hex(value.as_bytes());
    case Value::Kind::bytearray:
      return "bytearray " + hex(value.as_bytes());
    case Value::Kind::set:
    case Value::Kind::frozenset: {
      std::vector<std::string> members;
      for (const Value& item : value.as_list()) members.push_back(our_fact(item));
      return set_fact(value.is(Value::Kind::set) ? "set" : "frozenset", members);
    }
    case Value::Kind::object:
      return object_fact(value.as_object());
    default:
      return "?";
  }
}

/// One step as the manifest writes it.
std::string key_step(const Value& key) {
  if (key.is(Value::Kind::text)) return key.as_text();
  if (key.is(Value::Kind::integer)) return "{\"int\":" + std::to_string(key.as_integer()) + "}";
  if (key.is(Value::Kind::boolean)) return std::string("{\"bool\":") + (key.as_boolean() ? "true}" : "false}");
  if (key.is_null()) return "{\"none\":true}";
  if (key.is(Value::Kind::bytes)) return "{\"bytes\":\"" + hex(key.as_bytes()) + "\"}";
  if (key.is(Value::Kind::tuple)) {
    std::string out = "{\"tuple\":[";
    for (const Value& item : key.as_list()) {
      if (out.back() != '[') out += ",";
      out += item.is(Value::Kind::text) ? "\"" + item.as_text() + "\"" : key_step(item);
    }
    return out + "]}";
  }
  if (key.is(Value::Kind::real)) return "{\"float\":" + float_fact(key.as_real()) + "}";
  return "{?}";
}

bool stands_for_tensor(const Value& value) {
  if (value.is(Value::Kind::tensor)) return true;
  if (!value.is(Value::Kind::object)) return false;
  const std::string& symbol = value.as_object().symbol;
  return symbol.starts_with("torch._utils._rebuild_") || symbol.ends_with("core.multiarray._reconstruct");
}

std::string container_type(const Value& value) {
  if (value.is(Value::Kind::list)) return "list";
  if (value.is(Value::Kind::tuple)) return "tuple";
  const std::string& type = value.as_dict().type;
  return type.substr(type.rfind('.') + 1);
}

class FactWalker {
 public:
  TreeFacts facts;

  void walk(const Value& value) {
    std::string path = join_path(path_);
    if (stands_for_tensor(value)) {
      facts.tensors.push_back({path, value});
    } else if (value.is(Value::Kind::dict)) {
      walk_dict(path, value.as_dict(), container_type(value));
    } else if (value.is(Value::Kind::list) || value.is(Value::Kind::tuple)) {
      const Value::List& items = value.as_list();
      facts.containers.push_back(path + " " + container_type(value) + " " + std::to_string(items.size()));
      for (std::size_t i = 0; i < items.size(); ++i) step("{\"index\":" + std::to_string(i) + "}", items[i]);
    } else {
      facts.values.push_back(path + " " + our_fact(value));
    }
  }

 private:
  void step(std::string name, const Value& value) {
    path_.push_back(std::move(name));
    walk(value);
    path_.pop_back();
  }
  void walk_dict(const std::string& path, const ckpt::Dict& dict, const std::string& type) {
    facts.containers.push_back(path + " " + type + " " + std::to_string(dict.items.size()));
    if (const Value* metadata = dict.attributes.find("_metadata")) {
      for (const auto& [module, local] : metadata->as_dict().items) {
        std::string line = path + " " + module.as_text();
        for (const auto& [key, value] : local.as_dict().items) line += " " + key.as_text() + "=" + our_fact(value);
        facts.metadata.push_back(line);
      }
    }
    for (const auto& [key, value] : dict.items) step(key_step(key), value);
  }

  std::vector<std::string> path_;
};

// The manifest's side.

std::string step_of(element step) {
  if (step.is_string()) return std::string(step);
  double number = 0;
  std::string_view text;
  if (step["float"].get(text) == simdjson::SUCCESS) number = std::strtod(std::string(text).c_str(), nullptr);
  if (!text.empty()) return "{\"float\":" + float_fact(number) + "}";
  return simdjson::minify(step);
}

std::string path_of(element node) {
  std::vector<std::string> steps;
  for (element step : simdjson::dom::array(node["path"])) steps.push_back(step_of(step));
  return join_path(steps);
}

std::string golden_float(element value) {
  std::string text{std::string_view(value)};
  return float_fact(std::strtod(text.c_str(), nullptr));
}

std::string golden_fact(element node) {
  std::string type{std::string_view(node["type"])};
  std::string_view text;
  if (type == "None") return type;
  if (type == "float") {
    if (node["bits"].get(text) == simdjson::SUCCESS) return "float " + std::string(text);
    return "float " + golden_float(node["value"]);
  }
  if (type == "complex") {
    return "complex " + golden_float(node["value"].at(0)) + " " + golden_float(node["value"].at(1));
  }
  if (type == "object") return "object " + std::string(std::string_view(node["class"]));
  if (node["surrogatepass_hex"].get(text) == simdjson::SUCCESS) return "str surrogates " + std::string(text);
  if (node["utf8_sha256"].get(text) == simdjson::SUCCESS) {
    return "str " + std::to_string(std::int64_t(node["length"])) + " " + std::string(text);
  }
  element value = node["value"];
  if (type == "set" || type == "frozenset") {
    std::vector<std::string> members;
    for (element item : simdjson::dom::array(value)) members.push_back(golden_fact(item));
    return set_fact(type, members);
  }
  if (type == "torch.Size") {
    for (element n : simdjson::dom::array(value)) type += " " + std::string(simdjson::minify(n));
    return type;
  }
  return type + " " + (value.is_string() ? std::string(value) : std::string(simdjson::minify(value)));
}

/// Plain JSON as our facts write the same value.
std::string json_fact(element value) {
  if (value.is_bool()) return std::string("bool ") + (bool(value) ? "true" : "false");
  if (value.is_string()) return "str " + std::string(value);
  if (value.is_null()) return "None";
  return "int " + std::string(simdjson::minify(value));
}

std::string compare_bytes(const ManifestTensor& want, const ckpt::Entry& entry) {
  if (!entry.bytes) return "it has no bytes";
  if (entry.bytes->size() != want.nbytes) return std::to_string(entry.bytes->size()) + " bytes";
  core::ByteVector bytes = ckpt::read_all(*entry.bytes);
  bool complex = core::is_complex(entry.dtype);
  std::size_t width = static_cast<std::size_t>(core::bit_width(entry.dtype)) / 8 / (complex ? 2 : 1);
  bool flip_all = entry.negative;
  for (std::size_t i = width - 1, part = 0; (flip_all || entry.conjugate) && i < bytes.size(); i += width, ++part) {
    bool flip = flip_all != (entry.conjugate && part % 2 == 1);
    if (flip) bytes[i] ^= std::byte{0x80};
  }
  return sha256(bytes) == want.sha256 ? "" : "its bytes differ";
}

std::string compare_entry(const ManifestTensor& want, const ckpt::Entry& entry) {
  if (core::name(entry.dtype) != want.dtype) return "dtype " + std::string(core::name(entry.dtype));
  if (entry.shape.to_vector() != want.shape) return "shape " + core::to_list(entry.shape);
  if (!want.location.empty() && entry.location != want.location) return "location " + entry.location;
  if (entry.parameter != want.parameter) return "parameter";
  if (entry.requires_grad != want.requires_grad) return "requires_grad";
  if (entry.conjugate != want.conj || entry.negative != want.neg) return "conj or neg";
  if (entry.python_class != want.python_class) return "class " + entry.python_class;
  if (!entry.view) return "no view";
  core::Shape strides = want.stride.empty() ? core::contiguous_strides(entry.shape) : core::Shape(want.stride);
  bool any_stride =
      want.stride.empty() && std::any_of(want.shape.begin(), want.shape.end(), [](auto n) { return n <= 1; });
  if (!any_stride && entry.view->strides != strides) return "strides " + core::to_list(entry.view->strides);
  if (entry.view->offset != want.storage_offset) return "offset " + std::to_string(entry.view->offset);
  if (want.kind == "meta") return entry.bytes ? "a meta tensor with bytes" : "";
  return compare_bytes(want, entry);
}

}  // namespace

std::string join_path(const std::vector<std::string>& steps) {
  std::string out;
  for (const std::string& step : steps) out += "/" + step;
  return out;
}

TreeFacts our_facts(const Value& root) {
  FactWalker walker;
  walker.walk(root);
  return std::move(walker.facts);
}

TreeFacts golden_facts(const Manifest& manifest) {
  simdjson::dom::parser parser;
  element root;
  if (parser.load(manifest.json.string()).get(root) != simdjson::SUCCESS) throw std::runtime_error("cannot read JSON");
  TreeFacts facts;
  for (element node : simdjson::dom::array(root["containers"])) {
    facts.containers.push_back(path_of(node) + " " + std::string(std::string_view(node["type"])) + " " +
                               std::to_string(std::int64_t(node["length"])));
  }
  for (element node : simdjson::dom::array(root["values"])) {
    facts.values.push_back(path_of(node) + " " + golden_fact(node));
  }
  simdjson::dom::array metadata;
  if (root["metadata"].get(metadata) != simdjson::SUCCESS) return facts;
  for (element node : metadata) {
    for (element entry : simdjson::dom::array(node["entries"])) {
      std::string line = path_of(node) + " " + std::string(std::string_view(entry.at(0)));
      for (auto [key, value] : simdjson::dom::object(entry.at(1)))
        line += " " + std::string(key) + "=" + json_fact(value);
      facts.metadata.push_back(line);
    }
  }
  return facts;
}

bool read_numpy(const Value& value, NumpyArray& out) {
  if (!value.is(Value::Kind::object) || !value.as_object().has_state) return false;
  const Value::List& state = value.as_object().state.as_list();  // version, shape, dtype, fortran order, bytes
  const Object& dtype = state[2].as_object();
  out.descr = dtype.args.as_list()[0].as_text();
  std::size_t count = 1;
  for (const Value& n : state[1].as_list()) {
    out.shape.push_back(n.as_integer());
    count *= static_cast<std::size_t>(n.as_integer());
  }
  const core::ByteVector& raw = state[4].as_bytes();
  std::size_t width = count == 0 ? 1 : raw.size() / count;
  out.bytes = raw;
  bool fortran = state[3].as_boolean() && out.shape.size() == 2;
  for (std::size_t i = 0; fortran && i < count; ++i) {
    auto columns = static_cast<std::size_t>(out.shape[1]);
    std::size_t from = (i % columns) * static_cast<std::size_t>(out.shape[0]) + i / columns;
    std::copy_n(raw.begin() + static_cast<std::ptrdiff_t>(from * width), width,
                out.bytes.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  if (dtype.state.as_list()[1].as_text() == ">") {
    for (auto at = out.bytes.begin(); at != out.bytes.end(); at += static_cast<std::ptrdiff_t>(width)) {
      std::reverse(at, at + static_cast<std::ptrdiff_t>(width));
    }
  }
  return true;
}

std::string compare_tensor(const ManifestTensor& want, const Value& got) {
  if (got.is(Value::Kind::tensor)) {
    return want.kind.empty() || want.kind == "meta" ? compare_entry(want, got.as_entry()) : "a plain tensor";
  }
  if (want.kind == "ndarray") {
    NumpyArray array;
    if (!read_numpy(got, array)) return "no numpy array";
    if (array.shape != want.shape) return "shape of the array";
    return sha256(array.bytes) == want.sha256 ? "" : "its bytes differ";
  }
  const Value::List& args = got.as_object().args.as_list();
  if (want.kind == "quantized") return compare_entry(want, args[0].as_entry());
  return want.kind.starts_with("sparse_") || want.kind == "nested" ? "" : "kind " + want.kind;
}

}  // namespace test
