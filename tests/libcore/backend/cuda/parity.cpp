#include "tests/libcore/backend/cuda/parity.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "libcore/backend/element_types.h"
#include "libcore/base/float8.h"
#include "libcore/base/half.h"

namespace test {

using core::DType;

namespace {

/// Calls body with a pointer to element i as its type.
template <class Body>
auto with_element(DType dtype, void* at, const Body& body) {
  switch (dtype) {
    case DType::boolean:
      return body(static_cast<bool*>(at));
    case DType::u8:
      return body(static_cast<std::uint8_t*>(at));
    case DType::i8:
      return body(static_cast<std::int8_t*>(at));
    case DType::i16:
      return body(static_cast<std::int16_t*>(at));
    case DType::i32:
      return body(static_cast<std::int32_t*>(at));
    case DType::i64:
      return body(static_cast<std::int64_t*>(at));
    case DType::u16:
      return body(static_cast<std::uint16_t*>(at));
    case DType::u32:
      return body(static_cast<std::uint32_t*>(at));
    case DType::u64:
      return body(static_cast<std::uint64_t*>(at));
    case DType::f64:
      return body(static_cast<double*>(at));
    default:
      return body(static_cast<float*>(at));
  }
}

bool is_8_bit_float(DType dtype) {
  return core::is_floating(dtype) && core::bit_width(dtype) == 8;
}

}  // namespace

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

Buffer::Buffer(DType type, std::int64_t count)
    : dtype(type), bytes(static_cast<std::size_t>(count) * core::element_bytes(type)) {}

std::int64_t Buffer::size() const {
  return static_cast<std::int64_t>(bytes.size() / core::element_bytes(dtype));
}

void* Buffer::at(std::int64_t i) {
  return bytes.data() + static_cast<std::size_t>(i) * core::element_bytes(dtype);
}

double Buffer::number(std::int64_t i) const {
  void* element = const_cast<Buffer*>(this)->at(i);
  if (is_8_bit_float(dtype)) return core::f8_to_f32(dtype, *static_cast<std::uint8_t*>(element));
  if (!is_half(dtype)) return with_element(dtype, element, [](auto* x) { return static_cast<double>(*x); });
  const std::uint16_t bits = *static_cast<std::uint16_t*>(element);
  return dtype == DType::f16 ? core::f16_to_f32(bits) : core::bf16_to_f32(bits);
}

void Buffer::set(std::int64_t i, double value) {
  void* element = at(i);
  if (is_8_bit_float(dtype)) {
    *static_cast<std::uint8_t*>(element) = core::f32_to_f8(dtype, static_cast<float>(value));
  } else if (is_half(dtype)) {
    const auto narrow = static_cast<float>(value);
    *static_cast<std::uint16_t*>(element) = dtype == DType::f16 ? core::f32_to_f16(narrow) : core::f32_to_bf16(narrow);
  } else {
    with_element(dtype, element, [&](auto* x) { *x = static_cast<std::remove_reference_t<decltype(*x)>>(value); });
  }
}

namespace {

double random_number(DType dtype, Numbers numbers, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const bool is_float = core::is_floating(dtype), is_signed = is_float || dtype == DType::i8 || dtype == DType::i16 ||
                                                              dtype == DType::i32 || dtype == DType::i64;
  if (numbers == Numbers::near_one) return is_float ? 0.8 + 0.4 * below(1000) / 1000 : 1 + below(2);
  if (dtype == DType::boolean) return numbers == Numbers::nonzero ? 1 : below(2);
  if (numbers != Numbers::nonzero && below(20) == 0) return 0;
  if (!is_float) {
    const int size = 1 + below(numbers == Numbers::nonzero ? 9 : 120);
    return is_signed && below(2) == 0 ? -size : size;
  }
  if (numbers != Numbers::finite && below(60) == 0) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kSpecial[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
    return kSpecial[below(3)];
  }
  const double size = (1 + below(100000)) / 100000.0;
  const double scaled = below(4) == 0 ? 9 * size : size;
  return below(2) == 0 ? -scaled : scaled;
}

}  // namespace

Buffer random_buffer(DType dtype, std::int64_t count, Numbers numbers, std::mt19937& random) {
  Buffer made(dtype, count);
  for (std::int64_t i = 0; i < count; ++i) made.set(i, random_number(dtype, numbers, random));
  return made;
}

Buffer converted(const Buffer& from, DType dtype) {
  if (from.dtype == dtype) return from;
  Buffer made(dtype, from.size());
  for (std::int64_t i = 0; i < from.size(); ++i) made.set(i, from.number(i));
  return made;
}

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {2e-3, 2e-3};
    case DType::bf16:
      return {1.6e-2, 2e-3};
    case DType::f32:
      return {4e-6, 2e-6};
    case DType::f64:
      return {1e-12, 1e-13};
    default:
      return {};
  }
}

std::string difference(const Buffer& expected, const Buffer& actual, const Tolerance& tolerance) {
  if (expected.size() != actual.size()) return "sizes differ";
  if (expected.dtype != actual.dtype) return difference(converted(expected, actual.dtype), actual, tolerance);
  if (expected.bytes == actual.bytes) return {};
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const double a = expected.number(i), b = actual.number(i);
    const bool same = a == b || (a != a && b != b);
    if (same || std::abs(a - b) <= tolerance.absolute + tolerance.relative * std::abs(a)) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(b) + " where the CPU has " + std::to_string(a);
  }
  return {};
}

void Coverage::count(bool on_cpu, bool on_device) {
  cpu += on_cpu ? 1 : 0;
  both += on_cpu && on_device ? 1 : 0;
  more += !on_cpu && on_device ? 1 : 0;
}

std::string Coverage::str() const {
  return std::to_string(both) + " of the CPU's " + std::to_string(cpu) + " slots, and " + std::to_string(more) +
         " more";
}

}  // namespace test
