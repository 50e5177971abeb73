// Extremes and their places.
#include "libcore/ops/reduce.h"

#include <optional>
#include <string>
#include <string_view>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/reduce_nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::record_pick;
using core::detail::reduce_node;
using core::detail::ReduceNode;

/// Equal extremes share the gradient, of the largest and of the smallest.
struct AminmaxBackward final : Node {
  std::optional<std::int64_t> dim;
  bool keepdim = false;
  Shape sizes;
  std::string_view name() const override { return "AminmaxBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor total;
    for (std::size_t i = 0; i < 2; ++i) {
      if (!g[i].defined()) continue;
      const Tensor part = share(g[i], saved(1 + i));
      total = total.defined() ? total + part : part;
    }
    return {total};
  }

 private:
  Tensor share(const Tensor& g, const Tensor& extreme) const {
    const bool drop = dim && !keepdim && !sizes.empty();
    const Tensor up = drop ? g.unsqueeze(*dim) : g, wide = drop ? extreme.unsqueeze(*dim) : extreme;
    const Tensor hit = detail::mask_as(saved(0) == wide, g);
    const Tensor count = dim ? sum(hit, {.dims = {*dim}, .keepdim = true}) : sum(hit);
    return hit * (up / count);
  }
};

/// Equal extremes share the gradient.
struct AmaxBackward final : ReduceNode {
  std::string_view printed;
  std::string_view name() const override { return printed; }
  TensorList apply(TensorList g) override {
    Tensor hit = detail::mask_as(saved(0) == wide(saved(1)), g[0]);
    return {wide(g[0]) * hit / sum(hit, {.dims = options.dims, .keepdim = true})};
  }
};

/// An extreme of no elements is nothing. `dims` as they were given: messages show them so.
void check_reduces_some(const Tensor& x, const Shape& dims, const char* what) {
  for (const std::int64_t d : dims) {
    if (x.dim() == 0 || x.size(d) != 0) continue;
    throw Error(ErrorCode::index,
                std::string(what) + ": Expected reduction dim " + std::to_string(d) + " to have non-zero size.");
  }
  if (!dims.empty() || x.numel() > 0) return;
  fail(std::string(what) +
       ": Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
       "argument.");
}

Tensor shared_extreme(ReduceOp op, const Tensor& x, const ReduceOptions& options, std::string_view printed) {
  Tensor out = raw::reduce(op, x, options);
  if (!needs_grad(x)) return out;
  auto node = reduce_node<AmaxBackward>(x, options);
  node->printed = printed;
  node->save(x);
  record(out, node);
  node->save_output(out);
  return out;
}

Tensor extreme_of_all(ReduceOp op, const Tensor& x, std::string_view printed) {
  if (x.numel() == 0) {
    throw Error(ErrorCode::runtime,
                std::string(name(op)) +
                    "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                    "reduction dim with the 'dim' argument.");
  }
  Tensor out = raw::reduce(op, x, {});
  detail::record_equals(x, out, printed);
  return out;
}

ValuesIndices extreme_along(ReduceOp op, const Tensor& x, std::int64_t dim, bool keepdim, std::string_view printed) {
  ValuesIndices out = raw::reduce_with_indices(op, x, dim, keepdim);
  record_pick(x, out, dim, keepdim, printed);
  return out;
}

Tensor arg_extreme(ReduceOp op, const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  if (!dim && x.numel() == 0) {
    throw Error(ErrorCode::index,
                std::string(name(op)) + "(): Expected reduction dim to be specified for input.numel() == 0.");
  }
  if (x.dtype() == DType::boolean) {
    throw Error(ErrorCode::runtime, std::string(name(op)) + "(): does not support bool input");
  }
  if (dim) check_reduces_some(x, {raw::wrap_dim(*dim, x.dim())}, (std::string(name(op)) + "()").c_str());
  ReduceOptions options{.keepdim = keepdim};
  if (dim) options.dims = {*dim};
  return raw::reduce(op, x, options);
}

}  // namespace

MinMax aminmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  if (x.numel() == 0 && !dim) {
    fail("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
  }
  if (dim) check_reduces_some(x, {raw::wrap_dim(*dim, x.dim())}, "aminmax");
  const ReduceOptions options{.dims = dim ? Shape{*dim} : Shape{}, .keepdim = keepdim};
  MinMax out{raw::reduce(ReduceOp::min, x, options), raw::reduce(ReduceOp::max, x, options)};
  if (!needs_grad(x)) return out;
  auto node = make_node<AminmaxBackward>(x);
  if (dim) node->dim = raw::wrap_dim(*dim, x.dim());
  node->keepdim = keepdim;
  node->sizes = x.sizes();
  record(out.min, node);
  record(out.max, node);
  node->save(x);
  node->save_output(out.min);
  node->save_output(out.max);
  return out;
}

Tensor amax(const Tensor& x, const ReduceOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("amax", {x}, {{"dims", options.dims}, {"keepdim", options.keepdim}},
                                [&] { return amax(x, options); });
  check_reduces_some(x, options.dims, "amax()");
  return shared_extreme(ReduceOp::max, x, options, "AmaxBackward0");
}
Tensor amin(const Tensor& x, const ReduceOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced("amin", {x}, {{"dims", options.dims}, {"keepdim", options.keepdim}},
                                [&] { return amin(x, options); });
  check_reduces_some(x, options.dims, "amin()");
  return shared_extreme(ReduceOp::min, x, options, "AminBackward0");
}
Tensor max(const Tensor& x) {
  if (core::detail::traced_now())
    return core::detail::traced("amax", {x}, {{"dims", Shape{}}, {"keepdim", false}}, [&] { return max(x); });
  return extreme_of_all(ReduceOp::max, x, "MaxBackward1");
}
Tensor min(const Tensor& x) {
  if (core::detail::traced_now())
    return core::detail::traced("amin", {x}, {{"dims", Shape{}}, {"keepdim", false}}, [&] { return min(x); });
  return extreme_of_all(ReduceOp::min, x, "MinBackward1");
}
ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim) {
  if (core::detail::traced_now())
    return core::detail::traced("max", {x}, {{"dim", dim}, {"keepdim", keepdim}}, [&] { return max(x, dim, keepdim); });
  return extreme_along(ReduceOp::max, x, dim, keepdim, "MaxBackward0");
}
ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim) {
  if (core::detail::traced_now())
    return core::detail::traced("min", {x}, {{"dim", dim}, {"keepdim", keepdim}}, [&] { return min(x, dim, keepdim); });
  return extreme_along(ReduceOp::min, x, dim, keepdim, "MinBackward0");
}

Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  if (core::detail::traced_now())
    return core::detail::traced("argmax", {x},
                                {{"dim", dim.value_or(0)}, {"whole", !dim.has_value()}, {"keepdim", keepdim}},
                                [&] { return argmax(x, dim, keepdim); });
  return arg_extreme(ReduceOp::argmax, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  if (core::detail::traced_now())
    return core::detail::traced("argmin", {x},
                                {{"dim", dim.value_or(0)}, {"whole", !dim.has_value()}, {"keepdim", keepdim}},
                                [&] { return argmin(x, dim, keepdim); });
  return arg_extreme(ReduceOp::argmin, x, dim, keepdim);
}

}  // namespace core
