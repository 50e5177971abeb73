#pragma once
// Tensors whose shape is not known yet, as torch.nn.parameter's UninitializedParameter and UninitializedBuffer: what a
// lazy module (module/lazy.h) holds until its first call. They have a dtype, a device and an identity, so that
// optimizers made before the first call hold the right objects; to operations they look like tensors without elements.
// Thread safety: as Tensor. Use: core::Tensor w = core::uninitialized({.dtype = core::DType::f32});
// core::materialize(w, {3, 5});

#include "libcore/tensor/factory.h"

namespace core {

/// Prints as "<UninitializedParameter>" where it asks for gradients, else as "<UninitializedBuffer>".
Tensor uninitialized(const TensorOptions& options = {});
bool is_uninitialized(const Tensor& tensor);
/// One like `tensor`, which is uninitialized.
Tensor uninitialized_like(const Tensor& tensor, Device device, DType dtype);
/// The tensor gets memory for `sizes`, without values. It stays the same object.
void materialize(const Tensor& tensor, const Shape& sizes);

}  // namespace core
