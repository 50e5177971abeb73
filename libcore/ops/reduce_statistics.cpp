// Variances and what is made of them.
#include "libcore/ops/reduce.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/reduce_nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::reduce_node;
using core::detail::reduced_count;
using core::detail::ReduceNode;

struct VarBackward final : ReduceNode {
  double correction = 1;
  std::string_view name() const override { return "VarBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    double scale = 2 / (static_cast<double>(reduced_count(sizes, options)) - correction);
    ReduceOptions keep{.dims = options.dims, .keepdim = true};
    return {wide(g[0]) * ((x - mean(x, keep)) * scale)};
  }
};
struct StdBackward final : ReduceNode {
  double correction = 1;
  std::string_view name() const override { return "StdBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor x = saved(0);
    Tensor deviation = saved(1);
    Tensor outer = masked_fill(g[0] / (deviation * 2), deviation == 0, 0);
    double scale = 2 / (static_cast<double>(reduced_count(sizes, options)) - correction);
    ReduceOptions keep{.dims = options.dims, .keepdim = true};
    return {wide(outer) * ((x - mean(x, keep)) * scale)};
  }
};

/// Elements that one result is made of.
std::int64_t elements_reduced(const Tensor& x, const Shape& dims) {
  if (dims.empty()) return x.numel();
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= x.dim() == 0 ? 1 : x.size(dim);
  return count;
}
void warn_without_freedom(const char* name, const Tensor& x, const VarOptions& options) {
  if (elements_reduced(x, options.dims) > options.correction) return;
  warn(std::string(name) +
       "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel "
       "divided by output numel).");
}

}  // namespace

Tensor nansum(const Tensor& x, const ReduceOptions& options) {
  if (is_complex(x.dtype())) fail("nansum does not support complex inputs");
  if (!is_floating(x.dtype())) return sum(x, options);
  return composed("NansumBackward0", {x}, [options](const TensorList& in) {
    return sum(masked_fill(in[0], isnan(in[0].detach()), 0), options);
  });
}

Tensor nanmean(const Tensor& x, const ReduceOptions& options) {
  if (!is_floating(x.dtype())) {
    fail("nanmean(): expected input to have floating point or complex dtype but got " +
         std::string(scalar_type_name(x.dtype())));
  }
  const Tensor count = sum(logical_not(isnan(x.detach())), {.dims = options.dims, .keepdim = options.keepdim});
  return nansum(x, options) / count;
}

Tensor count_nonzero(const Tensor& x, const Shape& dims) {
  return sum(ne(x.detach(), 0), {.dims = dims});
}

StdMean std_mean(const Tensor& x, const VarOptions& o) {
  if (is_complex(x.dtype())) return {std(x, o), mean(x, {.dims = o.dims, .keepdim = o.keepdim})};
  if (!is_floating(x.dtype())) {
    throw Error(ErrorCode::not_implemented, "std_mean only support floating point and complex dtypes");
  }
  const TensorList both = composed_many("StdMeanBackward0", {x}, [o](const TensorList& in) {
    return TensorList{std(in[0], o), mean(in[0], {.dims = o.dims, .keepdim = o.keepdim})};
  });
  return {both[0], both[1]};
}

Tensor dist(const Tensor& a, const Tensor& b, double p) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&a, &b}); to) return dist(to(a), to(b), p);
  return composed("DistBackward0", {a, b}, [p](const TensorList& in) { return norm(in[0] - in[1], {.p = p}); });
}

Tensor cov(const Tensor& x, std::int64_t correction) {
  if (x.dim() > 2)
    fail("cov(): expected input to have two or fewer dimensions but got an input with " + std::to_string(x.dim()) +
         " dimensions");
  if (x.dtype() == DType::boolean) fail("cov(): bool dtype is not supported for input");
  const Tensor in = is_inexact(x.dtype()) ? x : x.to(default_dtype());
  const Tensor rows = in.dim() < 2 ? in.reshape({1, -1}) : in;
  const Tensor centred = rows - rows.mean(Shape{1}, true);
  const double scale = static_cast<double>(std::max<std::int64_t>(0, rows.size(1) - correction));
  return (matmul(centred, conj(centred.t())) / scale).squeeze();
}

Tensor corrcoef(const Tensor& x) {
  if (x.dim() > 2)
    fail("corrcoef(): expected input to have two or fewer dimensions but got an input with " + std::to_string(x.dim()) +
         " dimensions");
  const Tensor c = cov(x);
  if (c.dim() == 0) return c / c;
  const Tensor deviation = sqrt(c.diagonal());
  return clamp(c / deviation.unsqueeze(1) / deviation.unsqueeze(0), -1, 1);
}

VarMean var_mean(const Tensor& x, const VarOptions& o) {
  if (is_complex(x.dtype())) return {var(x, o), mean(x, {.dims = o.dims, .keepdim = o.keepdim})};
  if (!is_floating(x.dtype())) {
    throw Error(ErrorCode::not_implemented, "var_mean only support floating point and complex dtypes");
  }
  const TensorList both = composed_many("VarMeanBackward0", {x}, [o](const TensorList& in) {
    return TensorList{var(in[0], o), mean(in[0], {.dims = o.dims, .keepdim = o.keepdim})};
  });
  return {both[0], both[1]};
}

Tensor var(const Tensor& x, const VarOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced(
        "var", {x}, {{"correction", options.correction}, {"dims", options.dims}, {"keepdim", options.keepdim}},
        [&] { return var(x, options); });
  if (is_complex(x.dtype())) {
    return composed("VarBackward0", {x},
                    [options](const TensorList& in) { return var(real(in[0]), options) + var(imag(in[0]), options); });
  }
  ReduceOptions plain{.dims = options.dims, .keepdim = options.keepdim};
  Tensor out = raw::reduce(ReduceOp::var, x, plain, {0, options.correction});
  warn_without_freedom("var", x, options);
  if (!needs_grad(x)) return out;
  auto node = reduce_node<VarBackward>(x, plain);
  node->correction = options.correction;
  node->save(x);
  record(out, node);
  return out;
}
Tensor std(const Tensor& x, const VarOptions& options) {
  if (core::detail::traced_now())
    return core::detail::traced(
        "std", {x}, {{"correction", options.correction}, {"dims", options.dims}, {"keepdim", options.keepdim}},
        [&] { return std(x, options); });
  if (is_complex(x.dtype())) {
    return composed("StdBackward0", {x}, [options](const TensorList& in) { return sqrt(var(in[0], options)); });
  }
  ReduceOptions plain{.dims = options.dims, .keepdim = options.keepdim};
  Tensor out = raw::unary(UnaryOp::sqrt, raw::reduce(ReduceOp::var, x, plain, {0, options.correction}));
  warn_without_freedom("std", x, options);
  if (!needs_grad(x)) return out;
  auto node = reduce_node<StdBackward>(x, plain);
  node->correction = options.correction;
  node->save(x);
  record(out, node);
  node->save_output(out);
  return out;
}

}  // namespace core
