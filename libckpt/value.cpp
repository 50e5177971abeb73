#include "libckpt/value.h"

#include <array>

#include "libckpt/entry.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

template <class T>
const T& node_as(const void* node) {
  return *static_cast<const T*>(node);
}

bool same_items(const std::vector<std::pair<Value, Value>>& a, const std::vector<std::pair<Value, Value>>& b) {
  return a == b;
}

bool same_dict(const Dict& a, const Dict& b) {
  return a.type == b.type && same_items(a.items, b.items) && a.attributes == b.attributes &&
         a.constructor_args == b.constructor_args;
}

bool same_object(const Object& a, const Object& b) {
  return a.symbol == b.symbol && a.form == b.form && a.args == b.args && a.kwargs == b.kwargs &&
         a.has_state == b.has_state && a.state == b.state && a.appended == b.appended && same_items(a.items, b.items);
}

const Value* find_text(const std::vector<std::pair<Value, Value>>& items, std::string_view key) {
  for (const auto& [name, value] : items) {
    if (name.is(Value::Kind::text) && name.as_text() == key) return &value;
  }
  return nullptr;
}

/// As Python says it.
std::string_view kind_text(Value::Kind kind) {
  static constexpr std::array<std::string_view, 16> kTexts = {
      "None",        "a bool", "an int",  "an int", "a float",     "a complex", "a str",    "bytes",
      "a bytearray", "a list", "a tuple", "a set",  "a frozenset", "a dict",    "a tensor", "an object"};
  return kTexts[static_cast<std::size_t>(kind)];
}

}  // namespace

Value Value::boolean(bool value) {
  Value out(Kind::boolean, nullptr);
  out.boolean_ = value;
  return out;
}

Value Value::integer(std::int64_t value) {
  Value out(Kind::integer, nullptr);
  out.integer_ = value;
  return out;
}

Value Value::real(double value) {
  Value out(Kind::real, nullptr);
  out.real_ = value;
  return out;
}

Value Value::big_integer(core::ByteVector twos_complement) {
  return {Kind::big_integer, std::make_shared<const core::ByteVector>(std::move(twos_complement))};
}
Value Value::past_64_bits(std::uint64_t value) {
  core::ByteVector bytes;
  core::append_le<std::uint64_t>(bytes, value);
  bytes.push_back(std::byte{0});  // the sign
  return big_integer(std::move(bytes));
}
Value Value::complex(double re, double im) {
  return {Kind::complex, std::make_shared<const std::pair<double, double>>(re, im)};
}
Value Value::text(std::string value) {
  return {Kind::text, std::make_shared<const std::string>(std::move(value))};
}
Value Value::bytes(core::ByteVector value) {
  return {Kind::bytes, std::make_shared<const core::ByteVector>(std::move(value))};
}
Value Value::bytearray(core::ByteVector value) {
  return {Kind::bytearray, std::make_shared<const core::ByteVector>(std::move(value))};
}
Value Value::list(List items) {
  return {Kind::list, std::make_shared<const List>(std::move(items))};
}
Value Value::tuple(List items) {
  return {Kind::tuple, std::make_shared<const List>(std::move(items))};
}
Value Value::set(List items) {
  return {Kind::set, std::make_shared<const List>(std::move(items))};
}
Value Value::frozenset(List items) {
  return {Kind::frozenset, std::make_shared<const List>(std::move(items))};
}
Value Value::dict(Dict dict) {
  return {Kind::dict, std::make_shared<const Dict>(std::move(dict))};
}
Value Value::object(Object object) {
  return {Kind::object, std::make_shared<const Object>(std::move(object))};
}
Value Value::tensor(std::shared_ptr<const Entry> entry) {
  return {Kind::tensor, std::move(entry)};
}

Value Value::dict(std::initializer_list<std::pair<Value, Value>> items) {
  Dict dict;
  dict.items.assign(items.begin(), items.end());
  return Value::dict(std::move(dict));
}

void Value::require(Kind wanted) const {
  if (kind_ == wanted) return;
  throw core::Error(core::ErrorCode::type, "the value is " + std::string(kind_text(kind_)) + " and was read as " +
                                               std::string(kind_text(wanted)));
}

bool Value::as_boolean() const {
  require(Kind::boolean);
  return boolean_;
}
std::int64_t Value::as_integer() const {
  require(Kind::integer);
  return integer_;
}
double Value::as_real() const {
  require(Kind::real);
  return real_;
}
std::pair<double, double> Value::as_complex() const {
  require(Kind::complex);
  return node_as<std::pair<double, double>>(node_.get());
}
const std::string& Value::as_text() const {
  require(Kind::text);
  return node_as<std::string>(node_.get());
}
const core::ByteVector& Value::as_bytes() const {
  if (kind_ != Kind::big_integer && kind_ != Kind::bytearray) require(Kind::bytes);
  return node_as<core::ByteVector>(node_.get());
}
const Value::List& Value::as_list() const {
  if (!is_sequence()) require(Kind::list);
  return node_as<List>(node_.get());
}
const Dict& Value::as_dict() const {
  require(Kind::dict);
  return node_as<Dict>(node_.get());
}
const Entry& Value::as_entry() const {
  require(Kind::tensor);
  return node_as<Entry>(node_.get());
}
std::shared_ptr<const Entry> Value::entry_ptr() const {
  require(Kind::tensor);
  return std::static_pointer_cast<const Entry>(node_);
}
const Object& Value::as_object() const {
  require(Kind::object);
  return node_as<Object>(node_.get());
}

const Value* Value::find(std::string_view key) const {
  return is(Kind::dict) ? as_dict().find(key) : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  return find_text(items, key);
}

bool operator==(const Value& a, const Value& b) {
  if (a.kind_ != b.kind_) return false;
  if (a.node_ != nullptr && a.node_ == b.node_) return true;
  switch (a.kind_) {
    case Value::Kind::null:
      return true;
    case Value::Kind::boolean:
      return a.boolean_ == b.boolean_;
    case Value::Kind::integer:
      return a.integer_ == b.integer_;
    case Value::Kind::real:
      return a.real_ == b.real_;
    case Value::Kind::complex:
      return a.as_complex() == b.as_complex();
    case Value::Kind::text:
      return a.as_text() == b.as_text();
    case Value::Kind::bytes:
    case Value::Kind::bytearray:
    case Value::Kind::big_integer:
      return a.as_bytes() == b.as_bytes();
    case Value::Kind::list:
    case Value::Kind::tuple:
    case Value::Kind::set:
    case Value::Kind::frozenset:
      return a.as_list() == b.as_list();
    case Value::Kind::dict:
      return same_dict(a.as_dict(), b.as_dict());
    case Value::Kind::object:
      return same_object(a.as_object(), b.as_object());
    case Value::Kind::tensor:
      return false;
  }
  return false;
}

}  // namespace ckpt
