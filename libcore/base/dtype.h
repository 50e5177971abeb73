#pragma once
// Element types of tensors: every type that a checkpoint can hold, by PyTorch's name and by width.
// Thread safety: pure functions. Use: core::bit_width(core::DType::bf16) == 16;

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>

namespace core {

/// Sub-byte types are listed as PyTorch counts them: one element of f4_e2m1fn_x2 is a byte that holds two values, one
/// element of quint4x2 is half a byte.
enum class DType : std::uint8_t {
  boolean,
  u8,
  i8,
  i16,
  i32,
  i64,
  u16,
  u32,
  u64,
  f16,
  bf16,
  f32,
  f64,
  c32,
  c64,
  c128,
  f8_e4m3fn,
  f8_e5m2,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f8_e8m0fnu,
  f6_e2m3,
  f6_e3m2,
  f4_e2m1fn_x2,
  qint8,
  quint8,
  qint32,
  quint4x2,
  quint2x4,
  bits8,
  bits16,
  bits1x8,
  bits2x4,
  bits4x2,
};

inline constexpr int kDTypeCount = static_cast<int>(DType::bits4x2) + 1;

/// PyTorch's name without "torch.": "float32", "bfloat16", "bool".
std::string_view name(DType dtype);
/// Short name used in tables and in Rust-like files: "f32", "bf16", "bool".
std::string_view short_name(DType dtype);
/// Accepts both names and the usual synonyms ("float", "half", "long", "torch.float32"), in any letter case.
std::optional<DType> try_parse_dtype(std::string_view text);
/// As above, or Error(usage) that names the text.
DType parse_dtype(std::string_view text);

/// Bits of one element, 2 to 128.
int bit_width(DType dtype);
/// Bytes of `count` elements, or nullopt when that is no whole number of bytes or overflows 64 bits.
std::optional<std::uint64_t> byte_size(DType dtype, std::uint64_t count);

/// True for f16 ... f64 and all narrower float types, false for complex.
bool is_floating(DType dtype);
bool is_complex(DType dtype);
/// True for signed and unsigned integers, not for bool and quantised types.
bool is_integer(DType dtype);
bool is_quantized(DType dtype);

/// "torch.float32".
std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace core
