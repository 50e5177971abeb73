#include "libcore/autograd/copy_slices.h"

#include "libcore/backend/complex_elements.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// The storage offset of `base` in elements of `view`.
std::int64_t offset_in(const Tensor& base, const Tensor& view) {
  if (core::is_complex(base.dtype()) == core::is_complex(view.dtype())) return base.storage_offset();
  return core::is_complex(base.dtype()) ? base.storage_offset() * 2 : base.storage_offset() / 2;
}

}  // namespace

Tensor detail::as_elements_of(const Tensor& whole, DType view) {
  if (is_complex(whole) == core::is_complex(view)) return whole;
  if (is_complex(whole)) return view_as_real(whole);
  std::int64_t extent = whole.numel() == 0 ? 0 : 1;
  for (std::size_t d = 0; d < whole.sizes().size() && extent > 0; ++d) {
    extent += (whole.sizes()[d] - 1) * whole.strides()[d];
  }
  return view_as_complex(whole.as_strided({extent / 2, 2}, {2, 1}));
}

CopySlices::CopySlices(const Tensor& base, const Tensor& view, IntrusivePtr<Node> operation)
    : base_sizes_(base.sizes()),
      base_strides_(base.strides()),
      view_sizes_(view.sizes()),
      view_strides_(view.strides()),
      offset_(view.storage_offset() - offset_in(base, view)),
      view_dtype_(view.dtype()),
      operation_(std::move(operation)) {
  add_edge(base);
  const auto& edges = operation_->next_edges();
  for (std::size_t i = 1; i < edges.size(); ++i) add_edge(edges[i]);
}

TensorList CopySlices::apply(TensorList grads) {
  Tensor whole = empty_strided(base_sizes_, base_strides_, {.dtype = grads[0].dtype(), .device = grads[0].device()});
  whole.copy_(grads[0]);
  Tensor slice = detail::as_elements_of(whole, view_dtype_).as_strided(view_sizes_, view_strides_, offset_);
  TensorList results = detail::applied(*operation_, {slice.clone()});
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
