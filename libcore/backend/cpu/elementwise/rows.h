#pragma once
// Kernels made of a functor over one, two or three operands: out[i] = op(a[i], ...). The contiguous cases are separate
// loops that the compiler vectorises. Included by the element-wise kernel files only.
// In an anonymous namespace on purpose: files compiled for different instruction sets must not share these.

#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/op_tables.h"

namespace core::cpu {
namespace {

/// One row that stays on the calling thread. Taken directly: the bookkeeping of for_rows costs as much as some rows.
template <int N>
bool is_short(const Loop<N>& loop) {
  return loop.ndim == 1 && loop.numel < 2 * kGrain;
}

/// Op: constructed from the numbers of the operation, called with elements of type T, gives an R.
template <class T, class R, class Op>
void unary_kernel(const UnaryParams& p) {
  const Op op(p.args);
  const std::int64_t so = p.loop.strides[0][0], si = p.loop.strides[1][0];
  const auto row = [&](R* out, const T* in, std::int64_t n) {
    if (so == 1 && si == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = op(in[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * so] = op(in[i * si]);
    }
  };
  if (is_short(p.loop)) return row(static_cast<R*>(p.out), static_cast<const T*>(p.in), p.loop.numel);
  for_rows(p.loop, kGrain, [&](const Offsets<2>& at, std::int64_t n) {
    row(static_cast<R*>(p.out) + at[0], static_cast<const T*>(p.in) + at[1], n);
  });
}

template <class T, class R, class Op>
void binary_row(R* out, const T* a, const T* b, std::int64_t n, const std::int64_t* s, const Op& op) {
  if (s[0] == 1 && s[1] == 1 && s[2] == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = op(a[i], b[i]);
  } else if (s[0] == 1 && s[1] == 1 && s[2] == 0) {
    const T second = *b;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = op(a[i], second);
  } else if (s[0] == 1 && s[1] == 0 && s[2] == 1) {
    const T first = *a;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = op(first, b[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i * s[0]] = op(a[i * s[1]], b[i * s[2]]);
  }
}

template <class T, class R, class Op>
void binary_kernel(const BinaryParams& p) {
  const Op op(p.args);
  const std::int64_t s[3] = {p.loop.strides[0][0], p.loop.strides[1][0], p.loop.strides[2][0]};
  if (is_short(p.loop)) {
    return binary_row(static_cast<R*>(p.out), static_cast<const T*>(p.a), static_cast<const T*>(p.b), p.loop.numel, s,
                      op);
  }
  for_rows(p.loop, kGrain, [&](const Offsets<3>& at, std::int64_t n) {
    binary_row(static_cast<R*>(p.out) + at[0], static_cast<const T*>(p.a) + at[1], static_cast<const T*>(p.b) + at[2],
               n, s, op);
  });
}

/// A is the type of the first operand (bool for where).
template <class A, class T, class Op>
void ternary_kernel(const TernaryParams& p) {
  const Op op(p.args);
  const auto& s = p.loop.strides;
  for_rows(p.loop, kGrain, [&](const Offsets<4>& at, std::int64_t n) {
    T* out = static_cast<T*>(p.out) + at[0];
    const A* a = static_cast<const A*>(p.a) + at[1];
    const T* b = static_cast<const T*>(p.b) + at[2];
    const T* c = static_cast<const T*>(p.c) + at[3];
    if (s[0][0] == 1 && s[1][0] == 1 && s[2][0] == 1 && s[3][0] == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = op(a[i], b[i], c[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * s[0][0]] = op(a[i * s[1][0]], b[i * s[2][0]], c[i * s[3][0]]);
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
