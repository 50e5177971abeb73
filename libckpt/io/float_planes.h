#pragma once
// The codec "fast": floats in a form that is unpacked about as fast as it could be copied. FORMAT_NATIVE.md specifies
// it. Exponents that lie within eight values take three bits, others are listed; all else stands as it is. Thread
// safety: pure functions. Use: ByteVector packed = pack_floats(bytes, FloatKind::bf16);
// unpack_floats(packed, FloatKind::bf16, out);

#include <cstdint>

#include "libcore/base/bytes.h"

namespace ckpt {

/// The numbers are those of the dtypes in native files.
enum class FloatKind : std::uint8_t { none = 0, f16 = 9, bf16 = 10, f32 = 11 };

/// Bytes of one float. REQUIRES, here and below: a kind other than none.
std::uint32_t float_width(FloatKind kind);

/// Every processor makes the same bytes of the same floats. Where they would not become fewer they stand as they are.
/// REQUIRES: whole floats.
core::ByteVector pack_floats(core::Bytes floats, FloatKind kind);

/// The most bytes that pack_floats() makes of `size`.
std::uint64_t packed_floats_bound(std::uint64_t size);

/// Fills `out`. Error(corrupt) for bytes that are not so many floats packed by pack_floats().
void unpack_floats(core::Bytes packed, FloatKind kind, core::MutableBytes out);

}  // namespace ckpt
