#include "libckpt/hub/gguf_values.h"

#include <cmath>
#include <limits>

#include "libckpt/io/byte_cursor.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using StoredType = GgufValueType;

void append_text(core::ByteVector& out, std::string_view text) {
  core::append_le(out, static_cast<std::uint64_t>(text.size()));
  core::append(out, core::as_bytes(text));
}

core::ByteVector array_head(StoredType type, std::size_t count) {
  core::ByteVector out;
  core::append_le(out, static_cast<std::uint32_t>(type));
  core::append_le(out, static_cast<std::uint64_t>(count));
  return out;
}

template <class T>
bool store_whole(double number, core::ByteVector& out) {
  const bool fits = number == std::floor(number) && number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                    number <= static_cast<double>(std::numeric_limits<T>::max());
  if (fits) core::append_le(out, static_cast<T>(number));
  return fits;
}

bool store_number(StoredType type, double number, core::ByteVector& out) {
  switch (type) {
    case StoredType::u32:
      return store_whole<std::uint32_t>(number, out);
    case StoredType::i32:
      return store_whole<std::int32_t>(number, out);
    case StoredType::f32:
      core::append_le(out, static_cast<float>(number));
      return true;
    default:
      return false;
  }
}

std::optional<double> take_number(StoredType type, ByteCursor& in) {
  switch (type) {
    case StoredType::u8:
      return in.take<std::uint8_t>();
    case StoredType::i8:
      return in.take<std::int8_t>();
    case StoredType::u16:
      return in.take<std::uint16_t>();
    case StoredType::i16:
      return in.take<std::int16_t>();
    case StoredType::u32:
      return in.take<std::uint32_t>();
    case StoredType::i32:
      return in.take<std::int32_t>();
    case StoredType::f32:
      return in.take<float>();
    case StoredType::u64:
      return static_cast<double>(in.take<std::uint64_t>());
    case StoredType::i64:
      return static_cast<double>(in.take<std::int64_t>());
    case StoredType::f64:
      return in.take<double>();
    default:
      return std::nullopt;
  }
}

[[noreturn]] void mistaken(std::string_view key, std::string_view wanted) {
  throw Error(ErrorCode::corrupt, "the metadata value " + core::quote(key) + " is not " + std::string(wanted));
}

}  // namespace

void GgufValues::add_text(std::string key, std::string_view text) {
  GgufValue value{.key = std::move(key), .type = StoredType::text, .stored = {}};
  append_text(value.stored, text);
  values_.push_back(std::move(value));
}

void GgufValues::add_flag(std::string key, bool flag) {
  values_.push_back({.key = std::move(key), .type = StoredType::boolean, .stored = {std::byte{flag}}});
}

void GgufValues::add_number(std::string key, StoredType type, double number) {
  GgufValue value{.key = std::move(key), .type = type, .stored = {}};
  if (!store_number(type, number, value.stored)) {
    throw Error(ErrorCode::value, "the metadata value " + core::quote(value.key) + " cannot be " +
                                      core::python_float(number) + " as " + std::string(value_type_name(type)));
  }
  values_.push_back(std::move(value));
}

void GgufValues::add_texts(std::string key, const std::vector<std::string>& texts) {
  core::ByteVector stored = array_head(StoredType::text, texts.size());
  for (const std::string& text : texts) append_text(stored, text);
  values_.push_back({.key = std::move(key), .type = StoredType::array, .stored = std::move(stored)});
}

void GgufValues::add_floats(std::string key, const std::vector<float>& numbers) {
  core::ByteVector stored = array_head(StoredType::f32, numbers.size());
  for (float number : numbers) core::append_le(stored, number);
  values_.push_back({.key = std::move(key), .type = StoredType::array, .stored = std::move(stored)});
}

void GgufValues::add_integers(std::string key, const std::vector<std::int32_t>& numbers) {
  core::ByteVector stored = array_head(StoredType::i32, numbers.size());
  for (std::int32_t number : numbers) core::append_le(stored, number);
  values_.push_back({.key = std::move(key), .type = StoredType::array, .stored = std::move(stored)});
}

void GgufValues::add_bytes(std::string key, core::Bytes bytes) {
  core::ByteVector stored = array_head(StoredType::u8, bytes.size());
  core::append(stored, bytes);
  values_.push_back({.key = std::move(key), .type = StoredType::array, .stored = std::move(stored)});
}

const GgufValue* GgufValues::find(std::string_view key) const {
  for (const GgufValue& value : values_) {
    if (value.key == key) return &value;
  }
  return nullptr;
}

std::optional<std::string> GgufValues::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != StoredType::text) mistaken(key, "a text");
  ByteCursor in(value->stored, "a metadata value");
  return std::string(in.take_text(in.take<std::uint64_t>()));
}

std::optional<double> GgufValues::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  ByteCursor in(value->stored, "a metadata value");
  std::optional<double> number = take_number(value->type, in);
  if (!number || !std::isfinite(*number)) mistaken(key, "a number");
  return number;
}

std::optional<bool> GgufValues::flag(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != StoredType::boolean) mistaken(key, "true or false");
  return value->stored.at(0) != std::byte{0};
}

std::vector<std::string> GgufValues::texts(std::string_view key) const {
  const GgufValue* value = find(key);
  std::vector<std::string> out;
  if (value == nullptr) return out;
  ByteCursor in(value->stored, "a metadata value");
  if (value->type != StoredType::array || static_cast<StoredType>(in.take<std::uint32_t>()) != StoredType::text) {
    mistaken(key, "a list of texts");
  }
  const auto count = in.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) out.emplace_back(in.take_text(in.take<std::uint64_t>()));
  return out;
}

std::vector<double> GgufValues::numbers(std::string_view key) const {
  const GgufValue* value = find(key);
  std::vector<double> out;
  if (value == nullptr) return out;
  if (value->type != StoredType::array) mistaken(key, "a list of numbers");
  ByteCursor in(value->stored, "a metadata value");
  const auto type = static_cast<StoredType>(in.take<std::uint32_t>());
  const auto count = in.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::optional<double> number = take_number(type, in);
    if (!number) mistaken(key, "a list of numbers");
    out.push_back(*number);
  }
  return out;
}

}  // namespace ckpt::detail
