// Sums, products and running ones, all in double; whether all or any are not 0.
#include <algorithm>
#include <complex>
#include <cstdint>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/cpu/complex/arithmetic.h"
#include "libcore/backend/cpu/complex/complex_tables.h"
#include "libcore/backend/cpu/loops.h"

namespace core::cpu {
namespace {

using Wide = std::complex<double>;

/// One after the other on one thread: the result does not depend on how many there are. `finish` gets the count too.
template <class C, class Out, class State, class Fold, class Finish>
void reduce_each(const ReduceParams& p, State start, Fold fold, Finish finish) {
  for_each(p.outer, kGrain / std::max<std::int64_t>(p.inner.numel, 1) + 1, [&](const Offsets<2>& at) {
    const C* in = static_cast<const C*>(p.in) + at[1];
    State state = start;
    for_rows_in_order(p.inner, [&](const Offsets<1>& first, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) fold(state, in[first[0] + i * p.inner.strides[0][0]]);
    });
    static_cast<Out*>(p.out)[at[0]] = Out(finish(state));
  });
}

template <class C, bool kMean>
void sum_kernel(const ReduceParams& p) {
  const auto count = static_cast<double>(p.inner.numel);
  reduce_each<C, C>(
      p, Wide(0), [](Wide& sum, const C& z) { sum += Wide(z); },
      [&](const Wide& sum) { return kMean ? sum / count : sum; });
}

template <class C>
void prod_kernel(const ReduceParams& p) {
  reduce_each<C, C>(
      p, Wide(1), [](Wide& all, const C& z) { all = product(all, Wide(z)); }, [](const Wide& all) { return all; });
}

template <class T>
bool is_zero(const std::complex<T>& z) {
  return z == T(0);
}
bool is_zero(const ComplexHalf& z) {
  return is_zero(widened(z));
}

template <class C, bool kAll>
void truth_kernel(const ReduceParams& p) {
  reduce_each<C, bool>(
      p, kAll,
      [](bool& state, const C& z) {
        const bool is_true = !is_zero(z);
        state = kAll ? state && is_true : state || is_true;
      },
      [](bool state) { return state; });
}

template <class C, bool kProduct>
void scan_kernel(const ScanParams& p) {
  for_each(p.lines, kGrain / std::max<std::int64_t>(p.length, 1) + 1, [&](const Offsets<2>& at) {
    C* out = static_cast<C*>(p.out) + at[0];
    const C* in = static_cast<const C*>(p.in) + at[1];
    Wide running = kProduct ? 1 : 0;
    for (std::int64_t i = 0; i < p.length; ++i) {
      const Wide value(in[i * p.in_step]);
      running = kProduct ? product(running, value) : running + value;
      out[i * p.out_step] = C(running);
    }
  });
}

template <class C>
void fill_truths(ReductionTable& table) {
  table.reduce.set(ReduceOp::all, dtype_of<C>, truth_kernel<C, true>);
  table.reduce.set(ReduceOp::any, dtype_of<C>, truth_kernel<C, false>);
}

template <class C>
void fill_all(ReductionTable& table) {
  constexpr DType kType = dtype_of<C>;
  table.reduce.set(ReduceOp::sum, kType, sum_kernel<C, false>);
  table.reduce.set(ReduceOp::mean, kType, sum_kernel<C, true>);
  table.reduce.set(ReduceOp::prod, kType, prod_kernel<C>);
  fill_truths<C>(table);
  table.scan.set(ScanOp::cumsum, kType, scan_kernel<C, false>);
  table.scan.set(ScanOp::cumprod, kType, scan_kernel<C, true>);
}

}  // namespace

void fill_complex_reductions(ReductionTable& table) {
  fill_truths<ComplexHalf>(table);
  fill_all<std::complex<float>>(table);
  fill_all<std::complex<double>>(table);
}

}  // namespace core::cpu
