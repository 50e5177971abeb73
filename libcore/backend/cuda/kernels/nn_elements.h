#pragma once
// What the neural-network kernels share besides elements.h: fast division of any position by any size, lines that lanes
// or teams work on, the four floating types. Thread safety: plain values.
// Use: SizeDivider plane(h * w); ... plane.divide(i).quotient

#include <cmath>
#include <cstdint>

#include "libcore/backend/cuda/kernels/elements.h"

namespace core::CORE_KERNELS {

/// Before loops whose counters index values that have to stay in registers.
#ifdef __CUDACC__
#define CORE_UNROLL _Pragma("unroll")
#else
#define CORE_UNROLL
#endif

/// `data[i]`, or `otherwise` where there is no array.
template <class T>
CORE_HD Computed<T> value_or(const T* data, std::int64_t i, Computed<T> otherwise) {
  return data != nullptr ? Computed<T>(widen(data[i])) : otherwise;
}

/// A parameter beside data of type T, or the gradient of one: of T, or of what T is computed in; or not there.
template <class T>
struct Parameter {
  void* data;
  bool is_wide;

  CORE_HD Parameter(const void* array, bool wide) : data(const_cast<void*>(array)), is_wide(wide) {}
  CORE_HD Computed<T> value_or(std::int64_t i, Computed<T> otherwise) const {
    if (data == nullptr) return otherwise;
    return is_wide ? static_cast<const Computed<T>*>(data)[i] : Computed<T>(widen(static_cast<const T*>(data)[i]));
  }
  /// Elements [i, i + V) to `to`. REQUIRES: data begins at a multiple of 16 bytes, and i is one of V.
  template <int V>
  CORE_HD void load(std::int64_t i, Computed<T> otherwise, Computed<T>* to) const {
    if (data == nullptr || is_wide) {
      CORE_UNROLL
      for (int k = 0; k < V; ++k) to[k] = value_or(i + k, otherwise);
      return;
    }
    const auto pack = *reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(data) + i);
    CORE_UNROLL
    for (int k = 0; k < V; ++k) to[k] = widen(pack.values[k]);
  }
  CORE_HD void put(std::int64_t i, Computed<T> value) const {
    if (data == nullptr) return;
    if (is_wide) {
      static_cast<Computed<T>*>(data)[i] = value;
    } else {
      static_cast<T*>(data)[i] = narrow<T>(value);
    }
  }
};

template <class T>
CORE_HD T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
CORE_HD T larger(T a, T b) {
  return a < b ? b : a;
}

template <class W>
CORE_BODY W sigmoid(W x) {
  return 1 / (1 + std::exp(-x));
}

/// Adds two values.
struct Plus {
  template <class T>
  CORE_HD T operator()(T a, T b) const {
    return a + b;
  }
};
/// The larger one; NaN is the largest.
struct Most {
  template <class T>
  CORE_HD T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};

/// Division of 0 <= i by one divisor > 0, again and again: by a multiplication where i fits 31 bits. A division by a
/// variable costs a GPU some forty instructions.
class SizeDivider {
 public:
  struct Result {
    std::int64_t quotient, remainder;
  };

  SizeDivider() = default;
  explicit SizeDivider(std::int64_t divisor) : divisor_(divisor < 1 ? 1 : divisor) {
    if (divisor_ >= kLimit) return;
    while ((std::uint64_t{1} << shift_) < static_cast<std::uint64_t>(divisor_)) ++shift_;
    const std::uint64_t power = (std::uint64_t{1} << shift_) - static_cast<std::uint64_t>(divisor_);
    magic_ = static_cast<std::uint32_t>((power << 32) / static_cast<std::uint64_t>(divisor_) + 1);
  }

  CORE_HD std::int64_t divisor() const { return divisor_; }
  CORE_HD Result divide(std::int64_t i) const {
    if (i >= kLimit || divisor_ >= kLimit) return {i / divisor_, i % divisor_};
    const auto n = static_cast<std::uint32_t>(i);
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(magic_) * n) >> 32);
    const std::uint32_t quotient = (high + n) >> shift_;
    return {quotient, n - quotient * static_cast<std::uint32_t>(divisor_)};
  }

 private:
  static constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  std::int64_t divisor_ = 1;
  std::uint32_t magic_ = 1;  // of 1: the quotient is (0 + n) >> 0
  std::uint32_t shift_ = 0;
};

/// A team of one lane.
struct Alone {
  CORE_HD int lane() const { return 0; }
  CORE_HD int size() const { return 1; }
  CORE_HD void sync() const {}
  template <class T, class Op>
  CORE_HD T reduce(T value, Op) const {
    return value;
  }
};

/// body(team, line) for every line; `many`: a lane alone works on each, as for short lines or neighbouring columns.
/// Else a lane has about four elements of a line.
template <class Body>
void for_each_line(std::int64_t lines, std::int64_t length, bool many, const Body& body) {
  if (many) {
    for_each(lines, [=] CORE_BODY(std::int64_t line) { body(Alone(), line); });
  } else {
    for_each_row(lines, divide_up(length, 4), [=] CORE_BODY(const Team& team, std::int64_t line) { body(team, line); });
  }
}

/// Rows of neighbouring elements that are so short that a lane takes one alone.
inline constexpr std::int64_t kShortRow = 16;

/// Elements that 16 bytes hold: what a lane reads and writes at once, where it can.
template <class T>
inline constexpr int kPackSize = static_cast<int>(16 / sizeof(T));

/// Whether rows of `length` neighbouring elements can be moved as packs. Arrays that are not there do not count.
template <class T, class... Arrays>
bool fit_packs(std::int64_t length, const Arrays*... arrays) {
  return length % kPackSize<T> == 0 && (is_aligned(arrays, 16) && ...);
}

/// Elements [0, V) at `from`, as they are computed.
template <int V, class T>
CORE_BODY void load_pack(const T* from, Computed<T>* to) {
  const auto pack = *reinterpret_cast<const Pack<T, V>*>(from);
  CORE_UNROLL
  for (int k = 0; k < V; ++k) to[k] = widen(pack.values[k]);
}
template <int V, class T>
CORE_BODY void store_pack(const Computed<T>* from, T* to) {
  Pack<T, V> pack;
  CORE_UNROLL
  for (int k = 0; k < V; ++k) pack.values[k] = narrow<T>(from[k]);
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

/// body<kPackSize<T>>() where packs fit, else body<1>().
template <class T, class Body>
void with_packs(bool fit, const Body& body) {
  fit ? body.template operator()<kPackSize<T>>() : body.template operator()<1>();
}

/// Calls fill<T>(DType) for the four floating types.
template <class Fill>
void for_floating_types(Fill fill) {
  fill.template operator()<float>(static_cast<std::size_t>(DType::f32));
  fill.template operator()<double>(static_cast<std::size_t>(DType::f64));
  fill.template operator()<Half>(static_cast<std::size_t>(DType::f16));
  fill.template operator()<BFloat16>(static_cast<std::size_t>(DType::bf16));
}

}  // namespace core::CORE_KERNELS
