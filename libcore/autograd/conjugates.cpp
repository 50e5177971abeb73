#include "libcore/autograd/conjugates.h"

#include "libcore/ops/complex.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_impl.h"

namespace core::detail {
namespace {

bool any_complex(const TensorList& tensors) {
  for (const Tensor& t : tensors) {
    if (t.defined() && t.impl()->dtype >= DType::c32 && t.impl()->dtype <= DType::c128) return true;
  }
  return false;
}

void conjugate(TensorList& tensors) {
  for (Tensor& t : tensors) {
    if (t.defined()) t = conj(t);
  }
}

/// Where a gradient ends nothing is multiplied.
bool follows_convention(const Node& node) {
  return node.is_accumulator() || dynamic_cast<const FollowsConvention*>(&node) != nullptr;
}

}  // namespace

TensorList applied(Node& node, TensorList&& grads, bool directly) {
  const bool given = any_complex(grads);
  const bool follows = given && follows_convention(node);
  if (given && !follows) conjugate(grads);
  TensorList results = directly ? node.apply_directly(std::move(grads)) : node.apply(std::move(grads));
  const bool turns = given ? !follows : any_complex(results) && !follows_convention(node);
  if (turns) conjugate(results);
  return results;
}

}  // namespace core::detail
