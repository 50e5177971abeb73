// Softmax and its logarithm along one dimension. The largest element and the sum of exponentials are found together, in
// one reading; sums run in float at least. Lines of neighbouring elements are read in packs of 16 bytes.
#include <limits>

#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/nn_table.h"

namespace core::CORE_KERNELS {
namespace {

/// The largest of some numbers, and the sum of the exponentials of what is left without it. Those of -infinity are 0
/// whatever the largest is: nothing but -infinity gives NaN by the caller's own difference.
template <class W>
struct ExpSum {
  W most = -std::numeric_limits<W>::infinity();
  W sum = 0;

  CORE_BODY W scaled(W to) const { return sum == 0 ? W(0) : sum * std::exp(most - to); }
  template <int V>
  CORE_BODY void see_all(const W* x) {
    W all = most;
    CORE_UNROLL
    for (int k = 0; k < V; ++k) all = Most()(all, x[k]);
    sum = scaled(all);
    CORE_UNROLL
    for (int k = 0; k < V; ++k) sum += x[k] == -std::numeric_limits<W>::infinity() ? W(0) : std::exp(x[k] - all);
    most = all;
  }
};
struct Merge {
  template <class W>
  CORE_BODY ExpSum<W> operator()(const ExpSum<W>& a, const ExpSum<W>& b) const {
    const W most = Most()(a.most, b.most);
    return {most, a.scaled(most) + b.scaled(most)};
  }
};

/// Lines along the middle of (outer, length, inner).
struct Lines {
  std::int64_t length, inner;
  SizeDivider per_inner;

  template <class Params>
  explicit Lines(const Params& p) : length(p.length), inner(p.inner), per_inner(p.inner) {}
  CORE_BODY std::int64_t first(std::int64_t line) const {
    if (inner == 1) return line * length;
    const auto at = per_inner.divide(line);
    return at.quotient * inner * length + at.remainder;
  }
};

/// V elements of a line are taken at once. REQUIRES: V == 1, or lines.inner == 1 and packs fit.
template <class T, bool kLog, int V>
struct Softmax {
  Lines lines;
  const T* input;
  T* output;

  template <class Lanes>
  CORE_BODY void operator()(const Lanes& team, std::int64_t line) const {
    using W = Computed<T>;
    const std::int64_t first = lines.first(line), step = lines.inner, stride = std::int64_t{V} * team.size();
    ExpSum<W> mine;
    W x[V];
    for (std::int64_t i = std::int64_t{V} * team.lane(); i < lines.length; i += stride) {
      load_pack<V>(input + first + i * step, x);
      mine.template see_all<V>(x);
    }
    const ExpSum<W> all = team.reduce(mine, Merge());
    const W log_sum = std::log(all.sum);
    for (std::int64_t i = std::int64_t{V} * team.lane(); i < lines.length; i += stride) {
      load_pack<V>(input + first + i * step, x);
      CORE_UNROLL
      for (int k = 0; k < V; ++k) {
        x[k] -= all.most;
        x[k] = kLog ? x[k] - log_sum : std::exp(x[k]) / all.sum;
      }
      store_pack<V>(x, output + first + i * step);
    }
  }
};

template <class T, bool kLog, int V>
struct SoftmaxGrad {
  Lines lines;
  const T* output_grad;
  const T* output;
  T* input_grad;

  template <class Lanes>
  CORE_BODY void operator()(const Lanes& team, std::int64_t line) const {
    using W = Computed<T>;
    const std::int64_t first = lines.first(line), step = lines.inner, stride = std::int64_t{V} * team.size();
    W mine = 0, grad[V], out[V];
    for (std::int64_t i = std::int64_t{V} * team.lane(); i < lines.length; i += stride) {
      load_pack<V>(output_grad + first + i * step, grad);
      if (!kLog) load_pack<V>(output + first + i * step, out);
      CORE_UNROLL
      for (int k = 0; k < V; ++k) mine += kLog ? grad[k] : grad[k] * out[k];
    }
    const W sum = team.reduce(mine, Plus());
    for (std::int64_t i = std::int64_t{V} * team.lane(); i < lines.length; i += stride) {
      load_pack<V>(output_grad + first + i * step, grad);
      load_pack<V>(output + first + i * step, out);
      CORE_UNROLL
      for (int k = 0; k < V; ++k) grad[k] = kLog ? grad[k] - std::exp(out[k]) * sum : (grad[k] - sum) * out[k];
      store_pack<V>(grad, input_grad + first + i * step);
    }
  }
};

/// Whether a lane should take a line alone: short ones, and many side by side, which the lanes read together.
template <class Params>
bool is_for_lanes(const Params& p) {
  constexpr std::int64_t kManyLines = 8192, kFewElements = 64;
  if (p.inner == 1) return p.length <= kShortRow;
  return p.outer * p.inner >= kManyLines || p.length <= kFewElements;
}

template <class T, bool kLog>
void softmax(const SoftmaxParams& p) {
  const bool fit = p.inner == 1 && !is_for_lanes(p) && fit_packs<T>(p.length, p.input, p.output);
  with_packs<T>(fit, [&]<int V>() {
    const Softmax<T, kLog, V> body{Lines(p), static_cast<const T*>(p.input), static_cast<T*>(p.output)};
    for_each_line(p.outer * p.inner, p.length, is_for_lanes(p), body);
  });
}

template <class T, bool kLog>
void softmax_grad(const SoftmaxGradParams& p) {
  const bool fit = p.inner == 1 && !is_for_lanes(p) && fit_packs<T>(p.length, p.output_grad, p.output, p.input_grad);
  with_packs<T>(fit, [&]<int V>() {
    const SoftmaxGrad<T, kLog, V> body{Lines(p), static_cast<const T*>(p.output_grad), static_cast<const T*>(p.output),
                                       static_cast<T*>(p.input_grad)};
    for_each_line(p.outer * p.inner, p.length, is_for_lanes(p), body);
  });
}

}  // namespace

void fill_softmax(NnTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.softmax[slot] = softmax<T, false>;
    table.log_softmax[slot] = softmax<T, true>;
    table.softmax_grad[slot] = softmax_grad<T, false>;
    table.log_softmax_grad[slot] = softmax_grad<T, true>;
  });
}

}  // namespace core::CORE_KERNELS
