#include "libcore/autograd/copy_slices.h"

#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {

CopySlices::CopySlices(const Tensor& base, const Tensor& view, IntrusivePtr<Node> operation)
    : base_sizes_(base.sizes()),
      base_strides_(base.strides()),
      view_sizes_(view.sizes()),
      view_strides_(view.strides()),
      offset_(view.storage_offset() - base.storage_offset()),
      operation_(std::move(operation)) {
  add_edge(base);
  const auto& edges = operation_->next_edges();
  for (std::size_t i = 1; i < edges.size(); ++i) add_edge(edges[i]);
}

TensorList CopySlices::apply(TensorList grads) {
  Tensor whole = empty_strided(base_sizes_, base_strides_, {.dtype = grads[0].dtype(), .device = grads[0].device()});
  whole.copy_(grads[0]);
  Tensor slice = whole.as_strided(view_sizes_, view_strides_, offset_);
  TensorList results = operation_->apply({slice.clone()});
  if (!results.empty() && results[0].defined()) {
    slice.copy_(results[0]);
  } else {
    slice.zero_();
  }
  if (results.empty()) results.push_back({});
  if (wants(0)) results[0] = whole;
  return results;
}

}  // namespace core
