// Box-Muller over blocks of 16. In f32 the logarithm, sine and cosine are the single-precision Cephes polynomials, with
// fused multiply-adds in fixed places: results are the same on every machine and with every compiler setting.
// Source: S. Moshier, Cephes mathematical library (logf.c, sinf.c, cosf.c).
#include "libcore/backend/cpu/random/normal_blocks.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "libcore/backend/cpu/isa.h"

namespace core::cpu {
namespace {

constexpr int kHalf = 8;

/// Natural logarithm of a normal number in (0, 1].
[[gnu::always_inline]] inline float cephes_log(float x) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  auto exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 126);
  float m = std::bit_cast<float>((bits & 0x807fffffU) | 0x3f000000U);  // [0.5, 1)
  bool small = m < 0.707106781186547524F;
  float e = small ? exponent - 1.0F : exponent;
  float r = (m - 1.0F) + (small ? m : 0.0F);
  float z = r * r;
  float y = 7.0376836292E-2F;
  y = std::fma(y, r, -1.1514610310E-1F);
  y = std::fma(y, r, 1.1676998740E-1F);
  y = std::fma(y, r, -1.2420140846E-1F);
  y = std::fma(y, r, 1.4249322787E-1F);
  y = std::fma(y, r, -1.6668057665E-1F);
  y = std::fma(y, r, 2.0000714765E-1F);
  y = std::fma(y, r, -2.4999993993E-1F);
  y = std::fma(y, r, 3.3333331174E-1F);
  y = y * r;
  y = std::fma(y, z, e * -2.12194440e-4F);
  y = std::fma(z, -0.5F, y);
  return std::fma(e, 0.693359375F, r + y);
}

struct SinCos {
  float sin;
  float cos;
};

/// Sine and cosine of x in [0, 2 pi).
[[gnu::always_inline]] inline SinCos cephes_sincos(float x) {
  auto octant = static_cast<std::int32_t>(x * 1.27323954473516F);
  octant = (octant + 1) & ~1;
  auto j = static_cast<float>(octant);
  float r = std::fma(j, -0.78515625F, x);
  r = std::fma(j, -2.4187564849853515625e-4F, r);
  r = std::fma(j, -3.77489497744594108e-8F, r);
  float z = r * r;
  float c = 2.443315711809948E-005F;
  c = std::fma(c, z, -1.388731625493765E-003F);
  c = std::fma(c, z, 4.166664568298827E-002F);
  c = c * z;
  c = std::fma(c, z, -(z * 0.5F)) + 1.0F;
  float s = -1.9515295891E-4F;
  s = std::fma(s, z, 8.3321608736E-3F);
  s = std::fma(s, z, -1.6666654611E-1F);
  s = s * z;
  s = std::fma(s, r, r);
  bool swapped = (octant & 2) != 0;
  float sin = swapped ? c : s;
  float cos = swapped ? s : c;
  return {(octant & 4) != 0 ? -sin : sin, ((octant - 2) & 4) == 0 ? -cos : cos};
}

[[gnu::always_inline]] inline void blocks_f32(float* data, std::int64_t count, float mean, float std) {
  constexpr float kTwoPi = 2.0F * std::numbers::pi_v<float>;
  for (std::int64_t at = 0; at < count; at += 2 * kHalf) {
    float* block = data + at;
    for (int i = 0; i < kHalf; ++i) {
      float radius = std::sqrt(-2.0F * cephes_log(1.0F - block[i]));
      SinCos angle = cephes_sincos(kTwoPi * block[i + kHalf]);
      block[i] = std::fma(radius * angle.cos, std, mean);
      block[i + kHalf] = std::fma(radius * angle.sin, std, mean);
    }
  }
}

#if defined(__x86_64__)
/// The same arithmetic where the processor has fused multiply-add as an instruction.
[[gnu::target("avx2,fma")]] void blocks_f32_fma(float* data, std::int64_t count, float mean, float std) {
  blocks_f32(data, count, mean, std);
}
#endif

}  // namespace

void normal_blocks(float* data, std::int64_t count, NormalShape shape) {
  auto mean = static_cast<float>(shape.mean);
  auto std = static_cast<float>(shape.std);
#if defined(__x86_64__)
  if (isa() >= Isa::avx2) return blocks_f32_fma(data, count, mean, std);
#endif
  blocks_f32(data, count, mean, std);
}

void normal_blocks(double* data, std::int64_t count, NormalShape shape) {
  for (std::int64_t at = 0; at < count; at += 2 * kHalf) {
    double* block = data + at;
    for (int i = 0; i < kHalf; ++i) {
      double radius = std::sqrt(-2.0 * std::log(1.0 - block[i]));
      double theta = 2.0 * std::numbers::pi * block[i + kHalf];
      block[i] = std::fma(radius * std::cos(theta), shape.std, shape.mean);
      block[i + kHalf] = std::fma(radius * std::sin(theta), shape.std, shape.mean);
    }
  }
}

}  // namespace core::cpu
