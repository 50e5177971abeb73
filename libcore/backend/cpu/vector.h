#pragma once
// Short vectors of the instruction set that the including file is compiled for: loads, stores and parts of them.
// In an anonymous namespace on purpose: files compiled for different instruction sets must not share these.
// Use: Vector<float> x = load(p); store(q, x * y + z); store_part(q, x, 3);

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

// Everything here is inlined, so that no vector is ever passed by an ABI.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace core::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Type __attribute__((vector_size(kVectorBytes)));
  typedef std::int32_t Bits __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double Type __attribute__((vector_size(kVectorBytes)));
  typedef std::int64_t Bits __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::Type;
/// Integers of the same size: masks, indices of shuffles, exponents.
template <class T>
using VectorBits = typename VectorOf<T>::Bits;
template <class T>
constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));

#define CORE_INLINE [[gnu::always_inline]] inline

template <class T>
CORE_INLINE Vector<T> load(const T* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
CORE_INLINE void store(T* to, const Vector<T>& v) {
  std::memcpy(to, &v, sizeof v);
}
template <class T>
CORE_INLINE Vector<T> all_of(T value) {
  return value - Vector<T>{};
}

/// The first `count` elements (less than a vector), zeros behind them; reads nothing else.
template <class T>
CORE_INLINE Vector<T> load_part(const T* from, int count) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) {
    return (Vector<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
  } else {
    return (Vector<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), from);
  }
#else
  Vector<T> v{};
  std::memcpy(&v, from, static_cast<std::size_t>(count) * sizeof(T));
  return v;
#endif
}
template <class T>
CORE_INLINE void store_part(T* to, const Vector<T>& v, int count) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), (__m512)v);
  } else {
    _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << count) - 1), (__m512d)v);
  }
#else
  std::memcpy(to, &v, static_cast<std::size_t>(count) * sizeof(T));
#endif
}
/// `count` elements, be that a whole vector or less.
template <class T>
CORE_INLINE Vector<T> load_up_to(const T* from, std::int64_t count) {
  return count >= kWidth<T> ? load(from) : load_part(from, static_cast<int>(count));
}
template <class T>
CORE_INLINE void store_up_to(T* to, const Vector<T>& v, std::int64_t count) {
  if (count >= kWidth<T>) return store(to, v);
  store_part(to, v, static_cast<int>(count));
}

/// Indices for __builtin_shuffle(a, b, ...) that take every other group of `kGroup` elements of a, b: the even ones
/// (kOdd = 0) or the odd ones (1), a's and b's in turn.
template <class T, int kGroup, int kOdd>
CORE_INLINE VectorBits<T> every_other() {
  VectorBits<T> index{};
  for (int i = 0; i < kWidth<T>; ++i) {
    const int group = i / kGroup, from_b = group % 2;
    index[i] = (group - from_b + kOdd) * kGroup + i % kGroup + from_b * kWidth<T>;
  }
  return index;
}

/// Turns a square of kWidth rows of kWidth elements.
template <class T, int kGroup = 1>
CORE_INLINE void transpose(Vector<T> (&rows)[kWidth<T>]) {
  if constexpr (kGroup < kWidth<T>) {
    const VectorBits<T> even = every_other<T, kGroup, 0>(), odd = every_other<T, kGroup, 1>();
    for (int i = 0; i < kWidth<T>; ++i) {
      if ((i & kGroup) != 0) continue;
      const Vector<T> a = rows[i], b = rows[i + kGroup];
      rows[i] = __builtin_shuffle(a, b, even);
      rows[i + kGroup] = __builtin_shuffle(a, b, odd);
    }
    transpose<T, kGroup * 2>(rows);
  }
}

/// Indices that pair what has to be added next in sums_of: within 16 bytes halves of groups of kGroup elements, a's and
/// b's in turn; beyond, every other 16 bytes, a's before b's. Each is one cheap instruction.
template <class T, int kGroup, int kOdd>
CORE_INLINE VectorBits<T> halves() {
  constexpr int kLane = 16 / static_cast<int>(sizeof(T)), kLanes = kWidth<T> / kLane;
  VectorBits<T> index{};
  for (int i = 0; i < kWidth<T>; ++i) {
    const int lane = i / kLane, at = i % kLane;
    if (kGroup < kLane) {
      const int group = at / kGroup;
      index[i] = lane * kLane + group / 2 * kGroup + at % kGroup + kOdd * kLane / 2 + group % 2 * kWidth<T>;
    } else {
      const int from_b = lane >= kLanes / 2 ? 1 : 0;
      index[i] = (2 * (lane - from_b * kLanes / 2) + kOdd) * kLane + at + from_b * kWidth<T>;
    }
  }
  return index;
}

/// Element i of the result is the sum of all elements of rows[i]. Destroys the rows.
template <class T, int kGroup = 1>
CORE_INLINE Vector<T> sums_of(Vector<T> (&rows)[kWidth<T>]) {
  if constexpr (kGroup < kWidth<T>) {
    const VectorBits<T> low = halves<T, kGroup, 0>(), high = halves<T, kGroup, 1>();
    for (int i = 0; i < kWidth<T>; i += 2 * kGroup) {
      const Vector<T> a = rows[i], b = rows[i + kGroup];
      rows[i] = __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
    }
    return sums_of<T, kGroup * 2>(rows);
  } else {
    return rows[0];
  }
}

}  // namespace
}  // namespace core::cpu
