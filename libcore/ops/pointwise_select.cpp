// Choices between elements: where, clamp, extremes of two.
#include "libcore/ops/pointwise.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::with_two;

/// The larger (smaller) one gets the gradient, equal ones half of it each.
template <bool kMax>
Tensor extreme_grad(const Tensor& g, const Tensor& own, const Tensor& other) {
  Tensor shared = where(own == other, g / 2, g);
  return masked_fill(shared, kMax ? own < other : own > other, 0);
}
template <bool kMax>
struct ExtremeBackward final : Node {
  std::string_view name() const override { return kMax ? "MaximumBackward0" : "MinimumBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor a = saved(0), b = saved(1);
    return {wants(0) ? extreme_grad<kMax>(g[0], a, b) : Tensor(), wants(1) ? extreme_grad<kMax>(g[0], b, a) : Tensor()};
  }
};

CORE_NODE(WhereBackward, "WhereBackward0", Tensor none = zeros({}, {.dtype = g[0].dtype(), .device = g[0].device()});
          return {wants(0) ? where(saved(0), g[0], none) : Tensor(),
                  wants(1) ? where(saved(0), none, g[0]) : Tensor()};)
CORE_NODE(MaskedFillBackward, "MaskedFillBackward0", return {masked_fill(g[0], saved(0), 0)};)
struct ClampBackward final : Node {
  double low = 0, high = 0;
  std::string_view name() const override { return "ClampBackward1"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    if (!is_grad_enabled()) return {raw::binary(BinaryOp::clamp_backward, g[0], x, {low, high, 0})};
    return {g[0] * detail::mask_as(logical_and(x > low, x < high), g[0])};
  }
};

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) {
  return with_two<ExtremeBackward<true>>(a, b, raw::binary(BinaryOp::maximum, a, b));
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return with_two<ExtremeBackward<false>>(a, b, raw::binary(BinaryOp::minimum, a, b));
}

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) {
  Tensor out = raw::where(mask, a, b);
  if (!needs_grad(a, b)) return out;
  auto node = make_node<WhereBackward>(a, b);
  node->save(mask);
  record(out, node);
  return out;
}
Tensor where(const Tensor& mask, const Tensor& a, Scalar b) {
  const Tensor out = where(mask, a, raw::wrapped(b, raw::backend_of(mask)));
  raw::check_fits(b, out.dtype());
  return out;
}
Tensor where(const Tensor& mask, Scalar a, const Tensor& b) {
  const Tensor out = where(mask, raw::wrapped(a, raw::backend_of(mask)), b);
  raw::check_fits(a, out.dtype());
  return out;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  if (mask.dtype() != DType::boolean) {
    throw Error(ErrorCode::runtime, std::string("masked_fill_ only supports boolean masks, but got mask with dtype ") +
                                        std::string(name(mask.dtype())));
  }
  raw::check_fits_halves_too(value, x.dtype());
  Tensor number = full({}, value, {.dtype = x.dtype(), .device = x.device()});
  broadcast_shapes(mask.sizes(), x.sizes());
  Tensor out = raw::where(mask, number, x);
  if (!needs_grad(x)) return out;
  auto node = make_node<MaskedFillBackward>(x);
  node->save(mask);
  record(out, node);
  return out;
}

Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  if (!low && !high) throw Error(ErrorCode::runtime, "torch.clamp: At least one of 'min' or 'max' must not be None");
  if (is_complex(x.dtype())) fail("clamp is not supported for complex types", ErrorCode::not_implemented);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double from = low ? low->to_double() : -kInfinity;
  double to = high ? high->to_double() : kInfinity;
  bool widen = !is_floating(x.dtype()) && ((low && low->is_float()) || (high && high->is_float()));
  Tensor out = raw::unary(UnaryOp::clamp, widen ? raw::cast(x, default_dtype()) : x, {from, to, 0});
  if (!needs_grad(x)) return out;
  auto node = make_node<ClampBackward>(x);
  node->low = from;
  node->high = to;
  node->save(x);
  record(out, node);
  return out;
}

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  if (!low.defined() && !high.defined()) fail("torch.clamp: At least one of 'min' or 'max' must not be None");
  if (is_complex(x.dtype())) fail("clamp is not supported for complex types", ErrorCode::not_implemented);
  return composed("ClampBackward0", {x, low, high}, [](const TensorList& in) {
    Tensor y = in[0];
    if (in[1].defined()) y = where(y < in[1], in[1], y);
    if (in[2].defined()) y = where(y > in[2], in[2], y);
    return y;
  });
}

}  // namespace core
