#include "libcore/tensor/print_number.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "libcore/base/bytes.h"
#include "libcore/base/half.h"

namespace core::detail {
namespace {

/// A short text that is written from its end to its beginning.
class Backwards {
 public:
  void put(char c) { *--at_ = c; }
  void pad(std::size_t width) {
    while (size() < width && at_ != buffer_) put(' ');
  }
  std::size_t size() const { return static_cast<std::size_t>(std::end(buffer_) - at_); }
  std::string_view view() const { return {at_, size()}; }

 private:
  char buffer_[64];
  char* at_ = std::end(buffer_);
};

constexpr auto kPowersOfTen = [] {
  std::array<std::uint64_t, 20> powers{1};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

/// |value| * 10^power, rounded as printf rounds (exact, ties to even). None when that does not fit or takes more than
/// 128 bits on the way. REQUIRES: value is finite, 0 <= power <= 19.
std::optional<std::uint64_t> scaled(double value, int power) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value) << 1 >> 1;
  if (bits == 0) return 0;
  const std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
  const int shift = 1075 - static_cast<int>(bits >> 52);  // |value| == mantissa / 2^shift
  if (shift < 0 || shift > 120) return std::nullopt;
  unsigned __int128 product = static_cast<unsigned __int128>(mantissa) * kPowersOfTen[static_cast<std::size_t>(power)];
  const unsigned __int128 one = static_cast<unsigned __int128>(1) << shift;
  const unsigned __int128 rest = product & (one - 1);
  product >>= shift;
  if (product >> 63 != 0) return std::nullopt;
  auto whole = static_cast<std::uint64_t>(product);
  const bool rounds_up = shift > 0 && (rest > one / 2 || (rest == one / 2 && (whole & 1) != 0));
  return whole + (rounds_up ? 1 : 0);
}

/// "-12.3456": the last `digits` decimal digits of `number` stand behind the point.
void put_with_point(Backwards& to, bool negative, std::uint64_t number, int digits) {
  for (int written = 0; number != 0 || written <= digits; ++written) {
    if (written == digits && digits > 0) to.put('.');
    to.put(static_cast<char>('0' + number % 10));
    number /= 10;
  }
  if (negative) to.put('-');
}

/// As printf("%.*f"); false, and nothing is written, where the short way does not reach.
bool put_fixed(Backwards& to, double value, int precision) {
  if (precision > 15) return false;
  const auto number = scaled(value, precision);
  if (!number) return false;
  put_with_point(to, std::signbit(value), *number, precision);
  return true;
}

/// As printf("%.*e"), likewise.
bool put_scientific(Backwards& to, double value, int precision) {
  if (precision > 9 || value == 0) return false;
  // 1233 / 4096 is log10(2): right, or one too low.
  int exponent = ((std::ilogb(value) * 1233) >> 12);
  const std::uint64_t lowest = kPowersOfTen[static_cast<std::size_t>(precision)];
  std::optional<std::uint64_t> number;
  for (int tries = 0; tries < 3; ++tries) {  // the guess, and rounding that carries into a new digit
    if (precision < exponent || precision - exponent > 19) return false;
    number = scaled(value, precision - exponent);
    if (!number) return false;
    if (*number >= lowest && *number < lowest * 10) break;
    exponent += *number < lowest ? -1 : 1;
  }
  if (*number < lowest || *number >= lowest * 10) return false;
  const int size = std::abs(exponent);
  to.put(static_cast<char>('0' + size % 10));
  to.put(static_cast<char>('0' + size / 10));
  to.put(exponent < 0 ? '-' : '+');
  to.put('e');
  put_with_point(to, std::signbit(value), *number, precision);
  return true;
}

std::string printf_text(const char* pattern, int precision, double value) {
  char buffer[400];  // the longest: a double with 308 digits in front of the point
  int length = std::snprintf(buffer, sizeof buffer, pattern, precision, value);
  if (length < static_cast<int>(sizeof buffer)) return {buffer, static_cast<std::size_t>(length)};
  std::string longer(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(longer.data(), longer.size(), pattern, precision, value);
  longer.pop_back();
  return longer;
}

double read_float(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f32:
    case DType::c64:
      return load_le<float>(at);
    case DType::f64:
    case DType::c128:
      return load_le<double>(at);
    case DType::f16:
    case DType::c32:
      return f16_to_f32(load_le<std::uint16_t>(at));
    case DType::bf16:
      return bf16_to_f32(load_le<std::uint16_t>(at));
    default:
      return f8_to_f32(dtype, load_le<std::uint8_t>(at));
  }
}

std::string read_integer(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::boolean:
      return load_le<std::uint8_t>(at) != 0 ? "True" : "False";
    case DType::i8:
      return std::to_string(load_le<std::int8_t>(at));
    case DType::i16:
      return std::to_string(load_le<std::int16_t>(at));
    case DType::u16:
      return std::to_string(load_le<std::uint16_t>(at));
    case DType::i32:
      return std::to_string(load_le<std::int32_t>(at));
    case DType::u32:
      return std::to_string(load_le<std::uint32_t>(at));
    case DType::i64:
      return std::to_string(load_le<std::int64_t>(at));
    case DType::u64:
      return std::to_string(load_le<std::uint64_t>(at));
    default:
      return std::to_string(load_le<std::uint8_t>(at));
  }
}

void append_padded(std::string& out, std::string_view text, std::size_t width) {
  if (text.size() < width) out.append(width - text.size(), ' ');
  out += text;
}

}  // namespace

void Elements::reserve(std::size_t count) {
  if (is_floating(dtype) || is_complex(dtype)) {
    real.reserve(count);
  } else {
    texts.reserve(count);
  }
  if (is_complex(dtype)) imaginary.reserve(count);
}

void Elements::read(const std::byte* at) {
  if (is_floating(dtype)) {
    real.push_back(read_float(dtype, at));
  } else if (is_complex(dtype)) {
    real.push_back(read_float(dtype, at));
    imaginary.push_back(read_float(dtype, at + bit_width(dtype) / 16));
  } else {
    texts.push_back(read_integer(dtype, at));
  }
}

NumberFormat::NumberFormat(const std::vector<double>& shown, const PrintOptions& options)
    : precision_(options.precision) {
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();
  bool any = false;
  for (double value : shown) {
    if (!std::isfinite(value) || value == 0) continue;
    any = true;
    largest = std::max(largest, std::abs(value));
    smallest = std::min(smallest, std::abs(value));
    integers_ = integers_ && value == std::ceil(value);
  }
  if (!any) return;
  scientific_ = largest / smallest > 1000.0 || largest > 1e8 || (!integers_ && smallest < 1e-4);
  scientific_ = options.sci_mode.value_or(scientific_);
  width_ = std::max(width_, widest(shown));
}

/// Without an exponent a number is no shorter than one of its sign that is nearer to 0.
std::size_t NumberFormat::widest(const std::vector<double>& shown) const {
  std::size_t width = 0;
  double highest = 0, lowest = 0;
  for (const double value : shown) {
    if (!std::isfinite(value) || value == 0) continue;
    if (scientific_) width = std::max(width, size_of(value));
    highest = std::max(highest, value);
    lowest = std::min(lowest, value);
  }
  if (scientific_) return width;
  return std::max(highest > 0 ? size_of(highest) : 0, lowest < 0 ? size_of(lowest) : 0);
}

std::size_t NumberFormat::size_of(double value) const {
  const bool has_two_digits = std::abs(value) > 1e-98 && std::abs(value) < 1e98;  // in its exponent, rounded or not
  if (scientific_ && has_two_digits) {
    return static_cast<std::size_t>((value < 0 ? 1 : 0) + (precision_ > 0 ? precision_ + 2 : 1) + 4);
  }
  std::string text;
  append(text, value, 0);
  return text.size();
}

void NumberFormat::append(std::string& out, double value, std::size_t width) const {
  if (!std::isfinite(value)) {  // "nan" without the sign that printf may add
    return append_padded(out, std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf", width);
  }
  Backwards text;
  if (scientific_) {
    if (!put_scientific(text, value, precision_)) {
      return append_padded(out, printf_text("%.*e", precision_, value), width);
    }
  } else {
    const int digits = integers_ ? 0 : precision_;
    if (integers_) text.put('.');
    if (!put_fixed(text, value, digits)) {
      return append_padded(out, printf_text("%.*f", digits, value) + (integers_ ? "." : ""), width);
    }
  }
  text.pad(width);
  append_padded(out, text.view(), width);
}

ElementFormat::ElementFormat(Elements shown, const PrintOptions& options) : shown_(std::move(shown)) {
  for (const std::string& text : shown_.texts) text_width_ = std::max(text_width_, text.size());
  if (is_floating(shown_.dtype) || is_complex(shown_.dtype)) real_ = NumberFormat(shown_.real, options);
  if (is_complex(shown_.dtype)) imaginary_ = NumberFormat(shown_.imaginary, options);
}

std::size_t ElementFormat::width() const {
  if (is_complex(shown_.dtype)) return real_.width() + imaginary_.width() + 1;
  return is_floating(shown_.dtype) ? real_.width() : text_width_;
}

void ElementFormat::append(std::string& out, std::size_t place) const {
  if (!shown_.texts.empty()) return append_padded(out, shown_.texts[place], text_width_);
  real_.append(out, shown_.real[place], real_.width());
  if (shown_.imaginary.empty()) return;
  const std::size_t sign = out.size();
  imaginary_.append(out, shown_.imaginary[place], 0);
  if (out[sign] != '-') out.insert(sign, 1, '+');
  out += 'j';
}

}  // namespace core::detail
