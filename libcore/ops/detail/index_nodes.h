#pragma once
// What operations by index share: nodes, and checks of positions. Internal to ops.

#include <cstdint>
#include <string>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/intrusive_ptr.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

inline Tensor zeros_for(const Tensor& g, const Shape& sizes) {
  return zeros(sizes, {.dtype = g.dtype(), .device = g.device()});
}

/// Nodes of operations along one dimension with an index.
struct IndexNode : Node {
  std::int64_t dim = 0;
  Shape sizes;
};

template <class N>
IntrusivePtr<N> index_node(const Tensor& x, const Tensor& from, std::int64_t dim, const Tensor& index) {
  auto node = make_intrusive<N>();
  node->add_edge(x);
  if (from.defined()) node->add_edge(from);
  node->dim = raw::wrap_dim(dim, x.dim());
  node->sizes = x.sizes();
  node->save(index);
  return node;
}

/// int64 positions from the front. Error(index) with PyTorch's text.
inline Tensor checked_positions(const Tensor& index, std::int64_t count, const char* what) {
  if (index.dtype() != DType::i64) {
    fail(std::string(what) + "(): Expected a long tensor for index, but got " + scalar_type_name(index.dtype()));
  }
  for (const std::int64_t at : index.to_vector<std::int64_t>()) {
    if (at >= -count && at < count) continue;
    fail("out of range: tried to access index " + std::to_string(at) + " on a tensor of " + std::to_string(count) +
             " elements.",
         ErrorCode::index);
  }
  const NoGradGuard no_history;
  return where(index < 0, index + count, index).reshape({-1});
}

inline Tensor reshaped(const Tensor& flat, const Shape& sizes) {
  return raw::view(flat, sizes, contiguous_strides(sizes), flat.storage_offset());
}

}  // namespace core::detail
