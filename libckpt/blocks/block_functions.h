#pragma once
// One function a block type, and how they read a block. Internal to the table of block codecs.
// Thread safety: pure functions. Use: the rows in block_codec.cpp.

#include <cstdint>

#include "libcore/base/bytes.h"
#include "libcore/base/half.h"

namespace ckpt::detail {

/// A number of a block, little-endian.
template <class T>
T number_at(const std::byte* block, std::size_t at) {
  return core::load_le<T>(block + at);
}

/// A scale, which blocks store as a 16-bit float.
inline float half_at(const std::byte* block, std::size_t at) {
  return core::f16_to_f32(number_at<std::uint16_t>(block, at));
}

/// `count` bits of byte `at`, from bit `shift` up.
inline int bits_at(const std::byte* block, std::size_t at, unsigned shift, unsigned count) {
  return (std::to_integer<int>(block[at]) >> shift) & ((1 << count) - 1);
}

// 32, 64 or 128 values.
void unpack_q4_0(const std::byte* block, float* values);
void unpack_q4_1(const std::byte* block, float* values);
void unpack_q5_0(const std::byte* block, float* values);
void unpack_q5_1(const std::byte* block, float* values);
void unpack_q8_0(const std::byte* block, float* values);
void unpack_q8_1(const std::byte* block, float* values);
void unpack_iq4_nl(const std::byte* block, float* values);
void unpack_mxfp4(const std::byte* block, float* values);
void unpack_nvfp4(const std::byte* block, float* values);
void unpack_q1_0(const std::byte* block, float* values);
void unpack_q2_0(const std::byte* block, float* values);
void pack_q4_0(const float* values, std::byte* block);
void pack_q4_1(const float* values, std::byte* block);
void pack_q5_0(const float* values, std::byte* block);
void pack_q5_1(const float* values, std::byte* block);
void pack_q8_0(const float* values, std::byte* block);

// 256 values with scales of their parts.
void unpack_q2_k(const std::byte* block, float* values);
void unpack_q3_k(const std::byte* block, float* values);
void unpack_q4_k(const std::byte* block, float* values);
void unpack_q5_k(const std::byte* block, float* values);
void unpack_q6_k(const std::byte* block, float* values);
void unpack_q8_k(const std::byte* block, float* values);
void unpack_tq1_0(const std::byte* block, float* values);
void unpack_tq2_0(const std::byte* block, float* values);
void unpack_iq4_xs(const std::byte* block, float* values);
void pack_q2_k(const float* values, std::byte* block);
void pack_q3_k(const float* values, std::byte* block);
void pack_q4_k(const float* values, std::byte* block);
void pack_q5_k(const float* values, std::byte* block);
void pack_q6_k(const float* values, std::byte* block);

// 256 values that are points of a grid.
void unpack_iq1_s(const std::byte* block, float* values);
void unpack_iq1_m(const std::byte* block, float* values);
void unpack_iq2_xxs(const std::byte* block, float* values);
void unpack_iq2_xs(const std::byte* block, float* values);
void unpack_iq2_s(const std::byte* block, float* values);
void unpack_iq3_xxs(const std::byte* block, float* values);
void unpack_iq3_s(const std::byte* block, float* values);

/// The sixteen values of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t kUnevenSteps[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                 1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace ckpt::detail
