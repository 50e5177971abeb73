#include "libcore/tensor/uninitialized.h"

namespace core {
namespace {

/// Where the memory of all of them begins; nothing is ever read or written there.
char nowhere;

}  // namespace

Tensor uninitialized(const TensorOptions& options) {
  Tensor made =
      from_blob(&nowhere, {0}, options.dtype.value_or(default_dtype()), options.device.value_or(default_device()));
  if (options.requires_grad) made.requires_grad_();
  return made;
}

bool is_uninitialized(const Tensor& tensor) {
  return tensor.defined() && tensor.numel() == 0 && tensor.storage().id() != nullptr &&
         tensor.storage().nbytes() == 0 && tensor.storage().data() == &nowhere;
}

Tensor uninitialized_like(const Tensor& tensor, Device device, DType dtype) {
  return uninitialized({.dtype = dtype, .device = device, .requires_grad = tensor.requires_grad()});
}

void materialize(const Tensor& tensor, const Shape& sizes) {
  tensor.set_data(empty(sizes, {.dtype = tensor.dtype(), .device = tensor.device()}));
}

}  // namespace core
