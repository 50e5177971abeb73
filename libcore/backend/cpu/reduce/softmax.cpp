// Softmax and its logarithm along one dimension for one instruction set (CORE_CPU_VARIANT names the namespace),
// numerically safe: the largest element is taken off first. Dense lines go by short vectors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector_math.h"
#include "libcore/backend/nn_table.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kWork = 2048;  // elements worth a thread's start

/// Calls visit(offset of the first element) for every line along the dimension.
template <class Visit>
void for_each_line(std::int64_t outer, std::int64_t length, std::int64_t inner, Visit visit) {
  const std::int64_t grain = std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, length));
  parallel_for(outer * inner, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) visit(line / inner * inner * length + line % inner);
  });
}

template <class T>
T largest_of(const T* line, std::int64_t length, std::int64_t step) {
  T largest = line[0];
  for (std::int64_t i = 1; i < length; ++i) {
    const T value = line[i * step];
    largest = value > largest || std::isnan(value) ? value : largest;
  }
  return largest;
}

// Dense lines. `rest` elements of a last, incomplete vector are those that count.

template <class T>
CORE_INLINE T sum_of_lanes(const Vector<T>& v) {
  T sum = v[0];
  for (int i = 1; i < kWidth<T>; ++i) sum += v[i];
  return sum;
}

template <class T>
CORE_INLINE T largest_of_dense(const T* line, std::int64_t length) {
  Vector<T> best = all_of(-std::numeric_limits<T>::infinity());
  std::int64_t i = 0;
  for (; i + kWidth<T> <= length; i += kWidth<T>) {
    const Vector<T> v = load(line + i);
    best = (v > best) | (v != v) ? v : best;
  }
  T largest = best[0];
  for (int k = 1; k < kWidth<T>; ++k) largest = best[k] > largest || best[k] != best[k] ? best[k] : largest;
  for (; i < length; ++i) largest = line[i] > largest || line[i] != line[i] ? line[i] : largest;
  return largest;
}

/// The sum of exp(in - largest); the terms go to `out` where that is not null.
template <class T>
CORE_INLINE T exp_sum(const T* in, std::int64_t length, T largest, T* out) {
  Vector<T> sums{};
  for (std::int64_t i = 0; i < length; i += kWidth<T>) {
    const std::int64_t left = length - i;
    Vector<T> terms = exp_of(load_up_to(in + i, left) - largest);
    if (out != nullptr) store_up_to(out + i, terms, left);
    for (std::int64_t k = left; k < kWidth<T>; ++k) terms[k] = 0;
    sums += terms;
  }
  return sum_of_lanes<T>(sums);
}

template <class T>
void dense_softmax(const T* in, T* out, std::int64_t length) {
  const T sum = exp_sum(in, length, largest_of_dense(in, length), out);
  for (std::int64_t i = 0; i < length; ++i) out[i] /= sum;
}

template <class T>
void dense_log_softmax(const T* in, T* out, std::int64_t length) {
  const T largest = largest_of_dense(in, length);
  const T log_sum = std::log(exp_sum<T>(in, length, largest, nullptr));
  for (std::int64_t i = 0; i < length; ++i) out[i] = in[i] - largest - log_sum;
}

template <class T>
void dense_log_softmax_grad(const T* grad, const T* out, T* in_grad, std::int64_t length) {
  Vector<T> sums{};
  for (std::int64_t i = 0; i < length; i += kWidth<T>) sums += load_up_to(grad + i, length - i);
  const T sum = sum_of_lanes<T>(sums);
  for (std::int64_t i = 0; i < length; i += kWidth<T>) {
    const std::int64_t left = length - i;
    store_up_to<T>(in_grad + i, load_up_to(grad + i, left) - exp_of(load_up_to(out + i, left)) * sum, left);
  }
}

/// `lines` neighbouring lines, a vector at most, whose elements lie `step` apart: one exponential at a time was a fifth
/// of a small capsule network.
template <class T>
void softmax_beside(const T* in, T* out, std::int64_t length, std::int64_t step, std::int64_t lines) {
  Vector<T> largest = load_up_to(in, lines), sums{};
  for (std::int64_t i = 1; i < length; ++i) {
    const Vector<T> v = load_up_to(in + i * step, lines);
    largest = (v > largest) | (v != v) ? v : largest;
  }
  for (std::int64_t i = 0; i < length; ++i) {
    const Vector<T> term = exp_of(load_up_to(in + i * step, lines) - largest);
    store_up_to(out + i * step, term, lines);
    sums += term;
  }
  for (std::int64_t i = 0; i < length; ++i) {
    store_up_to<T>(out + i * step, load_up_to(out + i * step, lines) / sums, lines);
  }
}

template <class T>
void softmax(const SoftmaxParams& p) {
  const auto* in = static_cast<const T*>(p.input);
  auto* out = static_cast<T*>(p.output);
  if (p.inner == 1) {
    return for_each_line(p.outer, p.length, 1, [&](std::int64_t at) { dense_softmax(in + at, out + at, p.length); });
  }
  const std::int64_t each = (p.inner + kWidth<T> - 1) / kWidth<T>;
  const std::int64_t grain = std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, p.length * kWidth<T>));
  parallel_for(p.outer * each, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % each * kWidth<T>, at = i / each * p.inner * p.length + first;
      softmax_beside(in + at, out + at, p.length, p.inner, std::min<std::int64_t>(kWidth<T>, p.inner - first));
    }
  });
}

template <class T>
void log_softmax(const SoftmaxParams& p) {
  for_each_line(p.outer, p.length, p.inner, [&](std::int64_t at) {
    const T* in = static_cast<const T*>(p.input) + at;
    T* out = static_cast<T*>(p.output) + at;
    if (p.inner == 1) return dense_log_softmax(in, out, p.length);
    const T largest = largest_of(in, p.length, p.inner);
    T sum = 0;
    for (std::int64_t i = 0; i < p.length; ++i) sum += std::exp(in[i * p.inner] - largest);
    const T log_sum = std::log(sum);
    for (std::int64_t i = 0; i < p.length; ++i) out[i * p.inner] = in[i * p.inner] - largest - log_sum;
  });
}

template <class T>
void softmax_grad(const SoftmaxGradParams& p) {
  for_each_line(p.outer, p.length, p.inner, [&](std::int64_t at) {
    const T* grad = static_cast<const T*>(p.output_grad) + at;
    const T* out = static_cast<const T*>(p.output) + at;
    T* in_grad = static_cast<T*>(p.input_grad) + at;
    T sum = 0;
    for (std::int64_t i = 0; i < p.length; ++i) sum += grad[i * p.inner] * out[i * p.inner];
    for (std::int64_t i = 0; i < p.length; ++i) {
      in_grad[i * p.inner] = (grad[i * p.inner] - sum) * out[i * p.inner];
    }
  });
}

template <class T>
void log_softmax_grad(const SoftmaxGradParams& p) {
  for_each_line(p.outer, p.length, p.inner, [&](std::int64_t at) {
    const T* grad = static_cast<const T*>(p.output_grad) + at;
    const T* out = static_cast<const T*>(p.output) + at;
    T* in_grad = static_cast<T*>(p.input_grad) + at;
    if (p.inner == 1) return dense_log_softmax_grad(grad, out, in_grad, p.length);
    T sum = 0;
    for (std::int64_t i = 0; i < p.length; ++i) sum += grad[i * p.inner];
    for (std::int64_t i = 0; i < p.length; ++i) {
      in_grad[i * p.inner] = grad[i * p.inner] - std::exp(out[i * p.inner]) * sum;
    }
  });
}

template <class T>
void add_for(NnTable& table, DType dtype) {
  const auto slot = static_cast<std::size_t>(dtype);
  table.softmax[slot] = softmax<T>;
  table.log_softmax[slot] = log_softmax<T>;
  table.softmax_grad[slot] = softmax_grad<T>;
  table.log_softmax_grad[slot] = log_softmax_grad<T>;
}

}  // namespace

void CORE_CPU_VARIANT::fill_softmax(NnTable& table) {
  add_for<float>(table, DType::f32);
  add_for<double>(table, DType::f64);
}

}  // namespace core::cpu
