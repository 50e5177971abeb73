#pragma once
// Several tensors one after the other in one flat tensor, as collectives want them, and back. Internal to dist.
// Thread safety: pure functions. Use: put_together(block, tensors); all_reduce(block); take_apart(block, tensors);

#include <vector>

#include "libcore/tensor/tensor.h"

namespace core::distributed {

/// Into `block`, which has as many elements as all of the list.
void put_together(const Tensor& block, const std::vector<Tensor>& list);
/// Part i of `block` into list[i], in place.
void take_apart(const Tensor& block, const std::vector<Tensor>& list);

}  // namespace core::distributed
