// What a core can do at most: f32 multiply-adds, roots and quotients of values that stay in registers, moving bytes
// that no second cache holds, and making tensors. limits_table.py sets steps beside them.

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/device_registry.h"
#include "libcore/ops/raw/memory.h"
#include "tests/bench/bench_steps.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {
namespace {

constexpr int kChains = 12;                    // that do not wait for each other, enough for two units
constexpr int kMultiplyAdds = 12 * (1 << 18);  // of a step: 3,145,728
constexpr std::size_t kMoved = 1 << 23;        // floats of each of two arrays; three times as many are moved: 96 MiB

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

[[gnu::target("avx512f")]] void add_avx512(float* a, const float* b) {
  for (std::size_t i = 0; i < kMoved; i += 16) {
    _mm512_storeu_ps(a + i, _mm512_add_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i)));
  }
}

[[gnu::target("avx2")]] void add_avx2(float* a, const float* b) {
  for (std::size_t i = 0; i < kMoved; i += 8) {
    _mm256_storeu_ps(a + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
}

constexpr int kRoots = 433 * 16;  // about the parameters of the perceptron that mlp_adam trains

[[gnu::target("avx512f")]] float roots_avx512() {
  const __m512 by = _mm512_set1_ps(3);
  __m512 x = _mm512_set1_ps(2), root = x, quotient = x;
  for (int i = 0; i < kRoots / 16; ++i) {
    asm volatile("" : "+v"(x));  // each time anew
    root = _mm512_maskz_sqrt_ps(0xffff, x), quotient = _mm512_div_ps(x, by);
    asm volatile("" : : "v"(root), "v"(quotient));
  }
  return _mm512_cvtss_f32(root) + _mm512_cvtss_f32(quotient);
}

[[gnu::target("avx2")]] float roots_avx2() {
  const __m256 by = _mm256_set1_ps(3);
  __m256 x = _mm256_set1_ps(2), root = x, quotient = x;
  for (int i = 0; i < kRoots / 8; ++i) {
    asm volatile("" : "+x"(x));
    root = _mm256_sqrt_ps(x), quotient = _mm256_div_ps(x, by);
    asm volatile("" : : "x"(root), "x"(quotient));
  }
  return _mm256_cvtss_f32(root) + _mm256_cvtss_f32(quotient);
}

#endif

/// a += b, as an optimizer passes over parameters and gradients.
Step memory(core::Device) {
#if defined(__x86_64__)
  const auto a = std::make_shared<std::vector<float>>(kMoved), b = std::make_shared<std::vector<float>>(kMoved, 1.0F);
  const auto step = [a, b](void (*add)(float*, const float*)) -> Step {
    return [=] {
      add(a->data(), b->data());
      return static_cast<double>(a->front());
    };
  };
  if (core::cpu::isa() == core::cpu::Isa::avx512) return step(add_avx512);
  if (core::cpu::isa() == core::cpu::Isa::avx2) return step(add_avx2);
#endif
  return {};
}

Step peak_roots(core::Device) {
#if defined(__x86_64__)
  if (core::cpu::isa() == core::cpu::Isa::avx512) return [] { return static_cast<double>(roots_avx512()); };
  if (core::cpu::isa() == core::cpu::Isa::avx2) return [] { return static_cast<double>(roots_avx2()); };
#endif
  return {};
}

Step peak(core::Device) {
#if defined(__x86_64__)
  if (core::cpu::isa() == core::cpu::Isa::avx512) return [] { return static_cast<double>(multiply_avx512()); };
  if (core::cpu::isa() == core::cpu::Isa::avx2) return [] { return static_cast<double>(multiply_avx2()); };
#endif
  return {};
}

/// What every operation does for its result, whatever the values: finding memory, saying sizes, letting go.
Step peak_result(core::Device d) {
  core::Backend& backend = core::backend_for(d);
  const core::Shape sizes{4};
  return [&backend, sizes] { return static_cast<double>(core::raw::make(sizes, core::DType::f32, backend).numel()); };
}

constexpr std::array kSteps = {
    StepKind{"peak", "3,145,728 f32 multiply-adds of values in registers", peak},
    StepKind{"memory", "reading 64 MiB and writing 32 MiB, beyond the second cache", memory},
    StepKind{"peak_roots", "6,928 f32 roots and as many quotients of values in registers", peak_roots},
    StepKind{"peak_result", "a tensor of four floats made and let go, no values", peak_result},
};

}  // namespace

StepTable peak_steps() {
  return kSteps;
}

}  // namespace bench
