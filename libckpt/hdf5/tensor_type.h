#pragma once
// What a dataset is as a tensor: HDF5 lacks types that checkpoints have, so attributes may say more than the type.
// Thread safety: pure functions. Use: Hdf5TensorType type = hdf5_tensor_type(dataset); if (type.dtype) ...

#include <optional>
#include <string>

#include "libckpt/hdf5/tree.h"
#include "libcore/base/shape.h"

namespace ckpt {

struct Hdf5TensorType {
  std::optional<core::DType> dtype;  ///< none for what is no tensor
  core::Shape shape;
};

/// Attribute ckpt_dtype (with ckpt_shape where elements are no whole bytes) over integers, Keras' dtype over two opaque
/// bytes, else the HDF5 type.
Hdf5TensorType hdf5_tensor_type(const Hdf5Dataset& dataset);

/// The value of an attribute that is a single text, nullopt for anything else.
std::optional<std::string> text_of(const std::vector<Hdf5Attribute>& attributes, std::string_view name);

}  // namespace ckpt
