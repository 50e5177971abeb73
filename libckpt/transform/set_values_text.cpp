// The text of a value that is set: what it may say for each kind, and what is refused.

#include <array>
#include <charconv>

#include "libckpt/entry.h"
#include "libckpt/integer_text.h"
#include "libckpt/transform/set_values.h"
#include "libcore/base/error.h"
#include "libcore/base/shape.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::array kPlainKinds = {PlainKind::integer, PlainKind::real, PlainKind::boolean, PlainKind::text,
                                    PlainKind::none};
constexpr std::string_view kKindList = "int, float, bool, text or none";

std::optional<PlainKind> kind_named(std::string_view text) {
  for (PlainKind kind : kPlainKinds) {
    if (name(kind) == text) return kind;
  }
  return std::nullopt;
}

/// nullopt for None, which says nothing of what comes in its place, and for what is not set as text.
std::optional<PlainKind> kind_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::integer:
    case Value::Kind::big_integer:
      return PlainKind::integer;
    case Value::Kind::real:
      return PlainKind::real;
    case Value::Kind::boolean:
      return PlainKind::boolean;
    case Value::Kind::text:
      return PlainKind::text;
    default:
      return std::nullopt;
  }
}

/// "epoch:int=12", as the user would write it.
std::string with_kind(const ValueToSet& wanted, PlainKind kind) {
  return core::quote(wanted.key + ":" + std::string(name(kind)) + "=" + wanted.text);
}

/// "'epoch' is an int, and 'soon' is none".
[[noreturn]] void refuse(const ValueToSet& wanted, PlainKind kind, const std::string& why) {
  std::string article = kind == PlainKind::integer ? "an " : "a ";
  std::string start = wanted.kind ? " is to become " : " is ";
  throw Error(ErrorCode::usage, core::quote(wanted.key) + start + article + std::string(name(kind)) + ", and " +
                                    core::quote(wanted.text) + " " + why);
}

[[noreturn]] void refuse_kind(const ValueToSet& wanted, PlainKind kind) {
  std::string why = kind == PlainKind::boolean ? "is neither true nor false" : "is none";
  if (!wanted.kind) why += "; " + with_kind(wanted, PlainKind::text) + " would make it a text";
  refuse(wanted, kind, why);
}

Value parse_real(const ValueToSet& wanted) {
  std::string_view text = wanted.text;
  bool plus = text.starts_with('+') && !text.starts_with("+-");
  if (plus) text.remove_prefix(1);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = end == text.data() + text.size() && text.find('(') == std::string_view::npos;
  if (!whole || error == std::errc::invalid_argument) refuse_kind(wanted, PlainKind::real);
  if (error != std::errc()) refuse(wanted, PlainKind::real, "is past the range of one, 5e-324 to 1.8e308");
  return Value::real(value);
}

Value parse_boolean(const ValueToSet& wanted) {
  if (wanted.text == "true" || wanted.text == "True") return Value::boolean(true);
  if (wanted.text == "false" || wanted.text == "False") return Value::boolean(false);
  refuse_kind(wanted, PlainKind::boolean);
}

Value parse_as(const ValueToSet& wanted, PlainKind kind) {
  switch (kind) {
    case PlainKind::integer: {
      std::optional<Value> integer = detail::parse_integer(wanted.text);
      if (!integer) refuse_kind(wanted, kind);
      return *integer;
    }
    case PlainKind::real:
      return parse_real(wanted);
    case PlainKind::boolean:
      return parse_boolean(wanted);
    case PlainKind::text:
      if (!core::is_utf8(wanted.text)) refuse(wanted, kind, "is no UTF-8");
      return Value::text(wanted.text);
    case PlainKind::none:
      if (!wanted.text.empty() && wanted.text != "None" && wanted.text != "none") refuse_kind(wanted, kind);
      return {};
  }
  return {};
}

bool is_container(const Value& value) {
  return value.is_sequence() || value.is(Value::Kind::dict);
}

/// What has no kind of its own needs one.
[[noreturn]] void ask_for_kind(const ValueToSet& wanted, const Value* old) {
  std::string is = old == nullptr ? "is new" : old->is_null() ? "is None" : "is " + detail::what_it_is(*old);
  throw Error(ErrorCode::usage, core::quote(wanted.key) + " " + is + ", so say which kind it gets (" +
                                    std::string(kKindList) + "), as in " + with_kind(wanted, PlainKind::text));
}

}  // namespace

std::string_view name(PlainKind kind) {
  static constexpr std::string_view kNames[] = {"int", "float", "bool", "text", "none"};
  return kNames[static_cast<std::size_t>(kind)];
}

ValueToSet parse_value_to_set(std::string_view text) {
  std::size_t equals = text.find('=');
  ValueToSet out;
  if (equals != std::string_view::npos) {
    out.key = text.substr(0, equals);
    out.text = text.substr(equals + 1);
    std::size_t colon = out.key.rfind(':');
    if (colon != std::string::npos) out.kind = kind_named(std::string_view(out.key).substr(colon + 1));
    if (out.kind) out.key.resize(colon);
  }
  if (!out.key.empty()) return out;
  throw Error(ErrorCode::usage, core::quote(text) + " is not of the form KEY=VALUE or KEY:KIND=VALUE");
}

namespace detail {

std::string what_it_is(const Value& value) {
  auto items = [](std::size_t count) { return " of " + std::to_string(count) + (count == 1 ? " item" : " items"); };
  if (value.is(Value::Kind::tensor)) return "a tensor of shape " + core::to_list(value_shape(value.as_entry()));
  if (value.is(Value::Kind::object)) return "an object of " + core::quote(value.as_object().symbol);
  if (value.is(Value::Kind::dict)) return "a " + type_text(value) + items(value.as_dict().items.size());
  if (value.is_sequence()) return "a " + type_text(value) + items(value.as_list().size());
  return "a value of type " + type_text(value);
}

Value value_to_set(const ValueToSet& wanted, const Value* old) {
  if (old != nullptr && (is_container(*old) || !list_entries(*old).empty())) {
    std::string advice = is_container(*old) ? "; name a value in it" : "; only plain values are set";
    if (old->is(Value::Kind::tensor)) advice = "; 'ckpt set' changes plain values";
    throw Error(ErrorCode::usage, core::quote(wanted.key) + " is " + what_it_is(*old) + advice);
  }
  std::optional<PlainKind> kind = wanted.kind;
  if (!kind && old != nullptr) kind = kind_of(*old);
  if (!kind) ask_for_kind(wanted, old);
  return parse_as(wanted, *kind);
}

}  // namespace detail
}  // namespace ckpt
