#include "libcore/ops/detail/in_place.h"

#include <string>

#include "libcore/autograd/autograd_meta.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

Tensor with_history_of(const Tensor& t, Tensor copy) {
  if (const auto& node = t.grad_fn()) {
    AutogradMeta& meta = make_meta(copy);
    meta.grad_fn = node;
    meta.output_nr = t.output_nr();
    copy.impl()->requires_grad = true;
  }
  return copy;
}
Tensor snapshot(const Tensor& t) {
  return with_history_of(t, raw::clone(t));
}

void check_writable(const Tensor& self, bool with_history) {
  if (any_sparse(self)) throw_sparse();
  check_in_place(self, with_history);
  for (std::size_t d = 0; d < self.sizes().size(); ++d) {
    if (self.sizes()[d] < 2 || self.strides()[d] != 0) continue;
    throw Error(ErrorCode::runtime,
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation.");
  }
}

void check_overlap(const Tensor& self, const Tensor& other) {
  if (self.storage().id() != other.storage().id() || !self.is_contiguous() || !other.is_contiguous()) return;
  if (self.dtype() != other.dtype() || self.numel() == 0 || other.numel() == 0) return;
  const std::int64_t a = self.storage_offset(), b = other.storage_offset();
  if (a == b && self.numel() == other.numel()) return;
  if (a >= b + other.numel() || b >= a + self.numel()) return;
  throw Error(ErrorCode::runtime,
              "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
              "memory location. Please clone() the tensor before performing the operation.");
}

void write_result(const Tensor& self, const Tensor& result) {
  const bool loses_part = is_complex(result.dtype()) && !is_complex(self.dtype());
  const bool loses_fraction = loses_part || (is_inexact(result.dtype()) && !is_inexact(self.dtype()));
  const bool loses_number = result.dtype() != DType::boolean && self.dtype() == DType::boolean;
  if (loses_fraction || loses_number) {
    throw Error(ErrorCode::runtime, std::string("result type ") + scalar_type_name(result.dtype()) +
                                        " can't be cast to the desired output type " + scalar_type_name(self.dtype()));
  }
  if (result.sizes() != self.sizes()) {
    throw Error(ErrorCode::runtime, "output with shape " + to_list(self.sizes()) +
                                        " doesn't match the broadcast shape " + to_list(result.sizes()));
  }
  raw::copy_into(self, result);
}

}  // namespace core::detail
