#include "libckpt/format/hdf5_write/hdf5_types.h"

namespace ckpt::detail {

using core::DType;

constexpr std::size_t kMaxHdf5Rank = 32;

bool is_raw_in_hdf5(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::u16:
    case DType::u32:
    case DType::u64:
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
    case DType::c64:
    case DType::c128:
    case DType::qint8:
    case DType::quint8:
    case DType::qint32:
      return false;
    default:
      return true;
  }
}

Hdf5Form hdf5_form(DType dtype, const core::Shape& shape) {
  Hdf5Form form;
  bool raw = is_raw_in_hdf5(dtype);
  // bfloat16 has its own geometry, but readers widen it: the attribute lets them narrow it again.
  form.named_dtype = raw || core::is_quantized(dtype) || dtype == DType::bf16;
  bool bytes_only = raw && core::bit_width(dtype) != 8;
  form.flattened = bytes_only || shape.size() > kMaxHdf5Rank;
  form.width = bytes_only ? 1 : static_cast<std::uint32_t>(core::bit_width(dtype)) / 8;
  if (form.flattened) {
    form.dims = {*core::byte_size(dtype, static_cast<std::uint64_t>(shape.numel())) / form.width};
    return form;
  }
  for (std::int64_t size : shape) form.dims.push_back(static_cast<std::uint64_t>(size));
  return form;
}

}  // namespace ckpt::detail
