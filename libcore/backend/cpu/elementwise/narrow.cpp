// Element by element on numbers of 16 bits: the kernels of f32, a tile at a time, so that no whole tensor is widened.
// Compiled once per instruction set, for the conversions.
#include <algorithm>
#include <utility>

#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/cpu/narrow_numbers.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kTile = 1024;

/// The table whose f32 kernels are called; it lives as long as the program.
const ElementwiseTable* kernels = nullptr;

/// The loop over a tile: all operands side by side.
template <int N>
Loop<N> dense(std::int64_t count) {
  Loop<N> loop;
  loop.ndim = 1;
  loop.numel = count;
  loop.sizes[0] = count;
  for (int k = 0; k < N; ++k) loop.strides[k][0] = 1;
  return loop;
}

template <class T>
void take(const T* from, std::int64_t step, std::int64_t count, float* to) {
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
}
template <class R, class W>
void put(const W* from, std::int64_t count, R* to, std::int64_t step) {
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * step] = from[i];
  }
}

/// R: what a result is, T or bool; W: what the kernel of f32 gives for it.
template <class T, class R, class W>
void unary_by_tiles(void (*kernel)(const UnaryParams&), const UnaryParams& p) {
  const std::int64_t so = p.loop.strides[0][0], si = p.loop.strides[1][0];
  for_rows(p.loop, kGrain, [&](const Offsets<2>& at, std::int64_t n) {
    float in[kTile];
    W out[kTile];
    for (std::int64_t i = 0; i < n; i += kTile) {
      const std::int64_t count = std::min(kTile, n - i);
      take(static_cast<const T*>(p.in) + at[1] + i * si, si, count, in);
      UnaryParams tile = p;
      tile.out = out, tile.in = in, tile.loop = dense<2>(count);
      kernel(tile);
      put(out, count, static_cast<R*>(p.out) + at[0] + i * so, so);
    }
  });
}

template <class T, class R, class W>
void binary_by_tiles(void (*kernel)(const BinaryParams&), const BinaryParams& p) {
  const std::int64_t so = p.loop.strides[0][0], sa = p.loop.strides[1][0], sb = p.loop.strides[2][0];
  for_rows(p.loop, kGrain, [&](const Offsets<3>& at, std::int64_t n) {
    float a[kTile], b[kTile];
    W out[kTile];
    for (std::int64_t i = 0; i < n; i += kTile) {
      const std::int64_t count = std::min(kTile, n - i);
      take(static_cast<const T*>(p.a) + at[1] + i * sa, sa, count, a);
      take(static_cast<const T*>(p.b) + at[2] + i * sb, sb, count, b);
      BinaryParams tile = p;
      tile.out = out, tile.a = a, tile.b = b, tile.loop = dense<3>(count);
      kernel(tile);
      put(out, count, static_cast<R*>(p.out) + at[0] + i * so, so);
    }
  });
}

template <UnaryOp kOp, class T>
void unary(const UnaryParams& p) {
  unary_by_tiles<T, T, float>(kernels->unary.at(kOp, DType::f32), p);
}
template <PredicateOp kOp, class T>
void predicate(const UnaryParams& p) {
  unary_by_tiles<T, bool, bool>(kernels->predicate.at(kOp, DType::f32), p);
}
template <BinaryOp kOp, class T>
void binary(const BinaryParams& p) {
  binary_by_tiles<T, T, float>(kernels->binary.at(kOp, DType::f32), p);
}
template <CompareOp kOp, class T>
void compare(const BinaryParams& p) {
  binary_by_tiles<T, bool, bool>(kernels->compare.at(kOp, DType::f32), p);
}

/// Where f32 has a kernel and this type has none.
template <class Op, class Params>
void set_missing(KernelGrid<Op, Params>& grid, Op op, DType dtype, typename KernelGrid<Op, Params>::Kernel kernel) {
  if (grid.at(op, DType::f32) != nullptr && grid.at(op, dtype) == nullptr) grid.set(op, dtype, kernel);
}

template <class T>
struct Fill {
  ElementwiseTable& table;
  DType dtype;

  template <int... kOps>
  void unaries(std::integer_sequence<int, kOps...>) const {
    (set_missing(table.unary, static_cast<UnaryOp>(kOps), dtype, unary<static_cast<UnaryOp>(kOps), T>), ...);
  }
  template <int... kOps>
  void predicates(std::integer_sequence<int, kOps...>) const {
    (set_missing(table.predicate, static_cast<PredicateOp>(kOps), dtype, predicate<static_cast<PredicateOp>(kOps), T>),
     ...);
  }
  template <int... kOps>
  void binaries(std::integer_sequence<int, kOps...>) const {
    (set_missing(table.binary, static_cast<BinaryOp>(kOps), dtype, binary<static_cast<BinaryOp>(kOps), T>), ...);
  }
  template <int... kOps>
  void compares(std::integer_sequence<int, kOps...>) const {
    (set_missing(table.compare, static_cast<CompareOp>(kOps), dtype, compare<static_cast<CompareOp>(kOps), T>), ...);
  }
  void all() const {
    unaries(std::make_integer_sequence<int, static_cast<int>(UnaryOp::count_)>());
    predicates(std::make_integer_sequence<int, static_cast<int>(PredicateOp::count_)>());
    binaries(std::make_integer_sequence<int, static_cast<int>(BinaryOp::count_)>());
    compares(std::make_integer_sequence<int, static_cast<int>(CompareOp::count_)>());
  }
};

}  // namespace

void CORE_CPU_VARIANT::fill_narrow(ElementwiseTable& table) {
  kernels = &table;
  Fill<NarrowHalf>{table, DType::f16}.all();
  Fill<NarrowBFloat16>{table, DType::bf16}.all();
}

}  // namespace core::cpu
