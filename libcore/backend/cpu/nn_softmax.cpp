// Softmax and its logarithm along one dimension, numerically safe: the largest element is taken off first.
#include <algorithm>
#include <cmath>

#include "libcore/backend/cpu/nn_kernels.h"
#include "libcore/backend/cpu/thread_pool.h"

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

template <class T>
void softmax(const SoftmaxParams& p) {
  for_each_line(p.outer, p.length, p.inner, [&](std::int64_t at) {
    const T* in = static_cast<const T*>(p.input) + at;
    T* out = static_cast<T*>(p.output) + at;
    const T largest = largest_of(in, p.length, p.inner);
    T sum = 0;
    for (std::int64_t i = 0; i < p.length; ++i) sum += out[i * p.inner] = std::exp(in[i * p.inner] - largest);
    for (std::int64_t i = 0; i < p.length; ++i) out[i * p.inner] /= sum;
  });
}

template <class T>
void log_softmax(const SoftmaxParams& p) {
  for_each_line(p.outer, p.length, p.inner, [&](std::int64_t at) {
    const T* in = static_cast<const T*>(p.input) + at;
    T* out = static_cast<T*>(p.output) + at;
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

void add_softmax_kernels(NnTable& table) {
  add_for<float>(table, DType::f32);
  add_for<double>(table, DType::f64);
}

}  // namespace core::cpu
