// The response normalisation of torch.nn.CrossMapLRN2d, with its ways (norm.h).
#include "libcore/ops/norm.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// k + alpha / size * the sum over the neighbouring channels of the squares.
Tensor scale_of(const Tensor& x, std::int64_t size, const ResponseNormOptions& o) {
  const Tensor squares = x * x, scale = empty_like(x);
  const std::int64_t channels = x.size(1), ahead = (size + 1) / 2;
  for (std::int64_t c = 0; c < channels; ++c) {
    const Tensor current = scale.select(1, c);
    if (c == 0) {
      current.copy_(squares.narrow(1, 0, std::min(ahead, channels)).sum(Shape{1}));
      continue;
    }
    current.copy_(scale.select(1, c - 1));
    if (c + ahead - 1 < channels) current.add_(squares.select(1, c + ahead - 1));
    if (c > ahead) current.sub_(squares.select(1, c - ahead));
  }
  return scale.mul_(o.alpha / static_cast<double>(size)).add_(o.k);
}

struct CrossMapBackward final : Node {
  std::int64_t size = 1;
  ResponseNormOptions options;
  std::string_view name() const override { return "CrossMapLRN2dBackward"; }
  TensorList apply(TensorList g) override {
    const NoGradGuard once;
    const Tensor x = saved(0), y = saved(1), scale = saved(2);
    const std::int64_t channels = x.size(1), before = (size + 1) / 2;
    Shape wide = x.sizes();
    wide[1] += size - 1;
    const Tensor ratio = zeros(wide, {.dtype = x.dtype(), .device = x.device()});
    ratio.narrow(1, before, channels).copy_(g[0] * y / scale);
    const Tensor sums = ratio.unfold(1, size, 1).sum(Shape{-1});
    const double factor = 2 * options.alpha * options.beta / static_cast<double>(size);
    return {pow(scale, -options.beta) * g[0] - x * sums * factor};
  }
};

}  // namespace

Tensor cross_map_lrn2d(const Tensor& x, std::int64_t size, const ResponseNormOptions& o) {
  if (x.dim() != 4) {
    throw Error(ErrorCode::value,
                "CrossMapLRN2d: Expected input to be 4D, got " + std::to_string(x.dim()) + "D instead.");
  }
  Tensor y, scale;
  {
    const NoGradGuard no_history;
    scale = scale_of(x.detach(), size, o);
    y = pow(scale, -o.beta) * x.detach();
  }
  if (!needs_grad(x)) return y;
  auto node = make_node<CrossMapBackward>(x);
  node->size = size;
  node->options = o;
  node->save(x);
  record(y, node);
  node->save_output(y);
  node->save(scale);
  return y;
}

}  // namespace core
