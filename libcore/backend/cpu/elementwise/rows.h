#pragma once
// Kernels made of a functor over one, two or three operands: out[i] = op(a[i], ...). The contiguous cases are separate
// loops that the compiler vectorises. Included by the element-wise kernel files only.
// In an anonymous namespace on purpose: files compiled for different instruction sets must not share these.

#include <cstdint>

#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/op_tables.h"

namespace core::cpu {
namespace {

template <int N>
bool is_short(const Loop<N>& loop) {
  return loop.ndim == 1 && loop.numel < 2 * kGrain;
}

/// Op: constructed from the numbers of the operation, called with elements of type T, gives an R.
template <class T, class R, class Op>
void unary_kernel(const UnaryParams& p) {
  const Op given(p.args);
  const auto row = [&](const Offsets<2>& at, std::int64_t n) {
    const Op op = given;
    const std::int64_t so = p.loop.strides[0][0], si = p.loop.strides[1][0];
    R* out = static_cast<R*>(p.out) + at[0];
    const T* in = static_cast<const T*>(p.in) + at[1];
    if (so == 1 && si == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = op(in[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * so] = op(in[i * si]);
    }
  };
  if (is_short(p.loop)) return for_one_row(p.loop, row);
  for_rows(p.loop, kGrain, row);
}

template <class T, class R, class Op>
void binary_kernel(const BinaryParams& p) {
  const Op given(p.args);
  const auto row = [&](const Offsets<3>& at, std::int64_t n) {
    const Op op = given;
    const std::int64_t so = p.loop.strides[0][0], sa = p.loop.strides[1][0], sb = p.loop.strides[2][0];
    R* out = static_cast<R*>(p.out) + at[0];
    const T* a = static_cast<const T*>(p.a) + at[1];
    const T* b = static_cast<const T*>(p.b) + at[2];
    if (so == 1 && sa == 1 && sb == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = op(a[i], b[i]);
    } else if (so == 1 && sa == 1 && sb == 0) {
      const T second = *b;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = op(a[i], second);
    } else if (so == 1 && sa == 0 && sb == 1) {
      const T first = *a;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = op(first, b[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * so] = op(a[i * sa], b[i * sb]);
    }
  };
  if (is_short(p.loop)) return for_one_row(p.loop, row);
  for_rows(p.loop, kGrain, row);
}

/// A is the type of the first operand (bool for where).
template <class A, class T, class Op>
void ternary_kernel(const TernaryParams& p) {
  const Op given(p.args);
  for_rows(p.loop, kGrain, [&](const Offsets<4>& at, std::int64_t n) {
    const Op op = given;
    const std::int64_t so = p.loop.strides[0][0], sa = p.loop.strides[1][0], sb = p.loop.strides[2][0],
                       sc = p.loop.strides[3][0];
    T* out = static_cast<T*>(p.out) + at[0];
    const A* a = static_cast<const A*>(p.a) + at[1];
    const T* b = static_cast<const T*>(p.b) + at[2];
    const T* c = static_cast<const T*>(p.c) + at[3];
    if (so == 1 && sa == 1 && sb == 1 && sc == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = op(a[i], b[i], c[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * so] = op(a[i * sa], b[i * sb], c[i * sc]);
    }
  });
}

/// An operation without numbers of its own.
struct NoArgs {
  explicit NoArgs(const double*) {}
};

template <class Op, class T>
void set_unary(ElementwiseTable& table, UnaryOp op) {
  table.unary.set(op, dtype_of<T>, unary_kernel<T, T, Op>);
}
template <class Op, class T>
void set_binary(ElementwiseTable& table, BinaryOp op) {
  table.binary.set(op, dtype_of<T>, binary_kernel<T, T, Op>);
}

}  // namespace
}  // namespace core::cpu
