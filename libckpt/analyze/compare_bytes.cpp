#include "libckpt/analyze/compare_bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>

#include "libcore/base/half.h"

namespace ckpt::detail {
namespace {

using core::DType;

constexpr std::uint64_t kPiece = 1ULL << 20;  // a multiple of every element size

/// Counts elements of `T` (unsigned bits) that differ; `number` turns bits into something with a difference.
template <class T, class Number>
void compare_as(Bytes a, Bytes b, Number number, ValueDifference& out) {
  double largest = out.max_difference.value_or(0);
  for (std::size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) {
    T x = core::load_le<T>(a.data() + i);
    T y = core::load_le<T>(b.data() + i);
    if (std::memcmp(&x, &y, sizeof(T)) == 0) continue;
    ++out.differing;
    auto distance = static_cast<double>(std::abs(number(x) - number(y)));
    if (distance > largest) largest = distance;
  }
  if (out.differing > 0) out.max_difference = largest;
}

void compare_raw(Bytes a, Bytes b, ValueDifference& out) {
  for (std::size_t i = 0; i < a.size(); ++i) out.differing += a[i] != b[i] ? 1 : 0;
}

template <class T>
double as_double(T value) {
  return static_cast<double>(value);
}

std::complex<double> half_pair(std::array<std::uint16_t, 2> bits) {
  return {core::f16_to_f32(bits[0]), core::f16_to_f32(bits[1])};
}

template <class T>
std::complex<double> pair_of(std::array<T, 2> parts) {
  return {static_cast<double>(parts[0]), static_cast<double>(parts[1])};
}

void compare_floats(DType dtype, Bytes a, Bytes b, ValueDifference& out) {
  switch (dtype) {
    case DType::f64:
      return compare_as<double>(a, b, as_double<double>, out);
    case DType::f32:
      return compare_as<float>(a, b, as_double<float>, out);
    case DType::f16:
      return compare_as<std::uint16_t>(
          a, b, [](std::uint16_t x) { return double{core::f16_to_f32(x)}; }, out);
    case DType::bf16:
      return compare_as<std::uint16_t>(
          a, b, [](std::uint16_t x) { return double{core::bf16_to_f32(x)}; }, out);
    case DType::c32:
      return compare_as<std::array<std::uint16_t, 2>>(a, b, half_pair, out);
    case DType::c64:
      return compare_as<std::array<float, 2>>(a, b, pair_of<float>, out);
    case DType::c128:
      return compare_as<std::array<double, 2>>(a, b, pair_of<double>, out);
    case DType::f8_e4m3fn:
    case DType::f8_e5m2:
    case DType::f8_e4m3fnuz:
    case DType::f8_e5m2fnuz:
    case DType::f8_e8m0fnu:
      return compare_as<std::uint8_t>(
          a, b, [dtype](std::uint8_t x) { return double{core::f8_to_f32(dtype, x)}; }, out);
    default:
      return compare_raw(a, b, out);
  }
}

void compare_piece(DType dtype, Bytes a, Bytes b, ValueDifference& out) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
      return compare_as<std::uint8_t>(a, b, as_double<std::uint8_t>, out);
    case DType::i8:
      return compare_as<std::int8_t>(a, b, as_double<std::int8_t>, out);
    case DType::i16:
      return compare_as<std::int16_t>(a, b, as_double<std::int16_t>, out);
    case DType::u16:
      return compare_as<std::uint16_t>(a, b, as_double<std::uint16_t>, out);
    case DType::i32:
      return compare_as<std::int32_t>(a, b, as_double<std::int32_t>, out);
    case DType::u32:
      return compare_as<std::uint32_t>(a, b, as_double<std::uint32_t>, out);
    case DType::i64:
      return compare_as<std::int64_t>(a, b, as_double<std::int64_t>, out);
    case DType::u64:
      return compare_as<std::uint64_t>(a, b, as_double<std::uint64_t>, out);
    default:
      return compare_floats(dtype, a, b, out);
  }
}

/// Applies the flags of a lazily conjugated or negated tensor to its bytes, by flipping signs.
void resolve_flags(const Entry& entry, MutableBytes bytes) {
  bool is_pair = core::is_complex(entry.dtype);
  auto width = static_cast<std::size_t>(core::bit_width(entry.dtype)) / (is_pair ? 16 : 8);
  for (std::size_t i = 0; (i + 1) * width <= bytes.size(); ++i) {
    bool imaginary = is_pair && i % 2 == 1;
    bool flip = entry.negative != (entry.conjugate && imaginary);
    if (flip) bytes[(i + 1) * width - 1] ^= std::byte{0x80};
  }
}

}  // namespace

ValueDifference compare_values(const Entry& a, const Entry& b, const std::function<void(std::uint64_t)>& tick) {
  ValueDifference out;
  bool flags_differ = a.conjugate != b.conjugate || a.negative != b.negative;
  std::uint64_t size = a.byte_size();
  core::ByteVector left(std::min(size, kPiece));
  core::ByteVector right(left.size());
  for (std::uint64_t at = 0; at < size; at += left.size()) {
    std::size_t length = std::min<std::uint64_t>(left.size(), size - at);
    MutableBytes x(left.data(), length);
    MutableBytes y(right.data(), length);
    a.bytes->read(at, x);
    b.bytes->read(at, y);
    if (flags_differ) {
      resolve_flags(a, x);
      resolve_flags(b, y);
    }
    compare_piece(a.dtype, x, y, out);
    tick(length);
  }
  return out;
}

}  // namespace ckpt::detail
