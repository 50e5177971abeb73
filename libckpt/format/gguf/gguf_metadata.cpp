#include "libckpt/format/gguf/gguf_metadata.h"

#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/json.h"
#include "libckpt/limits.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kMaxListed = 1024;  ///< elements of an array that become text
constexpr std::uint64_t kMaxListedBytes = 64 << 10;

template <class T>
std::string number_text(T number) {
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, number);
  return error == std::errc() ? std::string(buffer, end) : std::string();
}

template <class T>
std::string take_number(ByteCursor& in) {
  if constexpr (sizeof(T) == 1)
    return std::to_string(static_cast<int>(in.take<T>()));
  else
    return number_text(in.take<T>());
}

/// One element that is no text.
std::string scalar_text(GgufValueType type, ByteCursor& in) {
  switch (type) {
    case GgufValueType::u8:
      return take_number<std::uint8_t>(in);
    case GgufValueType::i8:
      return take_number<std::int8_t>(in);
    case GgufValueType::u16:
      return take_number<std::uint16_t>(in);
    case GgufValueType::i16:
      return take_number<std::int16_t>(in);
    case GgufValueType::u32:
      return take_number<std::uint32_t>(in);
    case GgufValueType::i32:
      return take_number<std::int32_t>(in);
    case GgufValueType::f32:
      return take_number<float>(in);
    case GgufValueType::boolean:
      return in.take<std::uint8_t>() != 0 ? "true" : "false";
    case GgufValueType::u64:
      return take_number<std::uint64_t>(in);
    case GgufValueType::i64:
      return take_number<std::int64_t>(in);
    case GgufValueType::f64:
      return take_number<double>(in);
    default:
      return "";
  }
}

std::string array_text(const GgufValue& value) {
  ByteCursor in(value.stored);
  auto type = static_cast<GgufValueType>(in.take<std::uint32_t>());
  auto count = in.take<std::uint64_t>();
  if (count > kMaxListed || value.stored.size() > kMaxListedBytes) {
    return "[" + std::to_string(count) + " x " + std::string(value_type_name(type)) + "]";
  }
  std::string out = "[";
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i > 0) out += ", ";
    out += type == GgufValueType::text ? json_quote(in.take_text(in.take<std::uint64_t>())) : scalar_text(type, in);
  }
  return out + "]";
}

template <class T>
bool store_number(const std::string& text, core::ByteVector& out) {
  T number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  core::append_le(out, number);
  return true;
}

bool store_bool(const std::string& text, core::ByteVector& out) {
  if (text != "true" && text != "false") return false;
  out.push_back(std::byte{text == "true"});
  return true;
}

void store_text(const std::string& text, core::ByteVector& out) {
  core::append_le(out, static_cast<std::uint64_t>(text.size()));
  core::append(out, core::as_bytes(text));
}

bool store(GgufValueType type, const std::string& text, core::ByteVector& out) {
  switch (type) {
    case GgufValueType::u8:
      return store_number<std::uint8_t>(text, out);
    case GgufValueType::i8:
      return store_number<std::int8_t>(text, out);
    case GgufValueType::u16:
      return store_number<std::uint16_t>(text, out);
    case GgufValueType::i16:
      return store_number<std::int16_t>(text, out);
    case GgufValueType::u32:
      return store_number<std::uint32_t>(text, out);
    case GgufValueType::i32:
      return store_number<std::int32_t>(text, out);
    case GgufValueType::f32:
      return store_number<float>(text, out);
    case GgufValueType::boolean:
      return store_bool(text, out);
    case GgufValueType::u64:
      return store_number<std::uint64_t>(text, out);
    case GgufValueType::i64:
      return store_number<std::int64_t>(text, out);
    case GgufValueType::f64:
      return store_number<double>(text, out);
    case GgufValueType::text:
      store_text(text, out);
      return true;
    case GgufValueType::array:
      return false;
  }
  return false;
}

/// "general.alignment" must be a number that ggml accepts, whoever wrote it.
bool is_good_alignment(const GgufValue& value) {
  if (value.type != GgufValueType::u32) return false;
  auto alignment = core::load_le<std::uint32_t>(value.stored.data());
  return alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= (1U << 20);
}

/// Keys of the format itself whose values are numbers.
bool is_known_number(std::string_view key) {
  return key == kAlignmentKey || key == "general.file_type" || key == "general.quantization_version";
}

}  // namespace

std::string metadata_text(const GgufValue& value) {
  ByteCursor in(value.stored, "a metadata value");
  if (value.type == GgufValueType::text) return std::string(in.take_text(in.take<std::uint64_t>()));
  return value.type == GgufValueType::array ? array_text(value) : scalar_text(value.type, in);
}

std::optional<GgufValue> metadata_value(const std::string& key, const std::string& text, const GgufValue* old) {
  if (old != nullptr && metadata_text(*old) == text) return *old;
  GgufValue value;
  value.key = key;
  value.type = old != nullptr ? old->type : is_known_number(key) ? GgufValueType::u32 : GgufValueType::text;
  if (!store(value.type, text, value.stored)) return std::nullopt;
  return value;
}

bool is_slack(const GgufValue& value) {
  return value.key == kSlackKey && value.type == GgufValueType::text &&
         metadata_text(value).find_first_not_of(' ') == std::string::npos;
}

std::vector<GgufValue> metadata_values(const Checkpoint& checkpoint, std::vector<Obstacle>* obstacles) {
  auto detail = std::dynamic_pointer_cast<const GgufDetail>(checkpoint.detail);
  std::unordered_map<std::string_view, const GgufValue*> old;
  if (detail != nullptr) {
    for (const GgufValue& value : detail->values) old.emplace(value.key, &value);
  }
  std::vector<GgufValue> values;
  std::unordered_set<std::string_view> seen;
  for (const auto& [key, text] : checkpoint.metadata) {
    auto found = old.find(key);
    auto value = metadata_value(key, text, found == old.end() ? nullptr : found->second);
    bool good = value && !key.empty() && key.size() <= kMaxGgufKey && seen.insert(key).second &&
                (key != kAlignmentKey || is_good_alignment(*value));
    if (good && key != kSlackKey) {
      values.push_back(std::move(*value));
    } else if (obstacles != nullptr) {
      obstacles->push_back({key, Obstacle::Kind::metadata,
                            good ? "metadata under the key by which a file keeps room for edits in place"
                                 : "metadata whose text is not a value of its type"});
    }
  }
  return values;
}

}  // namespace ckpt::detail
