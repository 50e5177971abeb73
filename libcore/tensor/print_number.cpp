#include "libcore/tensor/print_number.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "libcore/base/bytes.h"
#include "libcore/base/half.h"

namespace core::detail {
namespace {

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
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
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
    if (std::isfinite(value) && value != 0) width_ = std::max(width_, bare(value).size());
  }
}

std::string NumberFormat::bare(double value) const {
  if (std::isnan(value)) return "nan";  // without the sign that printf may add
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (scientific_) return printf_text("%.*e", precision_, value);
  if (integers_) return printf_text("%.*f", 0, value) + ".";
  return printf_text("%.*f", precision_, value);
}

std::string NumberFormat::text(double value) const {
  return padded(bare(value), width_);
}

ElementFormat::ElementFormat(DType dtype, const std::vector<Element>& shown, const PrintOptions& options)
    : dtype_(dtype) {
  std::vector<double> real;
  std::vector<double> imaginary;
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
