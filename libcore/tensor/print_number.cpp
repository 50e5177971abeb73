#include "libcore/tensor/print_number.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <optional>

#include "libcore/base/bytes.h"
#include "libcore/base/half.h"

namespace core::detail {
namespace {

/// |value| * 10^power, rounded as printf rounds (exact, ties to even). None when that does not fit or takes more than
/// 128 bits on the way. REQUIRES: value is finite, 0 <= power <= 19.
std::optional<std::uint64_t> scaled(double value, int power) {
  static constexpr auto kPowers = [] {
    std::array<std::uint64_t, 20> powers{1};
    for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
    return powers;
  }();
  int exponent = 0;
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(std::abs(value), &exponent), 53));
  unsigned __int128 product = static_cast<unsigned __int128>(mantissa) * kPowers[static_cast<std::size_t>(power)];
  const int shift = 53 - exponent;  // |value| * 10^power == product / 2^shift
  if (shift < 0 || shift > 120) return std::nullopt;
  const unsigned __int128 one = static_cast<unsigned __int128>(1) << shift;
  const unsigned __int128 rest = product & (one - 1);
  product >>= shift;
  if (product >> 63 != 0) return std::nullopt;
  auto whole = static_cast<std::uint64_t>(product);
  const bool rounds_up = shift > 0 && (rest > one / 2 || (rest == one / 2 && (whole & 1) != 0));
  return whole + (rounds_up ? 1 : 0);
}

/// "-12.3456": the last `digits` decimal digits of `number` stand behind the point.
std::string with_point(bool negative, std::uint64_t number, int digits) {
  char buffer[32];
  char* at = std::end(buffer);
  for (int written = 0; number != 0 || written <= digits; ++written) {
    if (written == digits && digits > 0) *--at = '.';
    *--at = static_cast<char>('0' + number % 10);
    number /= 10;
  }
  if (negative) *--at = '-';
  return {at, std::end(buffer)};
}

/// As printf("%.*f"); none where the short way does not reach.
std::optional<std::string> short_fixed(double value, int precision) {
  if (precision > 15) return std::nullopt;
  const auto number = scaled(value, precision);
  if (!number) return std::nullopt;
  return with_point(std::signbit(value), *number, precision);
}

/// As printf("%.*e").
std::optional<std::string> short_scientific(double value, int precision) {
  if (precision > 9 || value == 0) return std::nullopt;
  // 1233 / 4096 is log10(2): right, or one too low.
  int exponent = ((std::ilogb(value) * 1233) >> 12);
  std::uint64_t lowest = 1;
  for (int i = 0; i < precision; ++i) lowest *= 10;
  std::optional<std::uint64_t> number;
  for (int tries = 0; tries < 3; ++tries) {  // the guess, and rounding that carries into a new digit
    if (precision < exponent || precision - exponent > 19) return std::nullopt;
    number = scaled(value, precision - exponent);
    if (!number) return std::nullopt;
    if (*number >= lowest && *number < lowest * 10) break;
    exponent += *number < lowest ? -1 : 1;
  }
  if (*number < lowest || *number >= lowest * 10) return std::nullopt;
  std::string text = with_point(std::signbit(value), *number, precision);
  const int size = std::abs(exponent);
  return text +=
         {'e', exponent < 0 ? '-' : '+', static_cast<char>('0' + size / 10), static_cast<char>('0' + size % 10)};
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

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

}  // namespace

Element read_element(DType dtype, const std::byte* at) {
  if (is_complex(dtype)) return {read_float(dtype, at), read_float(dtype, at + bit_width(dtype) / 16), {}};
  if (is_floating(dtype)) return {read_float(dtype, at), 0, {}};
  return {0, 0, read_integer(dtype, at)};
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
  for (double value : shown) {
    if (std::isfinite(value) && value != 0) width_ = std::max(width_, bare_size(value));
  }
}

std::size_t NumberFormat::bare_size(double value) const {
  const bool has_two_digits = std::abs(value) > 1e-98 && std::abs(value) < 1e98;  // in its exponent, rounded or not
  if (!scientific_ || !has_two_digits) return bare(value).size();
  return static_cast<std::size_t>((value < 0 ? 1 : 0) + (precision_ > 0 ? precision_ + 2 : 1) + 4);
}

std::string NumberFormat::bare(double value) const {
  if (std::isnan(value)) return "nan";  // without the sign that printf may add
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (scientific_) {
    const auto text = short_scientific(value, precision_);
    return text ? *text : printf_text("%.*e", precision_, value);
  }
  const int digits = integers_ ? 0 : precision_;
  const auto text = short_fixed(value, digits);
  return (text ? *text : printf_text("%.*f", digits, value)) + (integers_ ? "." : "");
}

std::string NumberFormat::text(double value) const {
  return padded(bare(value), width_);
}

ElementFormat::ElementFormat(DType dtype, const std::vector<Element>& shown, const PrintOptions& options)
    : dtype_(dtype) {
  std::vector<double> real;
  std::vector<double> imaginary;
  real.reserve(shown.size());
  for (const Element& element : shown) {
    real.push_back(element.real);
    imaginary.push_back(element.imaginary);
    text_width_ = std::max(text_width_, element.text.size());
  }
  if (is_floating(dtype) || is_complex(dtype)) real_ = NumberFormat(real, options);
  if (is_complex(dtype)) imaginary_ = NumberFormat(imaginary, options);
}

std::size_t ElementFormat::width() const {
  if (is_complex(dtype_)) return real_.width() + imaginary_.width() + 1;
  return is_floating(dtype_) ? real_.width() : text_width_;
}

std::string ElementFormat::text(const Element& element) const {
  if (is_floating(dtype_)) return real_.text(element.real);
  if (!is_complex(dtype_)) return padded(element.text, text_width_);
  std::string imaginary = imaginary_.text(element.imaginary) + "j";
  imaginary.erase(0, imaginary.find_first_not_of(' '));
  bool has_sign = imaginary[0] == '-' || imaginary[0] == '+';
  return real_.text(element.real) + (has_sign ? "" : "+") + imaginary;
}

}  // namespace core::detail
