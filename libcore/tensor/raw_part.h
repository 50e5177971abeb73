#pragma once
// One position of one dimension, without history: what Tensor::select is made of.
// Thread safety: as Tensor. Use: core::Tensor row = core::raw::part(x, 0, 3);

#include <cstddef>
#include <cstdint>

#include "libcore/tensor/tensor.h"

namespace core::raw {

/// A view without dimension `dim`. REQUIRES: dim and index are inside x.
Tensor part(const Tensor& x, std::size_t dim, std::int64_t index);

}  // namespace core::raw
