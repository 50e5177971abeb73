#include "libcore/ops/sort.h"

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/reduce_nodes.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::record_pick;

}  // namespace

ValuesIndices sort(const Tensor& x, std::int64_t dim, bool descending) {
  if (core::detail::traced_now())
    return core::detail::traced("sort", {x}, {{"dim", dim}, {"descending", descending}},
                                [&] { return sort(x, dim, descending); });
  ValuesIndices out = raw::sort(x, dim, descending);
  record_pick(x, out, dim, true, "SortBackward0");
  return out;
}
ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest) {
  if (core::detail::traced_now())
    return core::detail::traced("topk", {x}, {{"k", k}, {"dim", dim}, {"largest", largest}},
                                [&] { return topk(x, k, dim, largest); });
  std::int64_t d = raw::wrap_dim(dim, x.dim());
  if (k < 0 || k > (x.dim() == 0 ? 1 : x.size(d))) {
    throw Error(ErrorCode::runtime, "selected index k out of range");
  }
  ValuesIndices all = raw::sort(x, d, largest);
  if (x.dim() == 0) {
    return {composed("TopkBackward0", {x}, [](const TensorList& in) { return in[0].clone(); }), all.indices};
  }
  NoGradGuard no_history;
  ValuesIndices out{all.values.narrow(d, 0, k).clone(), all.indices.narrow(d, 0, k).clone()};
  GradModeGuard on(true);
  record_pick(x, out, d, true, "TopkBackward0");
  return out;
}

Tensor argsort(const Tensor& x, std::int64_t dim, bool descending) {
  if (core::detail::traced_now())
    return core::detail::traced("argsort", {x}, {{"dim", dim}, {"descending", descending}},
                                [&] { return argsort(x, dim, descending); });
  return raw::sort(x, dim, descending).indices;
}

}  // namespace core
