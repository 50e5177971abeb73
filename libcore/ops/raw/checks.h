#pragma once
// Checks that operations share, with PyTorch's texts. Thread safety: pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "libcore/backend/backend.h"
#include "libcore/tensor/inline_vector.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

/// Halves are computed in f32 and rounded once at the end.
inline DType compute_dtype(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

/// dim in [-rank, rank) -> [0, rank); a 0-dim tensor counts as rank 1. Error(index) "Dimension out of range ...".
std::int64_t wrap_dim(std::int64_t dim, std::int64_t rank);

/// Flags of the reduced dimensions. Error "dim 0 appears multiple times in the list of dims".
InlineVector<bool, 8> reduced_dims(const Shape& dims, std::int64_t rank);

/// Error(runtime) "Expected all tensors to be on the same device, ..." unless a 0-dim CPU tensor may mix.
Backend& common_backend(std::span<const Tensor* const> tensors);
std::string mixed_device_text(const Backend& first, const Backend& second);
[[noreturn]] void throw_unsupported(std::string_view operation, const Backend& backend, DType dtype);

}  // namespace core::raw
