#include "libckpt/analyze/plain_values.h"

#include <cmath>

#include "libckpt/checkpoint.h"
#include "libckpt/entry.h"
#include "libckpt/integer_text.h"
#include "libckpt/io/json.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

constexpr std::size_t kMaxDecimalBytes = 64;  ///< decimal text costs the square of this

std::string hex_text(const core::ByteVector& bytes, std::size_t max) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::byte b : bytes) {
    if (out.size() >= max) return out + "...";
    out += kDigits[std::to_integer<unsigned>(b) >> 4];
    out += kDigits[std::to_integer<unsigned>(b) & 15U];
  }
  return out;
}

class ValuePrinter {
 public:
  explicit ValuePrinter(std::size_t max) : max_(max) {}
  std::string take() && {
    if (out_.size() <= max_) return std::move(out_);
    std::size_t cut = max_ > 3 ? max_ - 3 : 0;
    while (cut > 0 && (static_cast<unsigned char>(out_[cut]) & 0xc0U) == 0x80U) --cut;
    return out_.substr(0, cut) + "...";
  }

  void print(const Value& value) {
    if (out_.size() > max_) return;
    switch (value.kind()) {
      case Value::Kind::list:
        return print_list(value.as_list(), "[", "]");
      case Value::Kind::tuple:
        return print_list(value.as_list(), "(", value.as_list().size() == 1 ? ",)" : ")");
      case Value::Kind::set:
        return print_list(value.as_list(), value.as_list().empty() ? "set(" : "{", value.as_list().empty() ? ")" : "}");
      case Value::Kind::frozenset:
        return print_list(value.as_list(), "frozenset({", "})");
      case Value::Kind::dict:
        return print_items(value.as_dict().items);
      case Value::Kind::tensor:
        out_ += "tensor of shape " + core::to_list(value.as_entry().shape);
        return;
      case Value::Kind::object:
        return print_object(value.as_object());
      default:
        return print_scalar(value);
    }
  }

 private:
  void print_scalar(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::null:
        out_ += "None";
        break;
      case Value::Kind::boolean:
        out_ += value.as_boolean() ? "True" : "False";
        break;
      case Value::Kind::integer:
        out_ += std::to_string(value.as_integer());
        break;
      case Value::Kind::real:
        out_ += core::python_float(value.as_real());
        break;
      case Value::Kind::complex:
        out_ += "(" + core::python_float(value.as_complex().first) + "+" +
                core::python_float(value.as_complex().second) + "j)";
        break;
      case Value::Kind::text:
        out_ += core::quote(value.as_text(), max_);
        break;
      case Value::Kind::big_integer:
        out_ += value.as_bytes().size() > kMaxDecimalBytes
                    ? "integer of " + std::to_string(value.as_bytes().size()) + " bytes"
                    : detail::integer_text(value);
        break;
      default:
        out_ += std::string(value.is(Value::Kind::bytearray) ? "bytearray" : "bytes") + " " +
                hex_text(value.as_bytes(), max_);
    }
  }

  void print_list(const Value::List& items, std::string_view open, std::string_view close) {
    out_ += open;
    for (const Value& item : items) {
      if (&item != &items.front()) out_ += ", ";
      print(item);
      if (out_.size() > max_) return;
    }
    out_ += close;
  }

  void print_items(const std::vector<std::pair<Value, Value>>& items) {
    out_ += "{";
    for (const auto& item : items) {
      if (&item != &items.front()) out_ += ", ";
      print(item.first);
      out_ += ": ";
      print(item.second);
      if (out_.size() > max_) return;
    }
    out_ += "}";
  }

  void print_object(const Object& object) {
    out_ += core::printable(object.symbol);
    if (object.form == Object::Form::global) return;
    if (object.args.is_sequence()) {
      print_list(object.args.as_list(), "(", ")");
    } else {
      out_ += "()";
    }
    if (object.has_state) {
      out_ += " with ";
      print(object.state);
    }
  }

  std::size_t max_;
  std::string out_;
};

class Lister {
 public:
  std::vector<NamedValue> values;

  void walk(const Value& value, const std::string& name) {
    if (value.is(Value::Kind::tensor)) return;
    if (value.is(Value::Kind::dict) && !value.as_dict().items.empty()) return walk_items(value.as_dict().items, name);
    bool ordered = value.is(Value::Kind::list) || value.is(Value::Kind::tuple);
    if (ordered && !value.as_list().empty()) return walk_list(value.as_list(), name);
    if (value.is(Value::Kind::object) && !list_entries(value).empty()) return walk_object(value.as_object(), name);
    values.push_back({name, value});
  }

 private:
  static std::string below(const std::string& name, const std::string& step) {
    return name.empty() ? step : name + "." + step;
  }
  void walk_items(const std::vector<std::pair<Value, Value>>& items, const std::string& name) {
    for (const auto& [key, child] : items) {
      if (!child.is(Value::Kind::tensor)) walk(child, below(name, step_text(key)));
    }
  }
  void walk_list(const Value::List& items, const std::string& name) {
    for (std::size_t i = 0; i < items.size(); ++i) walk(items[i], below(name, std::to_string(i)));
  }
  void walk_object(const Object& object, const std::string& name) {
    values.push_back({name, Value::text(object.symbol)});
    if (object.args.is_sequence()) walk_list(object.args.as_list(), name);
    if (object.kwargs.is(Value::Kind::dict)) walk_items(object.kwargs.as_dict().items, name);
    if (object.has_state) walk(object.state, name);
    walk_list(object.appended, name);
    walk_items(object.items, name);
  }
};

}  // namespace

std::vector<NamedValue> list_plain_values(const Value& root) {
  Lister lister;
  lister.walk(root, "");
  return std::move(lister.values);
}

std::string value_text(const Value& value, std::size_t max) {
  ValuePrinter printer(max);
  printer.print(value);
  return std::move(printer).take();
}

void write_value(JsonWriter& json, const Value& value) {
  if (value.is_null()) {
    json.null();
  } else if (value.is(Value::Kind::boolean)) {
    json.value(value.as_boolean());
  } else if (value.is(Value::Kind::integer)) {
    json.value(value.as_integer());
  } else if (value.is(Value::Kind::real) && std::isfinite(value.as_real())) {
    json.value(value.as_real());
  } else if (value.is(Value::Kind::text)) {
    json.value(value.as_text());
  } else {
    json.value(value_text(value, 4096));
  }
}

void write_json(JsonWriter& json, const NamedValue& named) {
  json.begin_object();
  json.key("name").value(named.name);
  json.key("type").value(type_text(named.value));
  json.key("value");
  write_value(json, named.value);
  json.end_object();
}

}  // namespace ckpt
