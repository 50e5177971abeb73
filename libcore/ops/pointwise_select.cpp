// Choices between elements: where, clamp, extremes of two.
#include "libcore/ops/pointwise.h"

#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
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
#include "libcore/tensor/number_limits.h"
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

/// Error(runtime) where all of an integer type lies on the wrong side of a bound; a bound beyond the type's other end
/// changes nothing.
void check_bounds(std::optional<Scalar> low, std::optional<Scalar> high, DType dtype) {
  if (dtype == DType::boolean) {
    throw Error(ErrorCode::not_implemented, std::string("\"clamp_") +
                                                (low && high ? ""
                                                 : low       ? "min_"
                                                             : "max_") +
                                                "scalar_cpu\" not implemented for 'Bool'");
  }
  const auto check = [&](const std::optional<Scalar>& bound, bool is_low) {
    if (!bound) return;
    if (!is_integer(dtype)) return raw::check_fits_halves_too(*bound, dtype);
    const iinfo limits(dtype);
    const double x = bound->to_double();
    if (is_low ? x <= static_cast<double>(limits.max) : x >= static_cast<double>(limits.min)) return;
    std::ostringstream text;
    text << "Clamp " << (is_low ? "min" : "max") << " value " << x << " is outside the representable range of "
         << scalar_type_name(dtype);
    fail(text.str());
  };
  check(low, true);
  check(high, false);
}

/// Where a bound takes x's place: where x is beyond it, and where it is NaN.
Tensor or_nan(const Tensor& beyond, const Tensor& bound) {
  return is_floating(bound.dtype()) ? logical_or(beyond, isnan(bound)) : beyond;
}

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
  DType dtype = x.dtype();
  if (!is_floating(dtype)) {  // which no bound widens
    for (const auto& bound : {low, high}) {
      if (bound) dtype = promote_types(dtype, result_type(x, *bound));
    }
  }
  check_bounds(low, high, dtype);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double from = low ? low->to_double() : -kInfinity;
  const double to = high ? high->to_double() : kInfinity;
  const Tensor wide = raw::cast(x, dtype);
  Tensor out =
      std::isnan(from) || std::isnan(to) ? full_like(wide, from + to) : raw::unary(UnaryOp::clamp, wide, {from, to, 0});
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
    if (!in[2].defined()) return maximum(in[0], in[1]);
    if (!in[1].defined()) return minimum(in[0], in[2]);
    const Tensor raised = where(or_nan(in[0] < in[1], in[1]), in[1], in[0]);
    return where(or_nan(raised > in[2], in[2]), in[2], raised);
  });
}

}  // namespace core
