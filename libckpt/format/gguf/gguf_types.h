#pragma once
// The element types of GGUF and the types of its metadata values.
// Thread safety: constants. Use: const GgmlType* type = find_ggml_type(id);

#include <cstdint>
#include <optional>
#include <string_view>

#include "libcore/base/dtype.h"

namespace ckpt::detail {

/// How values of a type are stored: `bytes` for every `elements` values of the innermost dimension.
struct GgmlType {
  std::uint32_t id;
  std::string_view name;
  std::uint32_t elements;
  std::uint32_t bytes;
  std::optional<core::DType> dtype;  ///< nullopt for blocks that only ggml can unpack
};

/// Null for numbers that ggml has removed or never had.
const GgmlType* find_ggml_type(std::uint32_t id);
const GgmlType* find_ggml_type(std::string_view name);
const GgmlType* find_ggml_type(core::DType dtype);

enum class GgufValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };
inline constexpr std::uint32_t kGgufValueTypes = 13;

/// Bytes of one value, 0 for text and arrays.
std::uint32_t value_size(GgufValueType type);
/// "UINT8", "STRING", as the specification calls them.
std::string_view value_type_name(GgufValueType type);

}  // namespace ckpt::detail
