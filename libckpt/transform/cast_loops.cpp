#include "libckpt/transform/cast_loops.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "libcore/backend/cpu/isa.h"
#include "libcore/base/bytes.h"
#include "libcore/base/error.h"
#include "libcore/base/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ckpt::detail {
namespace {

using core::DType;

template <class To, class From>
[[gnu::always_inline]] inline To bits_as(From value) {
  return __builtin_bit_cast(To, value);
}

/// An 8-bit float type as numbers. Codes above `max_code` (without sign) are an overflow and become `overflow`.
struct Narrow {
  int mantissa;
  int bias;
  std::uint32_t max_code;
  std::uint32_t overflow;
  std::uint32_t nan;
  bool unsigned_zero;  ///< "fnuz": no negative zero, and the sign does not go with a NaN
};
constexpr Narrow kE4m3fn{3, 7, 0x7e, 0x7e, 0x7f, false};  // saturates
constexpr Narrow kE5m2{2, 15, 0x7b, 0x7c, 0x7f, false};
constexpr Narrow kE4m3fnuz{3, 8, 0x7f, 0x80, 0x80, true};
constexpr Narrow kE5m2fnuz{2, 16, 0x7f, 0x80, 0x80, true};
constexpr Narrow kF16{10, 15, 0x7bff, 0x7c00, 0x7e00, false};

/// Round to nearest even without a branch. Subnormal results come from adding a power of two whose last mantissa bit
/// is the smallest step of the type, so that the processor rounds.
template <Narrow kType, int kWidth>
[[gnu::always_inline]] inline std::uint32_t narrow(float value) {
  constexpr int kDrop = 23 - kType.mantissa;
  constexpr std::uint32_t kMagic = static_cast<std::uint32_t>(127 - kType.bias + kDrop + 1) << 23;
  constexpr std::uint32_t kMinNormal = static_cast<std::uint32_t>(127 - kType.bias + 1) << 23;
  auto bits = bits_as<std::uint32_t>(value);
  std::uint32_t sign = (bits >> 31) << (kWidth - 1);
  std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t small = bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(kMagic)) - kMagic;
  std::uint32_t odd = (magnitude >> kDrop) & 1U;
  std::uint32_t large =
      (magnitude + ((1U << (kDrop - 1)) - 1) + odd - (static_cast<std::uint32_t>(127 - kType.bias) << 23)) >> kDrop;
  std::uint32_t code = magnitude < kMinNormal ? small : large;
  code = code > kType.max_code || magnitude >= 0x7f800000U ? kType.overflow : code;
  std::uint32_t nan = kWidth == 16 ? kType.nan | (magnitude >> kDrop & 0x1ffU) : kType.nan;  // F16C keeps the payload
  code = magnitude > 0x7f800000U ? nan : code;
  if (kType.unsigned_zero) return code == 0 || code == kType.nan ? code : code | sign;
  return code | sign;
}

/// Powers of two: the mantissa rounds up from one half, as PyTorch does; the sign is lost.
[[gnu::always_inline]] inline std::uint8_t to_e8m0(float value) {
  auto bits = bits_as<std::uint32_t>(value);
  std::uint32_t exponent = (bits >> 23) & 0xffU;
  bool up = (bits & 0x400000U) != 0 && (exponent > 0 || (bits & 0x3fffffU) != 0);
  return static_cast<std::uint8_t>(exponent == 0xff ? 0xffU : exponent + (up ? 1U : 0U));
}

/// As the processor converts: everything outside becomes the smallest value.
template <class Int, class Float>
[[gnu::always_inline]] inline Int truncated(Float value) {
  constexpr auto kEdge = static_cast<Float>(sizeof(Int) == 4 ? 2147483648.0 : 9223372036854775808.0);
  bool inside = value >= -kEdge && value < kEdge;
  return inside ? static_cast<Int>(value) : std::numeric_limits<Int>::min();
}

template <class Float>
std::uint64_t to_u64(Float value) {
  constexpr auto kEdge = static_cast<Float>(9223372036854775808.0);
  if (!(value >= kEdge)) return static_cast<std::uint64_t>(truncated<std::int64_t>(value));
  return static_cast<std::uint64_t>(truncated<std::int64_t>(value - kEdge)) ^ (std::uint64_t{1} << 63);
}

template <class Int, class WideT>
[[gnu::always_inline]] inline Int to_integer(WideT value) {
  if constexpr (std::is_integral_v<WideT>)
    return static_cast<Int>(value);
  else if constexpr (std::is_same_v<Int, std::uint64_t>)
    return to_u64(value);
  else if constexpr (std::is_same_v<Int, std::int64_t> || std::is_same_v<Int, std::uint32_t>)
    return static_cast<Int>(truncated<std::int64_t>(value));
  else
    return static_cast<Int>(truncated<std::int32_t>(value));
}

std::array<float, 256> make_table(DType dtype) {
  std::array<float, 256> table{};
  for (int code = 0; code < 256; ++code) table[code] = core::f8_to_f32(dtype, static_cast<std::uint8_t>(code));
  return table;
}

template <DType kType>
const std::array<float, 256>& table() {
  static const std::array<float, 256> values = make_table(kType);
  return values;
}

[[gnu::always_inline]] inline float from_f16(std::uint16_t half) {
  // The exponent is shifted into place; a multiplication by a power of two then corrects its bias, subnormals included.
  constexpr std::uint32_t kScale = (127 + 112U) << 23;
  std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffU) << 13;
  auto scaled = bits_as<std::uint32_t>(bits_as<float>(magnitude) * bits_as<float>(kScale));
  std::uint32_t quiet = (half & 0x3ffU) != 0 ? 0x400000U : 0U;
  std::uint32_t special = magnitude | 0x7f800000U | quiet;
  std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  return bits_as<float>(((half & 0x7c00U) == 0x7c00U ? special : scaled) | sign);
}

/// How values of a stored type lie in memory and what they are as numbers.
template <DType kType>
struct Stored;  // kWide: can also be stored from f64 and i64 (narrow floats are always rounded from f32)
template <class T>
struct Plain {
  using Raw = T;
  static constexpr bool kWide = true;
  static T read(T raw) { return raw; }
};
template <>
struct Stored<DType::boolean> {
  using Raw = std::uint8_t;
  static constexpr bool kWide = true;
  static std::int64_t read(Raw raw) { return raw != 0 ? 1 : 0; }
  template <class W>
  static Raw write(W value) {
    return value != W{0} ? 1 : 0;
  }
};
template <class T>
struct Integer : Plain<T> {
  template <class W>
  [[gnu::always_inline]] static T write(W value) {
    return to_integer<T>(value);
  }
};
template <class T>
struct Real : Plain<T> {
  template <class W>
  [[gnu::always_inline]] static T write(W value) {
    return static_cast<T>(value);
  }
};
template <>
struct Stored<DType::u8> : Integer<std::uint8_t> {};
template <>
struct Stored<DType::i8> : Integer<std::int8_t> {};
template <>
struct Stored<DType::i16> : Integer<std::int16_t> {};
template <>
struct Stored<DType::i32> : Integer<std::int32_t> {};
template <>
struct Stored<DType::i64> : Integer<std::int64_t> {};
template <>
struct Stored<DType::u16> : Integer<std::uint16_t> {};
template <>
struct Stored<DType::u32> : Integer<std::uint32_t> {};
template <>
struct Stored<DType::u64> : Integer<std::uint64_t> {};
template <>
struct Stored<DType::f32> : Real<float> {};
template <>
struct Stored<DType::f64> : Real<double> {};
template <>
struct Stored<DType::f16> {
  using Raw = std::uint16_t;
  static constexpr bool kWide = false;
  [[gnu::always_inline]] static float read(Raw raw) { return from_f16(raw); }
  [[gnu::always_inline]] static Raw write(float value) { return static_cast<Raw>(narrow<kF16, 16>(value)); }
};
template <>
struct Stored<DType::bf16> {
  using Raw = std::uint16_t;
  static constexpr bool kWide = false;
  [[gnu::always_inline]] static float read(Raw raw) { return bits_as<float>(static_cast<std::uint32_t>(raw) << 16); }
  [[gnu::always_inline]] static Raw write(float value) {
    auto bits = bits_as<std::uint32_t>(value);
    auto rounded = static_cast<Raw>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    return (bits & 0x7fffffffU) > 0x7f800000U ? Raw{0x7fc0} : rounded;
  }
};
template <DType kType, Narrow kNarrow>
struct Float8 {
  using Raw = std::uint8_t;
  static constexpr bool kWide = false;
  static float read(Raw raw) { return table<kType>()[raw]; }
  [[gnu::always_inline]] static Raw write(float value) { return static_cast<Raw>(narrow<kNarrow, 8>(value)); }
};
template <>
struct Stored<DType::f8_e4m3fn> : Float8<DType::f8_e4m3fn, kE4m3fn> {};
template <>
struct Stored<DType::f8_e5m2> : Float8<DType::f8_e5m2, kE5m2> {};
template <>
struct Stored<DType::f8_e4m3fnuz> : Float8<DType::f8_e4m3fnuz, kE4m3fnuz> {};
template <>
struct Stored<DType::f8_e5m2fnuz> : Float8<DType::f8_e5m2fnuz, kE5m2fnuz> {};
template <>
struct Stored<DType::f8_e8m0fnu> {
  using Raw = std::uint8_t;
  static constexpr bool kWide = false;
  static float read(Raw raw) { return table<DType::f8_e8m0fnu>()[raw]; }
  [[gnu::always_inline]] static Raw write(float value) { return to_e8m0(value); }
};

template <class S, class WideT>
[[gnu::always_inline]] inline void load_loop(const std::byte* in, std::byte* out, std::size_t count) {
  using Raw = typename S::Raw;
  for (std::size_t i = 0; i < count; ++i) {
    auto value = static_cast<WideT>(S::read(core::load_le<Raw>(in + i * sizeof(Raw))));
    core::store_le(out + i * sizeof(WideT), value);
  }
}

template <class S, class WideT>
[[gnu::always_inline]] inline void store_loop(const std::byte* in, std::byte* out, std::size_t count) {
  using Raw = typename S::Raw;
  for (std::size_t i = 0; i < count; ++i) {
    Raw raw = S::write(core::load_le<WideT>(in + i * sizeof(WideT)));
    core::store_le(out + i * sizeof(Raw), raw);
  }
}

template <class S, class WideT>
void load_plain(const std::byte* in, std::byte* out, std::size_t count) {
  load_loop<S, WideT>(in, out, count);
}
template <class S, class WideT>
void store_plain(const std::byte* in, std::byte* out, std::size_t count) {
  store_loop<S, WideT>(in, out, count);
}

#if defined(__x86_64__)
template <class S, class WideT>
[[gnu::target("avx2")]] void load_avx2(const std::byte* in, std::byte* out, std::size_t count) {
  load_loop<S, WideT>(in, out, count);
}
template <class S, class WideT>
[[gnu::target("avx2")]] void store_avx2(const std::byte* in, std::byte* out, std::size_t count) {
  store_loop<S, WideT>(in, out, count);
}
bool has_avx2() {
  return core::cpu::isa() >= core::cpu::Isa::avx2;
}

template <class S, class WideT>
CastLoop pick_load() {
  return has_avx2() ? &load_avx2<S, WideT> : &load_plain<S, WideT>;
}
template <class S, class WideT>
CastLoop pick_store() {
  return has_avx2() ? &store_avx2<S, WideT> : &store_plain<S, WideT>;
}
#else
template <class S, class WideT>
CastLoop pick_load() {
  return &load_plain<S, WideT>;
}
template <class S, class WideT>
CastLoop pick_store() {
  return &store_plain<S, WideT>;
}
#endif

template <DType kType>
CastLoop load_of(Wide wide) {
  using S = Stored<kType>;
  if (wide == Wide::f32) return pick_load<S, float>();
  if (wide == Wide::f64) return pick_load<S, double>();
  if constexpr (std::is_integral_v<decltype(S::read({}))>) return pick_load<S, std::int64_t>();
  return nullptr;
}

template <DType kType>
CastLoop store_of(Wide wide) {
  using S = Stored<kType>;
  if (wide == Wide::f32) return pick_store<S, float>();
  if constexpr (S::kWide) {
    if (wide == Wide::f64) return pick_store<S, double>();
    return pick_store<S, std::int64_t>();
  }
  return nullptr;
}

struct Row {
  DType dtype;
  CastLoop (*load)(Wide);
  CastLoop (*store)(Wide);
};
template <DType kType>
constexpr Row kRow{kType, load_of<kType>, store_of<kType>};

constexpr std::array kRows = {
    kRow<DType::boolean>,     kRow<DType::u8>,         kRow<DType::i8>,      kRow<DType::i16>,
    kRow<DType::i32>,         kRow<DType::i64>,        kRow<DType::u16>,     kRow<DType::u32>,
    kRow<DType::u64>,         kRow<DType::f16>,        kRow<DType::bf16>,    kRow<DType::f32>,
    kRow<DType::f64>,         kRow<DType::f8_e4m3fn>,  kRow<DType::f8_e5m2>, kRow<DType::f8_e4m3fnuz>,
    kRow<DType::f8_e5m2fnuz>, kRow<DType::f8_e8m0fnu>,
};

const Row& row_of(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  throw core::Error(core::ErrorCode::internal, "a cast was asked for a type without loops");
}

CastLoop present(CastLoop loop) {
  if (loop == nullptr) throw core::Error(core::ErrorCode::internal, "a cast was asked for a loop that does not exist");
  return loop;
}

}  // namespace

CastLoop loader(DType dtype, Wide wide) {
  return present(row_of(dtype).load(wide));
}

CastLoop storer(DType dtype, Wide wide) {
  return present(row_of(dtype).store(wide));
}

}  // namespace ckpt::detail
