// What a core can do at most: f32 multiply-adds of values that stay in registers. limits_table.py sets steps beside it.

#include <array>

#include "libcore/backend/cpu/isa.h"
#include "tests/bench/bench_steps.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {
namespace {

constexpr int kChains = 12;                    // that do not wait for each other, enough for two units
constexpr int kMultiplyAdds = 12 * (1 << 18);  // of a step: 3,145,728

#if defined(__x86_64__)

[[gnu::target("avx512f")]] float multiply_avx512() {
  const __m512 factor = _mm512_set1_ps(0.5F), addend = _mm512_set1_ps(1);
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1);
  for (int i = 0; i < kMultiplyAdds / kChains / 16; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, addend);
  }
  float all = 0;
  for (const __m512& sum : sums) all += _mm512_cvtss_f32(sum);
  return all;
}

[[gnu::target("avx2,fma")]] float multiply_avx2() {
  const __m256 factor = _mm256_set1_ps(0.5F), addend = _mm256_set1_ps(1);
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1);
  for (int i = 0; i < kMultiplyAdds / kChains / 8; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, addend);
  }
  float all = 0;
  for (const __m256& sum : sums) all += _mm256_cvtss_f32(sum);
  return all;
}

#endif

Step peak(core::Device) {
#if defined(__x86_64__)
  if (core::cpu::isa() == core::cpu::Isa::avx512) return [] { return static_cast<double>(multiply_avx512()); };
  if (core::cpu::isa() == core::cpu::Isa::avx2) return [] { return static_cast<double>(multiply_avx2()); };
#endif
  return {};
}

constexpr std::array kSteps = {
    StepKind{"peak", "3,145,728 f32 multiply-adds of values in registers", peak},
};

}  // namespace

StepTable peak_steps() {
  return kSteps;
}

}  // namespace bench
