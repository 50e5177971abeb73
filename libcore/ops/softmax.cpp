#include "libcore/ops/softmax.h"

#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/warning.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/softmax.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// The dimension that softmax and its kin choose when none was said.
std::int64_t implicit_dim(const char* name, const Tensor& x) {
  warn(std::string("Implicit dimension choice for ") + name +
       " has been deprecated. Change the call to include dim=X as an argument.");
  return x.dim() == 0 || x.dim() == 1 || x.dim() == 3 ? 0 : 1;
}

/// Saved: the output.
struct SoftmaxBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "SoftmaxBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    const Tensor out = saved(0);
    if (!is_grad_enabled()) return {raw::softmax_grad(grads[0], out, dim)};
    const Tensor total = sum(mul(grads[0], out), {.dims = {dim}, .keepdim = true});
    return {mul(sub(grads[0], total), out)};
  }
};

/// Saved: the output.
struct LogSoftmaxBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "LogSoftmaxBackward0"; }
  TensorList apply(TensorList grads) override {
    if (!grads[0].defined()) return {Tensor()};
    const Tensor out = saved(0);
    if (!is_grad_enabled()) return {raw::log_softmax_grad(grads[0], out, dim)};
    return {sub(grads[0], mul(exp(out), sum(grads[0], {.dims = {dim}, .keepdim = true})))};
  }
};

template <class N>
Tensor recorded_softmax(Tensor out, const Tensor& x, std::int64_t dim) {
  if (needs_grad(x)) {
    auto node = make_node<N>(x);
    node->dim = dim;
    record(out, node);
    node->save_output(out);
  }
  return out;
}

}  // namespace

Tensor softmin(const Tensor& x, std::int64_t dim) {
  return softmax(neg(x), dim);
}

Tensor softmax(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return softmax(to(x));
  return softmax(x, implicit_dim("softmax", x));
}
Tensor log_softmax(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return log_softmax(to(x));
  return log_softmax(x, implicit_dim("log_softmax", x));
}
Tensor softmin(const Tensor& x) {
  return softmin(x, implicit_dim("softmin", x));
}

Tensor softmax(const Tensor& x, std::int64_t dim) {
  if (core::detail::traced_now())
    return core::detail::traced("softmax", {x}, {{"dim", dim}}, [&] { return softmax(x, dim); });
  const core::detail::OpScope scope("softmax", x);
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return softmax(to(x), dim);
  return recorded_softmax<SoftmaxBackward>(raw::softmax(x, dim), x, dim);
}

Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  if (core::detail::traced_now())
    return core::detail::traced("log_softmax", {x}, {{"dim", dim}}, [&] { return log_softmax(x, dim); });
  const core::detail::OpScope scope("log_softmax", x);
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return log_softmax(to(x), dim);
  return recorded_softmax<LogSoftmaxBackward>(raw::log_softmax(x, dim), x, dim);
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
