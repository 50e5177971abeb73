#include "libckpt/analyze/spectral_loops.h"

#include "libcore/backend/cpu/isa.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kTogether = 2;  // rows: their sums fill half of the registers of AVX2

/// Of `count` rows, at most kTogether.
template <std::size_t kCount>
[[gnu::always_inline]] inline void multiply(const double* a, std::size_t columns, const double* q, double* y) {
  double sums[kCount][kThin] = {};
  for (std::size_t j = 0; j < columns; ++j) {
    for (std::size_t r = 0; r < kCount; ++r) {
      const double factor = a[r * columns + j];
      for (std::size_t k = 0; k < kThin; ++k) sums[r][k] += factor * q[j * kThin + k];
    }
  }
  for (std::size_t r = 0; r < kCount; ++r) {
    for (std::size_t k = 0; k < kThin; ++k) y[r * kThin + k] = sums[r][k];
  }
}

template <std::size_t kCount>
[[gnu::always_inline]] inline void add(const double* a, std::size_t columns, const double* y, double* z) {
  double factors[kCount][kThin];
  for (std::size_t r = 0; r < kCount; ++r) {
    for (std::size_t k = 0; k < kThin; ++k) factors[r][k] = y[r * kThin + k];
  }
  for (std::size_t j = 0; j < columns; ++j) {
    for (std::size_t r = 0; r < kCount; ++r) {
      const double number = a[r * columns + j];
      for (std::size_t k = 0; k < kThin; ++k) z[j * kThin + k] += number * factors[r][k];
    }
  }
}

[[gnu::always_inline]] inline void multiply_all(const double* a, std::size_t rows, std::size_t columns, const double* q,
                                                double* y) {
  std::size_t r = 0;
  for (; r + kTogether <= rows; r += kTogether) multiply<kTogether>(a + r * columns, columns, q, y + r * kThin);
  for (; r < rows; ++r) multiply<1>(a + r * columns, columns, q, y + r * kThin);
}

[[gnu::always_inline]] inline void add_all(const double* a, std::size_t rows, std::size_t columns, const double* y,
                                           double* z) {
  std::size_t r = 0;
  for (; r + kTogether <= rows; r += kTogether) add<kTogether>(a + r * columns, columns, y + r * kThin, z);
  for (; r < rows; ++r) add<1>(a + r * columns, columns, y + r * kThin, z);
}

void multiply_baseline(const double* a, std::size_t rows, std::size_t columns, const double* q, double* y) {
  multiply_all(a, rows, columns, q, y);
}
void add_baseline(const double* a, std::size_t rows, std::size_t columns, const double* y, double* z) {
  add_all(a, rows, columns, y, z);
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_avx2(const double* a, std::size_t rows, std::size_t columns, const double* q,
                                               double* y) {
  multiply_all(a, rows, columns, q, y);
}
[[gnu::target("avx2,fma")]] void add_avx2(const double* a, std::size_t rows, std::size_t columns, const double* y,
                                          double* z) {
  add_all(a, rows, columns, y, z);
}
#endif

bool has_avx2() {
  return core::cpu::isa() >= core::cpu::Isa::avx2;
}

}  // namespace

void multiply_rows(const double* a, std::size_t rows, std::size_t columns, const double* q, double* y) {
#if defined(__x86_64__)
  if (has_avx2()) return multiply_avx2(a, rows, columns, q, y);
#endif
  multiply_baseline(a, rows, columns, q, y);
}

void add_transposed(const double* a, std::size_t rows, std::size_t columns, const double* y, double* z) {
#if defined(__x86_64__)
  if (has_avx2()) return add_avx2(a, rows, columns, y, z);
#endif
  add_baseline(a, rows, columns, y, z);
}

}  // namespace ckpt::detail
