#include "libcore/base/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/checked_math.h"
#include "libcore/base/edit_distance.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {
namespace {

enum class Family : std::uint8_t { boolean, integer, floating, complex, quantized, bits };

struct Row {
  std::string_view name;
  std::string_view short_name;
  int bits;
  Family family;
};

constexpr std::array<Row, kDTypeCount> kRows = {{
    {"bool", "bool", 8, Family::boolean},
    {"uint8", "u8", 8, Family::integer},
    {"int8", "i8", 8, Family::integer},
    {"int16", "i16", 16, Family::integer},
    {"int32", "i32", 32, Family::integer},
    {"int64", "i64", 64, Family::integer},
    {"uint16", "u16", 16, Family::integer},
    {"uint32", "u32", 32, Family::integer},
    {"uint64", "u64", 64, Family::integer},
    {"float16", "f16", 16, Family::floating},
    {"bfloat16", "bf16", 16, Family::floating},
    {"float32", "f32", 32, Family::floating},
    {"float64", "f64", 64, Family::floating},
    {"complex32", "c32", 32, Family::complex},
    {"complex64", "c64", 64, Family::complex},
    {"complex128", "c128", 128, Family::complex},
    {"float8_e4m3fn", "f8_e4m3", 8, Family::floating},
    {"float8_e5m2", "f8_e5m2", 8, Family::floating},
    {"float8_e4m3fnuz", "f8_e4m3fnuz", 8, Family::floating},
    {"float8_e5m2fnuz", "f8_e5m2fnuz", 8, Family::floating},
    {"float8_e8m0fnu", "f8_e8m0", 8, Family::floating},
    {"float6_e2m3", "f6_e2m3", 6, Family::floating},
    {"float6_e3m2", "f6_e3m2", 6, Family::floating},
    {"float4_e2m1fn_x2", "f4_x2", 8, Family::floating},
    {"qint8", "qi8", 8, Family::quantized},
    {"quint8", "qu8", 8, Family::quantized},
    {"qint32", "qi32", 32, Family::quantized},
    {"quint4x2", "qu4x2", 4, Family::quantized},
    {"quint2x4", "qu2x4", 2, Family::quantized},
    {"bits8", "bits8", 8, Family::bits},
    {"bits16", "bits16", 16, Family::bits},
    {"bits1x8", "bits1x8", 8, Family::bits},
    {"bits2x4", "bits2x4", 8, Family::bits},
    {"bits4x2", "bits4x2", 8, Family::bits},
}};

constexpr std::array<std::pair<std::string_view, DType>, 12> kSynonyms = {{
    {"float", DType::f32},
    {"double", DType::f64},
    {"half", DType::f16},
    {"long", DType::i64},
    {"int", DType::i32},
    {"short", DType::i16},
    {"cfloat", DType::c64},
    {"cdouble", DType::c128},
    {"chalf", DType::c32},
    {"f8_e4m3fn", DType::f8_e4m3fn},
    {"f8_e8m0fnu", DType::f8_e8m0fnu},
    {"byte", DType::u8},
}};

const Row& row(DType dtype) {
  return kRows[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::string_view name(DType dtype) {
  return row(dtype).name;
}
std::string_view short_name(DType dtype) {
  return row(dtype).short_name;
}
int bit_width(DType dtype) {
  return row(dtype).bits;
}

std::optional<DType> try_parse_dtype(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower.starts_with("torch.")) lower.erase(0, 6);
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kRows[i].name == lower || kRows[i].short_name == lower) return static_cast<DType>(i);
  }
  for (const auto& [synonym, dtype] : kSynonyms) {
    if (synonym == lower) return dtype;
  }
  return std::nullopt;
}

namespace {

/// "; did you mean 'bfloat16'?" or "".
std::string did_you_mean(std::string_view text) {
  constexpr std::size_t kLongest = 20;
  std::string_view best;
  std::size_t least = text.size() / 3 + 1;
  auto look_at = [&](std::string_view name) {
    std::size_t distance = edit_distance(text, name);
    if (distance < least) best = name;
    least = std::min(least, distance);
  };
  if (text.size() > kLongest) return "";
  std::vector<std::string_view> longer;  // "bfloat" is the start of one name, and a letter from another
  for (const Row& row : kRows) {
    if (text.size() > 2 && row.name.starts_with(text)) longer.push_back(row.name);
  }
  if (longer.size() == 1) return "; did you mean " + quote(longer[0]) + "?";
  for (const Row& row : kRows) {
    look_at(row.name);
    look_at(row.short_name);
  }
  for (const auto& synonym : kSynonyms) look_at(synonym.first);
  return best.empty() ? "" : "; did you mean " + quote(best) + "?";
}

}  // namespace

DType parse_dtype(std::string_view text) {
  if (auto dtype = try_parse_dtype(text)) return *dtype;
  throw Error(ErrorCode::usage,
              quote(text) + " is not a dtype" + did_you_mean(text) + "; use a name such as float32, bf16 or int64");
}

std::optional<std::uint64_t> byte_size(DType dtype, std::uint64_t count) {
  auto bits = try_mul<std::uint64_t>(count, static_cast<std::uint64_t>(bit_width(dtype)));
  if (bits && *bits % 8 == 0) return *bits / 8;
  if (bits || bit_width(dtype) % 8 != 0) return std::nullopt;
  return try_mul<std::uint64_t>(count, static_cast<std::uint64_t>(bit_width(dtype)) / 8);
}

bool is_floating(DType dtype) {
  return row(dtype).family == Family::floating;
}
bool is_complex(DType dtype) {
  return row(dtype).family == Family::complex;
}
bool is_integer(DType dtype) {
  return row(dtype).family == Family::integer;
}
bool is_quantized(DType dtype) {
  return row(dtype).family == Family::quantized;
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << "torch." << name(dtype);
}

}  // namespace core
