#pragma once
// Kernels of one result and one, two or three operands: out[i] = op(a[i], ...). Where all operands lie side by side (or
// are one element for all) a thread takes 16 bytes at a time; otherwise one element, found by an Indexer.
// Which operation it is may be decided while the kernel runs: the same for all threads, it costs a few instructions
// next to the memory traffic, and one kernel serves a whole family. An operation is called with arrays: op(const T
// (&a)[V], ..., R (&out)[V]). Thread safety: as launch.h. Use: run_unary<T, T>(p, Operation<T>{op, p.args});

#include <algorithm>
#include <cstdint>

#include "libcore/backend/cuda/kernels/elements.h"

namespace core::CORE_KERNELS {

/// One operand: dense, one element for all in device memory, or a number that the host knew.
template <class T>
struct Operand {
  enum Kind : std::uint8_t { elements, single, number };
  const T* data;
  Computed<T> value;
  Kind kind;

  CORE_HD Computed<T> load(std::int64_t at) const { return kind == number ? value : widen(data[at]); }
  /// `left`: how many elements there are from `first` on.
  template <int V>
  CORE_HD void load_pack(std::int64_t first, std::int64_t left, Computed<T> (&to)[V]) const {
    if (kind == elements && left >= V) {
      const auto pack = *reinterpret_cast<const Pack<T, V>*>(data + first);
      for (int k = 0; k < V; ++k) to[k] = widen(pack.values[k]);
    } else if (kind == elements) {
      for (int k = 0; k < V; ++k) to[k] = widen(data[first + (k < left ? k : 0)]);
    } else {
      const Computed<T> all = kind == number ? value : widen(*data);
      for (int k = 0; k < V; ++k) to[k] = all;
    }
  }
};

/// `on_host`: the operand is a number that the host can read now.
template <class T, int N>
Operand<T> operand(const Loop<N>& loop, int k, const void* data, bool on_host = false) {
  Operand<T> o{static_cast<const T*>(data), {}, Operand<T>::elements};
  if (on_host) {
    o.kind = Operand<T>::number;
    o.value = widen(*o.data);
    o.data = nullptr;
  } else if (is_single(loop, k) && !is_dense(loop, k)) {
    o.kind = Operand<T>::single;
  }
  return o;
}

/// True when `o` can be read V elements at a time.
template <int V, class T, int N>
bool packs(const Loop<N>& loop, int k, const Operand<T>& o) {
  return o.kind != Operand<T>::elements || (is_dense(loop, k) && is_aligned(o.data, sizeof(T) * V));
}

template <int V, class T>
CORE_HD void store_pack(T* out, std::int64_t first, std::int64_t left, const Computed<T> (&from)[V]) {
  if (left >= V) {
    Pack<T, V> pack;
    for (int k = 0; k < V; ++k) pack.values[k] = narrow<T>(from[k]);
    *reinterpret_cast<Pack<T, V>*>(out + first) = pack;
  } else {
    for (int k = 0; k < V; ++k) {
      if (k < left) out[first + k] = narrow<T>(from[k]);
    }
  }
}

/// Elements in the 16 bytes (or, of the smallest types, 8 elements) that a thread takes of the largest of its operands.
template <class... Ts>
inline constexpr int kPack = static_cast<int>(std::min<std::size_t>(16 / std::max({sizeof(Ts)...}), 8));

/// Whether a family has the kernel for packs: it pays for what memory limits.
enum class Packing { yes, no };

template <class R, class A, class Op>
struct UnaryElements {
  R* out;
  Operand<A> a;
  Indexer<2> where;
  Op op;
  CORE_BODY void operator()(std::int64_t i) const {
    const auto at = where(i);
    const Computed<A> x[1] = {a.load(at[1])};
    Computed<R> y[1];
    op(x, y);
    out[at[0]] = narrow<R>(y[0]);
  }
};
template <class R, class A, class Op>
struct UnaryPacks {
  static constexpr int kV = kPack<R, A>;
  R* out;
  Operand<A> a;
  std::int64_t count;
  Op op;
  CORE_BODY void operator()(std::int64_t i) const {
    const std::int64_t first = i * kV, left = count - first;
    Computed<A> x[kV];
    Computed<R> y[kV];
    a.load_pack(first, left, x);
    op(x, y);
    store_pack(out, first, left, y);
  }
};

template <class R, class A, Packing kPacking = Packing::yes, class Op>
void run_unary(const UnaryParams& p, const Op& op) {
  R* out = static_cast<R*>(p.out);
  const auto a = operand<A>(p.loop, 1, p.in);
  if constexpr (kPacking == Packing::yes) {
    constexpr int kV = kPack<R, A>;
    if (is_dense(p.loop, 0) && is_aligned(out, sizeof(R) * kV) && packs<kV>(p.loop, 1, a)) {
      return for_each(divide_up(p.loop.numel, kV), UnaryPacks<R, A, Op>{out, a, p.loop.numel, op});
    }
  }
  for_each(p.loop.numel, UnaryElements<R, A, Op>{out, a, Indexer<2>(p.loop), op});
}

template <class R, class A, class Op>
struct BinaryElements {
  R* out;
  Operand<A> a, b;
  Indexer<3> where;
  Op op;
  CORE_BODY void operator()(std::int64_t i) const {
    const auto at = where(i);
    const Computed<A> x[1] = {a.load(at[1])}, y[1] = {b.load(at[2])};
    Computed<R> z[1];
    op(x, y, z);
    out[at[0]] = narrow<R>(z[0]);
  }
};
template <class R, class A, class Op>
struct BinaryPacks {
  static constexpr int kV = kPack<R, A>;
  R* out;
  Operand<A> a, b;
  std::int64_t count;
  Op op;
  CORE_BODY void operator()(std::int64_t i) const {
    const std::int64_t first = i * kV, left = count - first;
    Computed<A> x[kV], y[kV];
    Computed<R> z[kV];
    a.load_pack(first, left, x);
    b.load_pack(first, left, y);
    op(x, y, z);
    store_pack(out, first, left, z);
  }
};

template <class R, class A, Packing kPacking = Packing::yes, class Op>
void run_binary(const BinaryParams& p, const Op& op) {
  R* out = static_cast<R*>(p.out);
  const auto a = operand<A>(p.loop, 1, p.a, p.a_on_host), b = operand<A>(p.loop, 2, p.b, p.b_on_host);
  if constexpr (kPacking == Packing::yes) {
    constexpr int kV = kPack<R, A>;
    if (is_dense(p.loop, 0) && is_aligned(out, sizeof(R) * kV) && packs<kV>(p.loop, 1, a) && packs<kV>(p.loop, 2, b)) {
      return for_each(divide_up(p.loop.numel, kV), BinaryPacks<R, A, Op>{out, a, b, p.loop.numel, op});
    }
  }
  for_each(p.loop.numel, BinaryElements<R, A, Op>{out, a, b, Indexer<3>(p.loop), op});
}

/// A is the type of the first operand, T of the others and of the result.
template <class T, class A, class Op>
struct TernaryElements {
  T* out;
  Operand<A> a;
  Operand<T> b, c;
  Indexer<4> where;
  Op op;
  CORE_BODY void operator()(std::int64_t i) const {
    const auto at = where(i);
    const Computed<A> x[1] = {a.load(at[1])};
    const Computed<T> y[1] = {b.load(at[2])}, z[1] = {c.load(at[3])};
    Computed<T> result[1];
    op(x, y, z, result);
    out[at[0]] = narrow<T>(result[0]);
  }
};
template <class T, class A, class Op>
struct TernaryPacks {
  static constexpr int kV = kPack<T, A>;
  T* out;
  Operand<A> a;
  Operand<T> b, c;
  std::int64_t count;
  Op op;
  CORE_BODY void operator()(std::int64_t i) const {
    const std::int64_t first = i * kV, left = count - first;
    Computed<A> x[kV];
    Computed<T> y[kV], z[kV], result[kV];
    a.load_pack(first, left, x);
    b.load_pack(first, left, y);
    c.load_pack(first, left, z);
    op(x, y, z, result);
    store_pack(out, first, left, result);
  }
};

template <class T, class A, class Op>
void run_ternary(const TernaryParams& p, const Op& op) {
  constexpr int kV = kPack<T, A>;
  T* out = static_cast<T*>(p.out);
  const auto a = operand<A>(p.loop, 1, p.a);
  const auto b = operand<T>(p.loop, 2, p.b), c = operand<T>(p.loop, 3, p.c);
  if (is_dense(p.loop, 0) && is_aligned(out, sizeof(T) * kV) && packs<kV>(p.loop, 1, a) && packs<kV>(p.loop, 2, b) &&
      packs<kV>(p.loop, 3, c)) {
    return for_each(divide_up(p.loop.numel, kV), TernaryPacks<T, A, Op>{out, a, b, c, p.loop.numel, op});
  }
  for_each(p.loop.numel, TernaryElements<T, A, Op>{out, a, b, c, Indexer<4>(p.loop), op});
}

}  // namespace core::CORE_KERNELS
