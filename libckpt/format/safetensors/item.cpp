#include "libckpt/format/safetensors/item.h"

#include <algorithm>
#include <array>
#include <string>

#include "libckpt/format/corrupt.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

struct TypeName {
  std::string_view name;
  DType dtype;
};

/// In the order of the reference library.
constexpr std::array kTypes = {
    TypeName{"BOOL", DType::boolean},
    TypeName{"F4", DType::f4_e2m1fn_x2},
    TypeName{"F6_E2M3", DType::f6_e2m3},
    TypeName{"F6_E3M2", DType::f6_e3m2},
    TypeName{"U8", DType::u8},
    TypeName{"I8", DType::i8},
    TypeName{"F8_E5M2", DType::f8_e5m2},
    TypeName{"F8_E4M3", DType::f8_e4m3fn},
    TypeName{"F8_E8M0", DType::f8_e8m0fnu},
    TypeName{"F8_E4M3FNUZ", DType::f8_e4m3fnuz},
    TypeName{"F8_E5M2FNUZ", DType::f8_e5m2fnuz},
    TypeName{"I16", DType::i16},
    TypeName{"U16", DType::u16},
    TypeName{"F16", DType::f16},
    TypeName{"BF16", DType::bf16},
    TypeName{"I32", DType::i32},
    TypeName{"U32", DType::u32},
    TypeName{"F32", DType::f32},
    TypeName{"C64", DType::c64},
    TypeName{"F64", DType::f64},
    TypeName{"I64", DType::i64},
    TypeName{"U64", DType::u64},
};

/// Bytes that dtype and shape ask for; F4 sizes count values, everything else elements.
std::uint64_t expected_bytes(DType dtype, const core::Shape& shape) {
  std::optional<std::uint64_t> numel = core::try_numel(shape.span());
  if (!numel) corrupt("its shape " + core::to_list(shape) + " overflows");
  auto width = static_cast<std::uint64_t>(dtype == DType::f4_e2m1fn_x2 ? 4 : core::bit_width(dtype));
  std::optional<std::uint64_t> bits = core::try_mul(*numel, width);
  if (!bits) corrupt("its shape " + core::to_list(shape) + " overflows");
  if (*bits % 8 != 0) corrupt("its values do not end on a byte");
  return *bits / 8;
}

void count_f4_pairs(SafetensorsItem& item) {
  if (item.shape.empty() || item.shape.back() % 2 != 0) {
    throw Error(ErrorCode::unsupported, "its last dimension holds an odd number of F4 values");
  }
  item.shape.data()[item.shape.size() - 1] /= 2;
}

}  // namespace

std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const TypeName& type : kTypes) {
    if (type.name == name) return type.dtype;
  }
  return std::nullopt;
}

void require_sound(SafetensorsItem& item) {
  if (item.end < item.begin) corrupt("its data end before they begin");
  std::uint64_t expected = expected_bytes(item.dtype, item.shape);
  if (item.end - item.begin != expected) {
    corrupt("its data are " + core::format_count(item.end - item.begin) + " bytes long where shape and dtype need " +
            core::format_count(expected));
  }
  if (item.dtype == DType::f4_e2m1fn_x2) count_f4_pairs(item);
}

std::string_view safetensors_name(DType dtype) {
  int rank = safetensors_rank(dtype);
  return rank < 0 ? std::string_view() : kTypes[static_cast<std::size_t>(rank)].name;
}

int safetensors_rank(DType dtype) {
  auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& type) { return type.dtype == dtype; });
  return found == kTypes.end() ? -1 : static_cast<int>(found - kTypes.begin());
}

}  // namespace ckpt::detail
