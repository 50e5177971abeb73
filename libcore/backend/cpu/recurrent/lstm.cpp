// The steps of LSTM layers for one instruction set (CORE_CPU_VARIANT names the namespace). The weights of the state are
// packed once for all steps; each step is one product and one pass over its gates. Rows of a batch do not see each
// other: large batches are split over threads, with the same results.
#include "libcore/backend/cpu/recurrent/panels.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector_math.h"
#include "libcore/backend/recurrent_table.h"

namespace core::cpu {
namespace {

/// Activates the gates of one row and makes c, tanh(c) and h.
template <class T>
CORE_INLINE void lstm_row(std::int64_t hidden, T* gates, const T* before, T* cells, T* tanhs, T* h) {
  for (std::int64_t k = 0; k < hidden; k += kWidth<T>) {
    const std::int64_t left = hidden - k;
    const Vector<T> in = sigmoid_of(load_up_to(gates + k, left));
    const Vector<T> forget = sigmoid_of(load_up_to(gates + hidden + k, left));
    const Vector<T> cell = tanh_of(load_up_to(gates + 2 * hidden + k, left));
    const Vector<T> out = sigmoid_of(load_up_to(gates + 3 * hidden + k, left));
    const Vector<T> c = forget * load_up_to(before + k, left) + in * cell;
    const Vector<T> t = tanh_of(c);
    store_up_to(gates + k, in, left);
    store_up_to(gates + hidden + k, forget, left);
    store_up_to(gates + 2 * hidden + k, cell, left);
    store_up_to(gates + 3 * hidden + k, out, left);
    store_up_to(cells + k, c, left);
    store_up_to(tanhs + k, t, left);
    store_up_to<T>(h + k, out * t, left);
  }
}

template <class T>
void lstm(const LstmParams& p) {
  const RecurrentSizes& s = p.sizes;
  const std::int64_t n = s.hidden;
  const Panels<T> weight = packed_turned(static_cast<const T*>(p.w_hh), n, 4 * n);
  T *gates = static_cast<T*>(p.gates), *cells = static_cast<T*>(p.cells);
  T *tanhs = static_cast<T*>(p.tanhs), *hidden = static_cast<T*>(p.hidden);
  parallel_for(s.batch, rows_of_thread(s, 4 * n * n), [&](std::int64_t begin, std::int64_t end) {
    const T *h = static_cast<const T*>(p.h0) + begin * n, *c = static_cast<const T*>(p.c0) + begin * n;
    for (std::int64_t i = 0; i < s.steps; ++i) {
      const std::int64_t first = step_number(s, i) * s.batch + begin;
      multiply<T>(h, end - begin, weight, gates + first * 4 * n, 1);
      for (std::int64_t row = 0; row < end - begin; ++row) {
        const std::int64_t at = (first + row) * n;
        lstm_row(n, gates + 4 * at, c + row * n, cells + at, tanhs + at, hidden + at);
      }
      h = hidden + first * n;
      c = cells + first * n;
    }
  });
}

/// Gradients of the sums of one row's gates; dc is carried on.
template <class T>
CORE_INLINE void lstm_grad_row(std::int64_t hidden, const T* gates, const T* before, const T* tanhs, const T* dh,
                               const T* output_grad, T* dc, T* sums) {
  for (std::int64_t k = 0; k < hidden; k += kWidth<T>) {
    const std::int64_t left = hidden - k;
    const Vector<T> i = load_up_to(gates + k, left), f = load_up_to(gates + hidden + k, left);
    const Vector<T> z = load_up_to(gates + 2 * hidden + k, left), o = load_up_to(gates + 3 * hidden + k, left);
    const Vector<T> t = load_up_to(tanhs + k, left);
    Vector<T> d = load_up_to(dh + k, left);
    if (output_grad != nullptr) d = d + load_up_to(output_grad + k, left);
    const Vector<T> cell = load_up_to(dc + k, left) + d * o * (T(1) - t * t);
    store_up_to<T>(sums + k, cell * z * i * (T(1) - i), left);
    store_up_to<T>(sums + hidden + k, cell * load_up_to(before + k, left) * f * (T(1) - f), left);
    store_up_to<T>(sums + 2 * hidden + k, cell * i * (T(1) - z * z), left);
    store_up_to<T>(sums + 3 * hidden + k, d * t * o * (T(1) - o), left);
    store_up_to<T>(dc + k, cell * f, left);
  }
}

template <class T>
void lstm_grad(const LstmGradParams& p) {
  const RecurrentSizes& s = p.sizes;
  const std::int64_t n = s.hidden;
  const Panels<T> weight = packed(static_cast<const T*>(p.w_hh), 4 * n, n);
  const T *gates = static_cast<const T*>(p.gates), *cells = static_cast<const T*>(p.cells);
  const T *tanhs = static_cast<const T*>(p.tanhs), *output_grad = static_cast<const T*>(p.output_grad);
  T* sums = static_cast<T*>(p.sums_grad);
  parallel_for(s.batch, rows_of_thread(s, 4 * n * n), [&](std::int64_t begin, std::int64_t end) {
    T *dh = static_cast<T*>(p.h_grad) + begin * n, *dc = static_cast<T*>(p.c_grad) + begin * n;
    for (std::int64_t i = s.steps - 1; i >= 0; --i) {
      const std::int64_t first = step_number(s, i) * s.batch + begin;
      const std::int64_t earlier = step_number(s, i - 1) * s.batch + begin;
      const T* before = i == 0 ? static_cast<const T*>(p.c0) + begin * n : cells + earlier * n;
      for (std::int64_t row = 0; row < end - begin; ++row) {
        const std::int64_t at = (first + row) * n;
        const T* from_output = output_grad == nullptr ? nullptr : output_grad + at;
        lstm_grad_row(n, gates + 4 * at, before + row * n, tanhs + at, dh + row * n, from_output, dc + row * n,
                      sums + 4 * at);
      }
      multiply<T>(sums + first * 4 * n, end - begin, weight, dh, 0);
    }
  });
}

template <class T>
void add_for(RecurrentTable& table, DType dtype) {
  table.lstm[static_cast<std::size_t>(dtype)] = lstm<T>;
  table.lstm_grad[static_cast<std::size_t>(dtype)] = lstm_grad<T>;
}

}  // namespace

void CORE_CPU_VARIANT::fill_lstm(RecurrentTable& table) {
  add_for<float>(table, DType::f32);
  add_for<double>(table, DType::f64);
}

}  // namespace core::cpu
