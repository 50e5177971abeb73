#include "libcore/tensor/pairs_ops.h"

#include <string>

#include "libcore/autograd/composed.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/nn_ops.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/shape_ops.h"

namespace core {
namespace {

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::runtime, text);
}

}  // namespace

Tensor pdist(const Tensor& x, double p) {
  if (x.dim() != 2) fail("pdist only supports 2D tensors, got: " + std::to_string(x.dim()) + "D");
  if (p < 0) fail("pdist only supports non-negative p values");
  const Tensor pairs = triu_indices(x.size(0), x.size(0), 1).to(x.device());
  return composed("PdistBackward0", {x}, [p, pairs](const TensorList& in) {
    return norm(index_select(in[0], 0, pairs[0]) - index_select(in[0], 0, pairs[1]), {.p = p, .dims = {-1}});
  });
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelOptions& o) {
  const Tensor drawn = empty_like(logits.detach());
  exponential_(drawn);
  const Tensor soft = softmax((logits - drawn.log()) / o.tau, o.dim);
  if (!o.hard) return soft;
  const Tensor place = soft.detach().max(o.dim, true).indices;
  const Tensor one = zeros_like(logits.detach()).scatter_(o.dim, place, 1.0);
  return one - soft.detach() + soft;
}

}  // namespace core
