#pragma once
// Walking the loops of op_params.h: calls a row function for each innermost row, in parallel when there is enough.
// Included by the kernels only, in an anonymous namespace on purpose: see vector.h. Use: for_rows(p.loop, kGrain,
// [&](const Offsets<2>& at, std::int64_t n) { ... });

#include <array>
#include <cstdint>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/op_params.h"

namespace core::cpu {
namespace {

/// Elements below which a second thread does not pay.
constexpr std::int64_t kGrain = 32768;

template <int N>
using Offsets = std::array<std::int64_t, N>;

/// A position in the outer dimensions of a loop.
template <int N>
struct Odometer {
  std::int64_t index[kMaxDims] = {};
  Offsets<N> at{};

  /// Moves to row number `row`.
  void seek(const Loop<N>& loop, std::int64_t row) {
    at.fill(0);
    for (int d = 1; d < loop.ndim; ++d) {
      index[d] = row % loop.sizes[d];
      row /= loop.sizes[d];
      for (int k = 0; k < N; ++k) at[k] += index[d] * loop.strides[k][d];
    }
  }
  void next(const Loop<N>& loop) {
    for (int d = 1; d < loop.ndim; ++d) {
      for (int k = 0; k < N; ++k) at[k] += loop.strides[k][d];
      if (++index[d] < loop.sizes[d]) return;
      for (int k = 0; k < N; ++k) at[k] -= loop.sizes[d] * loop.strides[k][d];
      index[d] = 0;
    }
  }
};

template <int N>
using RowFunction = void (*)(const void* row, const Offsets<N>& at, std::int64_t n);

/// Calls a row. A function of its own, so that the loop of a kernel is compiled once: inlined into every branch of the
/// walk, the kernels of all dtypes were five times as much code.
template <int N, class Row>
[[gnu::noinline]] void call_row(const void* row, const Offsets<N>& at, std::int64_t n) {
  (*static_cast<const Row*>(row))(at, n);
}

template <int N>
[[gnu::noinline]] void walk_rows(const Loop<N>& loop, std::int64_t grain, RowFunction<N> function, const void* row) {
  if (loop.numel == 0) return;
  if (loop.ndim == 1) {
    parallel_for(loop.sizes[0], grain, [&](std::int64_t begin, std::int64_t end) {
      Offsets<N> at;
      for (int k = 0; k < N; ++k) at[k] = begin * loop.strides[k][0];
      function(row, at, end - begin);
    });
    return;
  }
  std::int64_t length = loop.sizes[0];
  parallel_for(loop.numel / length, grain / length + 1, [&](std::int64_t begin, std::int64_t end) {
    Odometer<N> odometer;
    odometer.seek(loop, begin);
    for (std::int64_t i = begin; i < end; ++i, odometer.next(loop)) function(row, odometer.at, length);
  });
}

/// row(offsets, n): n elements from these offsets, by the strides of dimension 0. What the row reads in its loop it
/// holds in locals of its own: the compiler cannot tell what it captured from what it writes.
template <int N, class Row>
void for_rows(const Loop<N>& loop, std::int64_t grain, const Row& row) {
  walk_rows<N>(loop, grain, call_row<N, Row>, &row);
}

/// for_rows of a loop of one row that stays on the calling thread, without the walk: it costs as much as some rows.
template <int N, class Row>
void for_one_row(const Loop<N>& loop, const Row& row) {
  call_row<N, Row>(&row, Offsets<N>{}, loop.numel);
}

/// The same on the calling thread alone, in order.
template <int N, class Row>
void for_rows_in_order(const Loop<N>& loop, Row&& row) {
  if (loop.numel == 0) return;
  std::int64_t length = loop.sizes[0];
  Odometer<N> odometer;
  for (std::int64_t i = loop.numel / length; i > 0; --i, odometer.next(loop)) row(odometer.at, length);
}

/// body(offsets) for every element, one after the other.
template <int N, class Body>
void for_each(const Loop<N>& loop, std::int64_t grain, Body&& body) {
  for_rows(loop, grain, [&](Offsets<N> at, std::int64_t n) {
    Offsets<N> step;
    for (int k = 0; k < N; ++k) step[k] = loop.strides[k][0];
    for (std::int64_t i = 0; i < n; ++i) {
      body(at);
      for (int k = 0; k < N; ++k) at[k] += step[k];
    }
  });
}

}  // namespace
}  // namespace core::cpu
