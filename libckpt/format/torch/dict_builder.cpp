#include "libckpt/format/torch/dict_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "libckpt/format/torch/pickle_cursor.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

void append_token(std::string& out, const Value& value);

void append_number(std::string& out, double value) {
  bool whole = std::abs(value) < 9.2e18 && value == std::floor(value);
  if (whole) {
    out += "i" + std::to_string(static_cast<std::int64_t>(value));
  } else {
    out += "f" + std::to_string(std::bit_cast<std::uint64_t>(value));
  }
}

void append_counted(std::string& out, char kind, std::string_view bytes) {
  out += kind + std::to_string(bytes.size()) + ":";
  out += bytes;
}

void append_members(std::string& out, const Value& value) {
  std::vector<std::string> tokens;
  for (const Value& item : value.as_list()) append_token(tokens.emplace_back(), item);
  if (value.is(Value::Kind::frozenset)) std::sort(tokens.begin(), tokens.end());
  out += value.is(Value::Kind::frozenset) ? "{" : "(";
  for (const std::string& token : tokens) append_counted(out, 'm', token);
  out += ")";
}

void append_object(std::string& out, const Object& object) {
  append_counted(out, 'o', object.symbol);
  out += static_cast<char>('0' + static_cast<int>(object.form));
  if (object.args.is_sequence()) append_members(out, object.args);
}

/// Text that is equal for keys that Python takes for equal. Values without a rule are told apart by identity.
void append_token(std::string& out, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::null:
      out += 'n';
      return;
    case Value::Kind::boolean:
      out += value.as_boolean() ? "i1" : "i0";
      return;
    case Value::Kind::integer:
      out += "i" + std::to_string(value.as_integer());
      return;
    case Value::Kind::real:
      return append_number(out, value.as_real());
    case Value::Kind::text:
      return append_counted(out, 't', value.as_text());
    case Value::Kind::bytes:
      return append_counted(out, 'b', core::as_text(value.as_bytes()));
    case Value::Kind::big_integer:
      return append_counted(out, 'I', core::as_text(value.as_bytes()));
    case Value::Kind::tuple:
    case Value::Kind::frozenset:
      return append_members(out, value);
    case Value::Kind::object:
      append_object(out, value.as_object());
      if (value.as_object().has_state) out += "@" + std::to_string(reinterpret_cast<std::uintptr_t>(value.identity()));
      return;
    default:
      out += "@" + std::to_string(reinterpret_cast<std::uintptr_t>(value.identity()));
  }
}

}  // namespace

DictBuilder::DictBuilder(std::size_t expected) {
  items_.reserve(expected);
}

bool DictBuilder::set(Value key, Value value) {
  check_hashable(key);
  std::string token;
  append_token(token, key);
  auto [at, fresh] = places_.try_emplace(std::move(token), items_.size());
  if (fresh) {
    items_.emplace_back(std::move(key), std::move(value));
  } else {
    items_[at->second].second = std::move(value);
  }
  return !fresh;
}

void check_hashable(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::list:
    case Value::Kind::dict:
    case Value::Kind::set:
    case Value::Kind::bytearray:
      throw core::Error(core::ErrorCode::corrupt,
                        "a list, dict, set or bytearray stands where Python needs a hashable key");
    case Value::Kind::tuple:
      for (const Value& item : value.as_list()) check_hashable(item);
      return;
    default:
      return;
  }
}

std::optional<core::ByteVector> latin1_bytes(std::string_view text) {
  core::ByteVector out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      if ((c & 0xfcU) != 0xc0U || i + 1 == text.size()) return std::nullopt;
      c = static_cast<unsigned char>((c << 6U) | (static_cast<unsigned char>(text[++i]) & 0x3fU));
    }
    out.push_back(static_cast<std::byte>(c));
  }
  return out;
}

std::string latin1_text(core::Bytes bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::byte b : bytes) append_utf8(out, std::to_integer<std::uint32_t>(b));
  return out;
}

}  // namespace ckpt
