#pragma once
// Short vectors: the one type that kernels are written with. Vector<T> fills a register of the instruction set that the
// including file is compiled for; Floats are always sixteen, a pixel of a block of channels, in as many registers as
// that takes. GCC's operators compute on them; here is how they come from memory and go there, whole or in part. In an
// anonymous namespace on purpose: files compiled for different instruction sets must not share these. Use:
// Vector<float> x = load(p); store(q, x * y + z); Floats y = load<Floats>(p); store_part(q, x, 3);

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

// Everything here is inlined, so that no vector is ever passed by an ABI.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace core::cpu {
namespace {

/// Not lambdas: vector code in one is taken apart before it is inlined into a function for a wider instruction set,
/// which is why files, and not functions, are compiled once for each.
#define CORE_INLINE [[gnu::always_inline]] inline

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
template <class T>
constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));

template <class T, int kCount>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kCount * sizeof(T))));
};
template <class T, int kCount = kWidth<T>>
using Vector = typename VectorOf<T, kCount>::Type;

/// Channels in a block of an image (image_table.h).
constexpr std::int64_t kLanes = 16;
using Floats = Vector<float, 16>;
using Ints = Vector<std::int32_t, 16>;

/// What comparing two V gives: integers of the same size, also indices of shuffles and exponents.
template <class V>
using BitsOf = decltype(std::declval<V>() < std::declval<V>());
template <class T>
using VectorBits = BitsOf<Vector<T>>;
template <class V>
using Element = std::remove_cvref_t<decltype(std::declval<V>()[0])>;
template <class V>
constexpr int kCountOf = static_cast<int>(sizeof(V) / sizeof(Element<V>));

template <class V, class T>
requires(sizeof(V) > sizeof(T)) CORE_INLINE V load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
requires std::is_arithmetic_v<T> CORE_INLINE Vector<T> load(const T* from) {
  return load<Vector<T>, T>(from);
}
template <class T, class V>
CORE_INLINE void store(T* to, const V& v) {
  std::memcpy(to, &v, sizeof v);
}
template <class V>
CORE_INLINE V all_as(Element<V> value) {
  return value - V{};
}
template <class T>
CORE_INLINE Vector<T> all_of(T value) {
  return all_as<Vector<T>>(value);
}

#if defined(__AVX512F__)
template <class V>
constexpr bool kHasMask = sizeof(V) == 64 && std::is_floating_point_v<Element<V>>;
#else
template <class V>
constexpr bool kHasMask = false;  // of loads and stores
#endif

/// The first `count` elements (less than a vector), zeros behind them; reads nothing else.
template <class V, class T>
requires(sizeof(V) > sizeof(T)) CORE_INLINE V load_part(const T* from, int count) {
  if constexpr (kHasMask<V>) {
#if defined(__AVX512F__)
    const auto mask = (1u << count) - 1;
    if constexpr (std::is_same_v<T, float>) return (V)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
    if constexpr (std::is_same_v<T, double>) return (V)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), from);
#endif
  }
  V v{};
  std::memcpy(&v, from, static_cast<std::size_t>(count) * sizeof(T));
  return v;
}
template <class T>
requires std::is_arithmetic_v<T> CORE_INLINE Vector<T> load_part(const T* from, int count) {
  return load_part<Vector<T>, T>(from, count);
}
template <class T, class V>
CORE_INLINE void store_part(T* to, const V& v, int count) {
  if constexpr (kHasMask<V>) {
#if defined(__AVX512F__)
    const auto mask = (1u << count) - 1;
    if constexpr (std::is_same_v<T, float>) return _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), (__m512)v);
    if constexpr (std::is_same_v<T, double>) return _mm512_mask_storeu_pd(to, static_cast<__mmask8>(mask), (__m512d)v);
#endif
  }
  std::memcpy(to, &v, static_cast<std::size_t>(count) * sizeof(T));
}

/// `count` elements, be that a whole vector or less.
template <class V, class T>
requires(sizeof(V) > sizeof(T)) CORE_INLINE V load_up_to(const T* from, std::int64_t count) {
  return count >= kCountOf<V> ? load<V>(from) : load_part<V>(from, static_cast<int>(count));
}
template <class T>
requires std::is_arithmetic_v<T> CORE_INLINE Vector<T> load_up_to(const T* from, std::int64_t count) {
  return load_up_to<Vector<T>, T>(from, count);
}
template <class T, class V>
CORE_INLINE void store_up_to(T* to, const V& v, std::int64_t count) {
  if (count >= kCountOf<V>) return store(to, v);
  store_part(to, v, static_cast<int>(count));
}

/// Indices for __builtin_shuffle(a, b, ...) that take every other group of `kGroup` elements of a, b: the even ones
/// (kOdd = 0) or the odd ones (1), a's and b's in turn.
template <class T, int kCount, int kGroup, int kOdd>
CORE_INLINE BitsOf<Vector<T, kCount>> every_other() {
  BitsOf<Vector<T, kCount>> index{};
  for (int i = 0; i < kCount; ++i) {
    const int group = i / kGroup, from_b = group % 2;
    index[i] = (group - from_b + kOdd) * kGroup + i % kGroup + from_b * kCount;
  }
  return index;
}

/// Turns a square of kCount rows of kCount elements.
template <class T, int kCount = kWidth<T>, int kGroup = 1>
CORE_INLINE void transpose(Vector<T, kCount> (&rows)[kCount]) {
  if constexpr (kGroup < kCount) {
    const auto even = every_other<T, kCount, kGroup, 0>(), odd = every_other<T, kCount, kGroup, 1>();
    for (int i = 0; i < kCount; ++i) {
      if ((i & kGroup) != 0) continue;
      const Vector<T, kCount> a = rows[i], b = rows[i + kGroup];
      rows[i] = __builtin_shuffle(a, b, even);
      rows[i + kGroup] = __builtin_shuffle(a, b, odd);
    }
    transpose<T, kCount, kGroup * 2>(rows);
  }
}

/// Indices that pair what has to be added next in sums_of: within 16 bytes halves of groups of kGroup elements, a's and
/// b's in turn; beyond, every other 16 bytes, a's before b's. Each is one cheap instruction.
template <class T, int kGroup, int kOdd>
CORE_INLINE VectorBits<T> halves() {
  constexpr int kLane = 16 / static_cast<int>(sizeof(T)), kAllLanes = kWidth<T> / kLane;
  VectorBits<T> index{};
  for (int i = 0; i < kWidth<T>; ++i) {
    const int lane = i / kLane, at = i % kLane;
    if (kGroup < kLane) {
      const int group = at / kGroup;
      index[i] = lane * kLane + group / 2 * kGroup + at % kGroup + kOdd * kLane / 2 + group % 2 * kWidth<T>;
    } else {
      const int from_b = lane >= kAllLanes / 2 ? 1 : 0;
      index[i] = (2 * (lane - from_b * kAllLanes / 2) + kOdd) * kLane + at + from_b * kWidth<T>;
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
