#pragma once
// The arithmetic of Winograd's convolution along one axis. The points of a tile of four are 0, +-5/8, +-3/2 and
// infinity: in single precision the error is less than half of that of 0, +-1, +-2 and infinity.
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"; the matrices follow from the points by
// Lagrange's interpolation.
// Thread safety: pure functions. Use: Floats x[6]; Points<4>::transform_input(x); ... Points<4>::transform_output(sums,
// outputs);

#include "libcore/backend/cpu/vector.h"

namespace core::cpu::CORE_CPU_VARIANT::winograd {

template <int kTile>
struct Points;

template <>
struct Points<4> {
  static constexpr double kNear = 0.625, kFar = 1.5;
  static constexpr double kNear2 = kNear * kNear, kFar2 = kFar * kFar;
  /// Three taps at the positions.
  static constexpr double kTaps[6][3] = {
      {1 / (kNear2 * kFar2), 0, 0},
      {1 / (2 * kNear2 * (kNear2 - kFar2)), kNear / (2 * kNear2 * (kNear2 - kFar2)), 1 / (2 * (kNear2 - kFar2))},
      {1 / (2 * kNear2 * (kNear2 - kFar2)), -kNear / (2 * kNear2 * (kNear2 - kFar2)), 1 / (2 * (kNear2 - kFar2))},
      {1 / (2 * kFar2 * (kFar2 - kNear2)), kFar / (2 * kFar2 * (kFar2 - kNear2)), 1 / (2 * (kFar2 - kNear2))},
      {1 / (2 * kFar2 * (kFar2 - kNear2)), -kFar / (2 * kFar2 * (kFar2 - kNear2)), 1 / (2 * (kFar2 - kNear2))},
      {0, 0, 1}};

  /// Six pixels become positions.
  CORE_INLINE static void transform_input(Floats (&d)[6]) {
    constexpr auto kN2 = static_cast<float>(kNear2), kF2 = static_cast<float>(kFar2);
    constexpr auto kN = static_cast<float>(kNear), kF = static_cast<float>(kFar);
    const Floats first = (d[4] - d[2] * (kN2 + kF2)) + d[0] * (kN2 * kF2);
    const Floats last = (d[5] - d[3] * (kN2 + kF2)) + d[1] * (kN2 * kF2);
    const Floats near_even = d[4] - d[2] * kF2, near_odd = d[3] - d[1] * kF2;
    const Floats far_even = d[4] - d[2] * kN2, far_odd = d[3] - d[1] * kN2;
    d[0] = first;
    d[1] = near_even + near_odd * kN;
    d[2] = near_even - near_odd * kN;
    d[3] = far_even + far_odd * kF;
    d[4] = far_even - far_odd * kF;
    d[5] = last;
  }

  /// Positions become four outputs.
  CORE_INLINE static void transform_output(const Floats (&m)[6], Floats (&y)[4]) {
    constexpr auto kN2 = static_cast<float>(kNear2), kF2 = static_cast<float>(kFar2);
    constexpr auto kN = static_cast<float>(kNear), kF = static_cast<float>(kFar);
    const Floats near_sum = m[1] + m[2], near_difference = m[1] - m[2];
    const Floats far_sum = m[3] + m[4], far_difference = m[3] - m[4];
    y[0] = m[0] + near_sum + far_sum;
    y[1] = near_difference * kN + far_difference * kF;
    y[2] = near_sum * kN2 + far_sum * kF2;
    y[3] = (m[5] + near_difference * (kN * kN2)) + far_difference * (kF * kF2);
  }
};

/// The points 0, +-1 and infinity.
template <>
struct Points<2> {
  static constexpr double kTaps[4][3] = {{-1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

  CORE_INLINE static void transform_input(Floats (&d)[4]) {
    const Floats first = d[2] - d[0], last = d[3] - d[1];
    const Floats sum = d[2] + d[1], difference = d[2] - d[1];
    d[0] = first, d[1] = sum, d[2] = difference, d[3] = last;
  }

  CORE_INLINE static void transform_output(const Floats (&m)[4], Floats (&y)[2]) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] + m[3];
  }
};

}  // namespace core::cpu::CORE_CPU_VARIANT::winograd
