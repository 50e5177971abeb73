// The steps of GRU layers for one instruction set (CORE_CPU_VARIANT names the namespace), as those of the LSTM: one
// product and one pass over the gates for each step, with weights packed once; large batches are split over threads,
// with the same results.
#include "libcore/backend/cpu/recurrent/panels.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector_math.h"
#include "libcore/backend/recurrent_table.h"

namespace core::cpu {
namespace {

/// One row of one step: where its parts lie.
template <class T>
struct GruRow {
  const T *input_sums, *hidden_sums, *bias, *before;
  T *gates, *fresh, *recalled, *after;
};

template <class T, bool kBias>
CORE_INLINE Vector<T> hidden_sum(const GruRow<T>& r, std::int64_t at, std::int64_t left) {
  const Vector<T> sum = load_up_to(r.hidden_sums + at, left);
  if constexpr (kBias) return sum + load_up_to(r.bias + at, left);
  return sum;
}

template <class T, bool kBias>
CORE_INLINE void gru_row(std::int64_t n, const GruRow<T>& r) {
  for (std::int64_t k = 0; k < n; k += kWidth<T>) {
    const std::int64_t left = n - k;
    const Vector<T> reset = sigmoid_of(load_up_to(r.input_sums + k, left) + hidden_sum<T, kBias>(r, k, left));
    const Vector<T> update = sigmoid_of(load_up_to(r.input_sums + n + k, left) + hidden_sum<T, kBias>(r, n + k, left));
    const Vector<T> recalled = hidden_sum<T, kBias>(r, 2 * n + k, left);
    const Vector<T> fresh = fine_tanh_of(load_up_to(r.input_sums + 2 * n + k, left) + reset * recalled);
    store_up_to(r.gates + k, reset, left);
    store_up_to(r.gates + n + k, update, left);
    store_up_to(r.recalled + k, recalled, left);
    store_up_to(r.fresh + k, fresh, left);
    store_up_to<T>(r.after + k, (load_up_to(r.before + k, left) - fresh) * update + fresh, left);
  }
}

template <class T, bool kBias>
void gru_steps(const GruParams& p, const Panels<T>& weight, std::int64_t begin, std::int64_t end) {
  const RecurrentSizes& s = p.sizes;
  const std::int64_t n = s.hidden, rows = end - begin;
  T* const sums = scratch<T>(Scratch::output, rows * 3 * n);
  const T* h = static_cast<const T*>(p.h0) + begin * n;
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const std::int64_t first = step_number(s, i) * s.batch + begin;
    multiply<T>(h, rows, weight, sums, 0);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = (first + row) * n;
      gru_row<T, kBias>(
          n, {static_cast<const T*>(p.input_sums) + 3 * at, sums + row * 3 * n, static_cast<const T*>(p.b_hh),
              h + row * n, static_cast<T*>(p.gates) + 2 * at, static_cast<T*>(p.fresh) + at,
              static_cast<T*>(p.recalled) + at, static_cast<T*>(p.hidden) + at});
    }
    h = static_cast<const T*>(p.hidden) + first * n;
  }
}

template <class T>
void gru(const GruParams& p) {
  const std::int64_t n = p.sizes.hidden;
  const Panels<T> weight = packed_turned(static_cast<const T*>(p.w_hh), n, 3 * n);
  const auto steps = p.b_hh != nullptr ? gru_steps<T, true> : gru_steps<T, false>;
  parallel_for(p.sizes.batch, rows_of_thread(p.sizes, 3 * n * n),
               [&](std::int64_t begin, std::int64_t end) { steps(p, weight, begin, end); });
}

/// The same of the gradient. dh is carried on: what goes to the state before without the product.
template <class T>
struct GruGradRow {
  const T *gates, *fresh, *recalled, *before, *output_grad;
  T *dh, *input_sums, *hidden_sums;
};

template <class T>
CORE_INLINE void gru_grad_row(std::int64_t n, const GruGradRow<T>& row) {
  for (std::int64_t k = 0; k < n; k += kWidth<T>) {
    const std::int64_t left = n - k;
    const Vector<T> r = load_up_to(row.gates + k, left), z = load_up_to(row.gates + n + k, left);
    const Vector<T> f = load_up_to(row.fresh + k, left);
    Vector<T> dh = load_up_to(row.dh + k, left);
    if (row.output_grad != nullptr) dh = dh + load_up_to(row.output_grad + k, left);
    const Vector<T> fresh = dh * (T(1) - z) * (T(1) - f * f);
    const Vector<T> reset = fresh * load_up_to(row.recalled + k, left) * r * (T(1) - r);
    const Vector<T> update = dh * (load_up_to(row.before + k, left) - f) * z * (T(1) - z);
    store_up_to(row.input_sums + k, reset, left);
    store_up_to(row.hidden_sums + k, reset, left);
    store_up_to(row.input_sums + n + k, update, left);
    store_up_to(row.hidden_sums + n + k, update, left);
    store_up_to(row.input_sums + 2 * n + k, fresh, left);
    store_up_to<T>(row.hidden_sums + 2 * n + k, fresh * r, left);
    store_up_to<T>(row.dh + k, dh * z, left);
  }
}

template <class T>
void gru_grad_steps(const GruGradParams& p, const Panels<T>& weight, std::int64_t begin, std::int64_t end) {
  const RecurrentSizes& s = p.sizes;
  const std::int64_t n = s.hidden, rows = end - begin;
  T* const dh = static_cast<T*>(p.h_grad) + begin * n;
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    const std::int64_t first = step_number(s, i) * s.batch + begin;
    const std::int64_t earlier = step_number(s, i - 1) * s.batch + begin;
    const T* before = i == 0 ? static_cast<const T*>(p.h0) + begin * n : static_cast<const T*>(p.hidden) + earlier * n;
    T* const hidden_sums = static_cast<T*>(p.hidden_sums_grad) + first * 3 * n;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = (first + row) * n;
      const T* of_output = p.output_grad == nullptr ? nullptr : static_cast<const T*>(p.output_grad) + at;
      gru_grad_row<T>(n, {static_cast<const T*>(p.gates) + 2 * at, static_cast<const T*>(p.fresh) + at,
                          static_cast<const T*>(p.recalled) + at, before + row * n, of_output, dh + row * n,
                          static_cast<T*>(p.input_sums_grad) + 3 * at, hidden_sums + row * 3 * n});
    }
    multiply<T>(hidden_sums, rows, weight, dh, 1);
  }
}

template <class T>
void gru_grad(const GruGradParams& p) {
  const std::int64_t n = p.sizes.hidden;
  const Panels<T> weight = packed(static_cast<const T*>(p.w_hh), 3 * n, n);
  parallel_for(p.sizes.batch, rows_of_thread(p.sizes, 3 * n * n),
               [&](std::int64_t begin, std::int64_t end) { gru_grad_steps<T>(p, weight, begin, end); });
}

}  // namespace

void CORE_CPU_VARIANT::fill_gru(RecurrentTable& table) {
  table.gru[static_cast<std::size_t>(DType::f32)] = gru<float>;
  table.gru[static_cast<std::size_t>(DType::f64)] = gru<double>;
  table.gru_grad[static_cast<std::size_t>(DType::f32)] = gru_grad<float>;
  table.gru_grad[static_cast<std::size_t>(DType::f64)] = gru_grad<double>;
}

}  // namespace core::cpu
