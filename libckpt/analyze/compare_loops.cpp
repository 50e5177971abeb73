#include "libckpt/analyze/compare_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace ckpt::detail {
namespace {

template <class T>
std::uint64_t differing_as(Bytes a, Bytes b) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) {
    count += core::load_le<T>(a.data() + i) != core::load_le<T>(b.data() + i) ? 1 : 0;
  }
  return count;
}

/// Floats as integers in the order of their values.
template <class T>
std::int64_t ordered(T bits) {
  using Signed = std::make_signed_t<T>;
  constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  auto magnitude = static_cast<std::int64_t>(static_cast<Signed>(bits & static_cast<T>(~kSign)));
  return (bits & kSign) != 0 ? -magnitude : magnitude;
}

template <class T>
std::uint64_t ulp_as(Bytes a, Bytes b, std::span<const double> x, std::span<const double> y) {
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int64_t p = ordered(core::load_le<T>(a.data() + i * sizeof(T)));
    std::int64_t q = ordered(core::load_le<T>(b.data() + i * sizeof(T)));
    std::uint64_t distance = p > q ? static_cast<std::uint64_t>(p) - static_cast<std::uint64_t>(q)
                                   : static_cast<std::uint64_t>(q) - static_cast<std::uint64_t>(p);
    bool number = x[i] == x[i] && y[i] == y[i];
    largest = number && distance > largest ? distance : largest;
  }
  return largest;
}

}  // namespace

std::uint64_t count_differing(Bytes a, Bytes b, std::size_t width) {
  switch (width) {
    case 2:
      return differing_as<std::uint16_t>(a, b);
    case 4:
      return differing_as<std::uint32_t>(a, b);
    case 8:
      return differing_as<std::uint64_t>(a, b);
    case 16: {
      std::uint64_t count = 0;
      for (std::size_t i = 0; i + 16 <= a.size(); i += 16) count += std::memcmp(&a[i], &b[i], 16) != 0 ? 1 : 0;
      return count;
    }
    default:
      return differing_as<std::uint8_t>(a, b);
  }
}

void compare_numbers(std::span<const double> a, std::span<const double> b, unsigned parts, const Tolerance& tolerance,
                     ValueDifference& out) {
  double largest = out.max_difference;
  double relative = out.max_relative;
  double dot = 0;
  double squares_a = 0;
  double squares_b = 0;
  double squares = 0;
  std::uint64_t nans_a = 0;
  std::uint64_t nans_b = 0;
  std::uint64_t beyond = 0;
  for (std::size_t i = 0; i < a.size(); i += parts) {
    double x = a[i];
    double y = b[i];
    double distance = std::abs(x - y);
    double size_x = std::abs(x);
    double size_y = std::abs(y);
    bool same = x == y || (x != x && y != y);
    double product = x * y;
    bool nan_x = x != x;
    bool nan_y = y != y;
    if (parts == 2) {
      distance = std::hypot(x - y, a[i + 1] - b[i + 1]);
      size_x = std::hypot(x, a[i + 1]);
      size_y = std::hypot(y, b[i + 1]);
      same &= a[i + 1] == b[i + 1] || (a[i + 1] != a[i + 1] && b[i + 1] != b[i + 1]);
      product += a[i + 1] * b[i + 1];
      nan_x |= a[i + 1] != a[i + 1];
      nan_y |= b[i + 1] != b[i + 1];
    }
    beyond += !same && !(distance <= tolerance.atol + tolerance.rtol * size_y) ? 1 : 0;
    largest = distance > largest ? distance : largest;
    double quotient = distance / std::max(size_x, size_y);
    relative = quotient > relative ? quotient : relative;
    bool finite = size_x - size_x == 0 && size_y - size_y == 0;
    dot += finite ? product : 0;
    squares += finite ? distance * distance : 0;
    nans_a += nan_x ? 1 : 0;
    nans_b += nan_y ? 1 : 0;
    squares_a += finite ? size_x * size_x : 0;
    squares_b += finite ? size_y * size_y : 0;
  }
  out.max_difference = largest;
  out.max_relative = relative;
  out.beyond += beyond;
  out.dot += dot;
  out.squares_a += squares_a;
  out.squares_b += squares_b;
  out.squares_difference += squares;
  out.nans_a += nans_a;
  out.nans_b += nans_b;
}

std::uint64_t largest_ulp(Bytes a, Bytes b, std::size_t width, std::span<const double> x, std::span<const double> y) {
  switch (width) {
    case 1:
      return ulp_as<std::uint8_t>(a, b, x, y);
    case 2:
      return ulp_as<std::uint16_t>(a, b, x, y);
    case 4:
      return ulp_as<std::uint32_t>(a, b, x, y);
    default:
      return ulp_as<std::uint64_t>(a, b, x, y);
  }
}

std::uint64_t count_nans(std::span<const double> numbers, unsigned parts) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < numbers.size(); i += parts) {
    count += numbers[i] != numbers[i] || numbers[i + parts - 1] != numbers[i + parts - 1] ? 1 : 0;
  }
  return count;
}

double sum_of_squares(std::span<const double> numbers) {
  double sum = 0;
  for (double x : numbers) sum += x - x == 0 ? x * x : 0;
  return sum;
}

}  // namespace ckpt::detail
