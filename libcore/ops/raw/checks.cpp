#include "libcore/ops/raw/checks.h"

#include <span>
#include <string>
#include <string_view>

#include "libcore/base/error.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/inline_vector.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
void throw_unsupported(std::string_view operation, const Backend& backend, DType dtype) {
  if (backend.has_memory()) {  // PyTorch's text for a kernel that lacks a dtype, and where, if not on the CPU
    throw Error(ErrorCode::not_implemented, "\"" + std::string(operation) + "\" not implemented for '" +
                                                scalar_type_name(dtype) + "'" +
                                                (backend.device().is_cpu() ? "" : " on " + backend.device().str()));
  }
  throw Error(ErrorCode::unsupported, std::string(operation) + ": not supported on " + backend.device().str() +
                                          " for " + std::string(name(dtype)));
}

Backend& common_backend(std::span<const Tensor* const> tensors) {
  // A 0-dim CPU tensor counts as a number and follows the others.
  auto may_mix = [](const Tensor& t) { return t.dim() == 0 && t.device().is_cpu(); };
  Backend* found = &backend_of(*tensors[0]);
  for (std::size_t i = tensors.size(); i-- > 0;) {
    if (!may_mix(*tensors[i])) found = &backend_of(*tensors[i]);
  }
  for (const Tensor* t : tensors) {
    if (&backend_of(*t) != found && !may_mix(*t))
      throw Error(ErrorCode::runtime, mixed_device_text(*found, backend_of(*t)));
  }
  return *found;
}

std::string mixed_device_text(const Backend& first, const Backend& second) {
  if (first.is_sparse() || second.is_sparse()) {
    return "Could not run this operation with arguments from the 'SparseCPU' backend; use to_dense()";
  }
  if (first.device().is_meta() || second.device().is_meta()) {
    return "Tensor on device " + second.device().str() + " is not on the expected device " + first.device().str() + "!";
  }
  return "Expected all tensors to be on the same device, but found at least two devices, " + first.device().str() +
         " and " + second.device().str() + "!";
}

std::int64_t wrap_dim(std::int64_t dim, std::int64_t rank) {
  std::int64_t limit = rank == 0 ? 1 : rank;
  if (dim < -limit || dim >= limit) {
    throw Error(ErrorCode::index, "Dimension out of range (expected to be in range of [" + std::to_string(-limit) +
                                      ", " + std::to_string(limit - 1) + "], but got " + std::to_string(dim) + ")");
  }
  return dim < 0 ? dim + limit : dim;
}

InlineVector<bool, 8> reduced_dims(const Shape& dims, std::int64_t rank) {
  InlineVector<bool, 8> reduced(static_cast<std::size_t>(rank == 0 ? 1 : rank));
  for (bool& flag : reduced) flag = dims.empty();
  for (std::int64_t dim : dims) {
    auto d = static_cast<std::size_t>(wrap_dim(dim, rank));
    if (reduced[d]) {
      throw Error(ErrorCode::runtime, "dim " + std::to_string(d) + " appears multiple times in the list of dims");
    }
    reduced[d] = true;
  }
  return reduced;
}

}  // namespace core::raw
