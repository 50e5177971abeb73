#pragma once
// Groups of 32 floats taken apart and put together, the inner loops of float_planes.cpp. A float turned left by one bit
// has its exponent on top and its sign at the end. A group is words of 32 bits, bit i of which belongs to float i:
// three for the codes, the lower bits of exponent minus base, and for f16 three more for the bits below the exponent;
// and the bytes below the highest one as they are: `low` (8 bits; of f32 16) and, of f32, `middle` (8 bits). Thread
// safety: pure functions. Use: float_groups<Bf16>().unpack(parts, n, base, out.data());

#include <bit>
#include <cstdint>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

inline constexpr std::size_t kGroup = 32;

/// How floats of one type are taken apart.
template <class RawT, unsigned kExponent>
struct FloatLayout {
  using Raw = RawT;
  static constexpr unsigned kBits = 8 * sizeof(Raw);
  static constexpr unsigned kExponentBits = kExponent;
  static constexpr unsigned kBelow = 8 - kExponent;  ///< bits of the highest byte that are no exponent
  static constexpr std::size_t kWidth = sizeof(Raw);
  static constexpr std::size_t kWords = kBelow > 0 ? 6 : 3;
  static constexpr std::size_t kGroupBytes = 4 * kWords;
  static constexpr std::size_t kLow = sizeof(Raw) == 4 ? 2 : 1;     ///< bytes a float
  static constexpr std::size_t kMiddle = sizeof(Raw) == 4 ? 1 : 0;  ///< bytes a float

  static Raw turned(const std::byte* floats, std::size_t i) {
    return std::rotl(core::load_le<Raw>(floats + i * kWidth), 1);
  }
  static void put_turned(std::byte* floats, std::size_t i, Raw value) {
    core::store_le<Raw>(floats + i * kWidth, std::rotr(value, 1));
  }
  static std::uint8_t exponent(const std::byte* floats, std::size_t i) {
    return static_cast<std::uint8_t>(turned(floats, i) >> (kBits - kExponent));
  }
  static void set_exponent(std::byte* floats, std::size_t i, std::uint8_t exponent) {
    constexpr Raw kRest = static_cast<Raw>(~Raw{0}) >> kExponent;
    Raw top = static_cast<Raw>(static_cast<Raw>(exponent) << (kBits - kExponent));
    put_turned(floats, i, static_cast<Raw>((turned(floats, i) & kRest) | top));
  }
};
using F16 = FloatLayout<std::uint16_t, 5>;
using Bf16 = FloatLayout<std::uint16_t, 8>;
using F32 = FloatLayout<std::uint32_t, 8>;

struct GroupParts {
  const std::byte* floats;
  std::byte* words;
  std::byte* low;
  std::byte* middle;
};
struct ConstGroupParts {
  const std::byte* words;
  const std::byte* low;
  const std::byte* middle;
};

struct FloatGroups {
  /// `escapes[g]`: bit i is set where float i of group g has an exponent without a code.
  void (*pack)(const GroupParts& parts, std::size_t groups, std::uint8_t base, std::uint32_t* escapes);
  void (*unpack)(const ConstGroupParts& parts, std::size_t groups, std::uint8_t base, std::byte* floats);
};

/// What runs fastest on this processor; the bits are the same everywhere.
template <class Layout>
const FloatGroups& float_groups();

}  // namespace ckpt::detail
