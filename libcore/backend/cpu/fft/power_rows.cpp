#include "libcore/backend/cpu/fft/power_rows.h"

#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libcore/backend/cpu/fft/circle.h"
#include "libcore/backend/cpu/fft/power_of_two.h"
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

struct AllKernels {
  PowerKernels<float> single{};
  PowerKernels<double> twice{};
  AllKernels() { CORE_BY_ISA(fill_power_kernels)(single, twice); }
};

template <class T>
const PowerKernels<T>& kernels() {
  static const AllKernels all;
  if constexpr (sizeof(T) == 4) {
    return all.single;
  } else {
    return all.twice;
  }
}

}  // namespace
}  // namespace core::cpu

namespace core::fourier {
namespace {

/// 8 first; 4 is the fastest of the others, and one more 8 where a factor of 2 would be left.
cpu::PowerFactors factors_of(std::int64_t length) {
  cpu::PowerFactors all;
  const auto take = [&](int factor) {
    all.factors[all.count++] = static_cast<std::uint8_t>(factor);
    length /= factor;
  };
  take(8);
  if (std::countr_zero(static_cast<std::uint64_t>(length)) % 2 == 1) take(8);
  while (length > 1) take(4);
  return all;
}

template <class T>
struct PowerPlan {
  std::int64_t length;
  cpu::PowerFactors factors;
  std::vector<T> twiddles;
  std::vector<T> cosines, sines;  ///< of pi k / length, k = 0 ... length, for twice as many real numbers

  explicit PowerPlan(std::int64_t n) : length(n), factors(factors_of(n)) {
    twiddles.reserve(static_cast<std::size_t>(2 * n));
    std::int64_t rest = n;
    for (std::size_t i = 0; i + 1 < factors.count; rest /= factors.factors[i++]) add_pass(rest, i);
    for (std::int64_t k = 0; k <= n; ++k) {
      const CirclePoint point = circle_point(k, 2 * n);
      cosines.push_back(static_cast<T>(point.cosine));
      sines.push_back(static_cast<T>(point.sine));
    }
  }

 private:
  void add_pass(std::int64_t rest, std::size_t pass) {
    const std::int64_t factor = factors.factors[pass], parts = rest / factor;
    const auto cosine = [&](std::int64_t k) { return static_cast<T>(circle_point(k, rest).cosine); };
    const auto sine = [&](std::int64_t k) { return static_cast<T>(-circle_point(k, rest).sine); };
    if (pass == 0) {
      for (std::int64_t k = 1; k < factor; ++k) {
        for (std::int64_t part = 0; part < parts; ++part) twiddles.push_back(cosine(part * k));
        for (std::int64_t part = 0; part < parts; ++part) twiddles.push_back(sine(part * k));
      }
      return;
    }
    for (std::int64_t part = 0; part < parts; ++part) {
      for (std::int64_t k = 1; k < factor; ++k) {
        twiddles.push_back(cosine(part * k));
        twiddles.push_back(sine(part * k));
      }
    }
  }
};

/// Null where no passes are written for rows of that many complex numbers.
template <class T>
std::shared_ptr<const PowerPlan<T>> power_plan(std::int64_t length) {
  const bool fits = length >= cpu::kShortestPower && std::has_single_bit(static_cast<std::uint64_t>(length));
  return fits ? kept_plan<PowerPlan<T>>(length) : nullptr;
}

template <class T>
cpu::PowerRow<T> row_of(const PowerPlan<T>& plan, const Rows& rows, T* work) {
  return {.length = plan.length,
          .passes = &plan.factors,
          .twiddles = plan.twiddles.data(),
          .inverse = rows.inverse,
          .scale = static_cast<T>(rows.scale),
          .in = nullptr,
          .out = nullptr,
          .work = work};
}

/// body(row, work) for every row, with numbers of a thread's own to work in.
template <class T, class Body>
void for_each_row(const Rows& rows, std::int64_t work_size, const Body& body) {
  parallel_for(rows.count, cpu::kGrain / 4 / rows.length + 1, [&](std::int64_t begin, std::int64_t end) {
    const auto work = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(work_size));
    for (std::int64_t i = begin; i < end; ++i) body(i, work.get());
  });
}

template <class T>
cpu::PowerHalf<T> half_of(const PowerPlan<T>& plan, const Rows& rows, T* work) {
  return {.pairs = row_of(plan, rows, work),
          .cosines = plan.cosines.data(),
          .sines = plan.sines.data(),
          .inverse = rows.inverse,
          .scale = static_cast<T>(rows.scale),
          .in = nullptr,
          .out = nullptr,
          .spectrum = work + cpu::power_work(plan.length)};
}

}  // namespace

template <class T>
bool transform_powers(const Rows& rows, const std::complex<T>* in, std::complex<T>* out) {
  const auto plan = power_plan<T>(rows.length);
  if (!plan) return false;
  for_each_row<T>(rows, cpu::power_work(rows.length), [&](std::int64_t i, T* work) {
    cpu::PowerRow<T> row = row_of(*plan, rows, work);
    row.in = reinterpret_cast<const T*>(in + i * rows.length);
    row.out = reinterpret_cast<T*>(out + i * rows.length);
    cpu::kernels<T>().transform(row);
  });
  return true;
}

template <class T>
bool powers_to_half(const Rows& rows, const T* in, std::complex<T>* out) {
  const auto plan = rows.length % 2 == 0 ? power_plan<T>(rows.length / 2) : nullptr;
  if (!plan) return false;
  for_each_row<T>(rows, cpu::power_work(plan->length) + rows.length, [&](std::int64_t i, T* work) {
    cpu::PowerHalf<T> row = half_of(*plan, rows, work);
    row.in = in + i * rows.length;
    row.out = reinterpret_cast<T*>(out + i * (plan->length + 1));
    cpu::kernels<T>().to_half(row);
  });
  return true;
}

template <class T>
bool powers_from_half(const Rows& rows, const std::complex<T>* in, T* out) {
  const auto plan = rows.length % 2 == 0 ? power_plan<T>(rows.length / 2) : nullptr;
  if (!plan) return false;
  for_each_row<T>(rows, cpu::power_work(plan->length) + rows.length, [&](std::int64_t i, T* work) {
    cpu::PowerHalf<T> row = half_of(*plan, rows, work);
    row.in = reinterpret_cast<const T*>(in + i * (plan->length + 1));
    row.out = out + i * rows.length;
    cpu::kernels<T>().from_half(row);
  });
  return true;
}

template bool transform_powers(const Rows& rows, const std::complex<float>* in, std::complex<float>* out);
template bool transform_powers(const Rows& rows, const std::complex<double>* in, std::complex<double>* out);
template bool powers_to_half(const Rows& rows, const float* in, std::complex<float>* out);
template bool powers_to_half(const Rows& rows, const double* in, std::complex<double>* out);
template bool powers_from_half(const Rows& rows, const std::complex<float>* in, float* out);
template bool powers_from_half(const Rows& rows, const std::complex<double>* in, double* out);

}  // namespace core::fourier
