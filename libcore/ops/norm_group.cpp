#include "libcore/ops/norm.h"

#include <limits>
#include <string>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using detail::in_place;

/// (1, C, 1, ...) as x sees its channels.
Shape beside_channels(const Tensor& x) {
  Shape sizes(x.sizes().size(), 1);
  sizes[1] = x.size(1);
  return sizes;
}

/// Elements of a channel of one image.
std::int64_t pixels_of(const Tensor& x) {
  std::int64_t pixels = 1;
  for (std::int64_t d = 2; d < x.dim(); ++d) pixels *= x.size(d);
  return pixels;
}

void check_groups(const Tensor& x, std::int64_t groups, const LayerNormArguments& a) {
  if (groups <= 0) fail("num_groups must be positive, but got " + std::to_string(groups));
  if (x.dim() < 2) fail("Expected at least 2 dimensions for input tensor but received " + std::to_string(x.dim()));
  if (x.size(1) % groups != 0) {
    fail("Expected number of channels in input to be divisible by num_groups, but got input of shape " +
         to_list(x.sizes()) + " and num_groups=" + std::to_string(groups));
  }
  if (x.size(1) == 0) fail("Expected number of channels to be greater than 0, got 0");
  if (pixels_of(x) == 0) fail("Expected HxW to be greater than 0, got 0");
  const auto check = [&](const Tensor& vector, const char* what) {
    if (!vector.defined() || vector.sizes() == Shape{x.size(1)}) return;
    fail(std::string("Expected ") + what +
         " to be a vector of size equal to the number of channels in input, but got " + what + " of shape " +
         to_list(vector.sizes()) + " and input of shape " + to_list(x.sizes()));
  };
  check(a.weight, "weight");
  check(a.bias, "bias");
}

double machine_epsilon(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

/// All images side by side as channels of one.
Tensor side_by_side(const Tensor& x) {
  Shape sizes = x.sizes();
  sizes[1] *= sizes[0];
  sizes[0] = 1;
  return x.contiguous().view(sizes);
}

Tensor repeated(const Tensor& vector, std::int64_t times) {
  return vector.defined() ? vector.repeat({times}) : Tensor();
}

/// Running statistics of each channel are the mean over the images'.
void fold_back(const Tensor& running, const Tensor& all, const Tensor& x) {
  if (!running.defined()) return;
  const NoGradGuard no_history;
  running.copy_(all.view({x.size(0), x.size(1)}).mean(Shape{0}));
}

void check_spatial(const Tensor& x) {
  if (pixels_of(x) != 1) return;
  throw Error(ErrorCode::value, "Expected more than 1 spatial element when training, got input size torch.Size(" +
                                    to_list(x.sizes()) + ")");
}

}  // namespace

const Tensor& renorm_(const Tensor& x, double p, std::int64_t dim, double maxnorm) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return renorm(t, p, dim, maxnorm); });
}

Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return renorm(to(x), p, dim, maxnorm);
  if (p <= 0) fail("renorm: non-positive-norm not supported");
  if (x.dim() < 2) fail("renorm: input needs at least 2 dimensions, got " + std::to_string(x.dim()) + " dimensions");
  if (maxnorm < 0) fail("renorm: expected maxnorm to be >= 0 but got " + std::to_string(maxnorm));
  const std::int64_t kept = raw::wrap_dim(dim, x.dim());
  Shape dims;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != kept) dims.push_back(d);
  }
  return composed("RenormBackward0", {x}, [=](const TensorList& in) {
    const Tensor length = norm(in[0], {.p = p, .dims = dims, .keepdim = true});
    const Tensor scale = reciprocal(length + 1e-7) * maxnorm;
    return in[0] * where(length.detach() > maxnorm, scale, ones_like(scale));
  });
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const LayerNormArguments& a) {
  if (core::detail::traced_now())
    return core::detail::traced("group_norm", {x, a.weight, a.bias}, {{"groups", groups}, {"eps", a.eps}},
                                [&] { return group_norm(x, groups, a); });
  const core::detail::OpScope scope("group_norm", x, a.weight, a.bias);
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return group_norm(to(x), groups, a);
  check_groups(x, groups, a);
  const double eps = a.eps;
  const DType parameters = a.weight.defined() ? a.weight.dtype() : a.bias.defined() ? a.bias.dtype() : x.dtype();
  const bool is_half = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  if (is_half && parameters == DType::f32) {  // one rounding, at the end
    return group_norm(x.to(DType::f32), groups, a).to(x.dtype());
  }
  return composed("NativeGroupNormBackward0", {x, a.weight, a.bias}, [groups, eps](const TensorList& in) {
    const Tensor rows = in[0].reshape({in[0].size(0), groups, in[0].size(1) / groups * pixels_of(in[0])});
    Tensor y = layer_norm(rows, {rows.size(2)}, {.eps = eps}).reshape(in[0].sizes());
    const Shape beside = beside_channels(in[0]);
    if (in[1].defined()) y = y * in[1].reshape(beside);
    return in[2].defined() ? y + in[2].reshape(beside) : y;
  });
}

Tensor instance_norm(const Tensor& x, const BatchNormArguments& a) {
  if (core::detail::traced_now())
    return core::detail::traced("instance_norm", {x, a.weight, a.bias, a.running_mean, a.running_var},
                                {{"training", a.training}, {"eps", a.eps}}, [&] { return instance_norm(x, a); });
  if (a.training) check_spatial(x);
  const std::int64_t images = x.size(0);
  BatchNormArguments all = a;
  all.running_mean = repeated(a.running_mean, images);
  all.running_var = repeated(a.running_var, images);
  all.weight = repeated(a.weight, images);
  all.bias = repeated(a.bias, images);
  const Tensor y = batch_norm(side_by_side(x), all);
  if (a.training) {
    fold_back(a.running_mean, all.running_mean, x);
    fold_back(a.running_var, all.running_var, x);
  }
  return y.view(x.sizes());
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const RmsNormArguments& a) {
  if (core::detail::traced_now())
    return core::detail::traced("rms_norm", {x, a.weight},
                                {{"axes", static_cast<std::int64_t>(normalized_shape.size())},
                                 {"eps", a.eps.value_or(machine_epsilon(raw::compute_dtype(x.dtype())))}},
                                [&] { return rms_norm(x, normalized_shape, a); });
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return rms_norm(to(x), normalized_shape, a);
  Shape dims;
  const auto count = static_cast<std::int64_t>(normalized_shape.size());
  bool fits = x.dim() >= count;
  for (std::int64_t d = -count; d < 0 && fits; ++d) {
    fits = x.size(d) == normalized_shape[static_cast<std::size_t>(d + count)];
    dims.push_back(d);
  }
  if (!fits) {
    std::string wanted = "[*";
    for (const std::int64_t size : normalized_shape) wanted += ", " + std::to_string(size);
    fail("Given normalized_shape=" + to_list(normalized_shape) + ", expected input with shape " + wanted +
         "], but got input of size" + to_list(x.sizes()));
  }
  if (raw::compute_dtype(x.dtype()) != x.dtype()) {  // one rounding, at the end
    RmsNormArguments wide = a;
    if (a.weight.defined()) wide.weight = a.weight.to(DType::f32);
    wide.eps = a.eps.value_or(machine_epsilon(DType::f32));
    return rms_norm(x.to(DType::f32), normalized_shape, wide).to(x.dtype());
  }
  const double eps = a.eps.value_or(machine_epsilon(x.dtype()));
  const Tensor y = x * rsqrt(mean(pow(x, 2), {.dims = dims, .keepdim = true}) + eps);
  return a.weight.defined() ? y * a.weight : y;
}

Tensor local_response_norm(const Tensor& x, std::int64_t size, const ResponseNormOptions& o) {
  if (core::detail::traced_now())
    return core::detail::traced("local_response_norm", {x},
                                {{"size", size}, {"alpha", o.alpha}, {"beta", o.beta}, {"k", o.k}},
                                [&] { return local_response_norm(x, size, o); });
  if (x.dim() < 3) {
    throw Error(ErrorCode::value, "Expected 3D or higher dimensionality                          input (got " +
                                      std::to_string(x.dim()) + " dimensions)");
  }
  Shape pads(2 * static_cast<std::size_t>(x.dim() - 1), 0);
  pads[pads.size() - 2] = size / 2;
  pads[pads.size() - 1] = (size - 1) / 2;
  const Tensor around = pad_constant(x * x, pads).unfold(1, size, 1).mean(Shape{-1});
  return x / pow(around * o.alpha + o.k, o.beta);
}

Tensor normalize(const Tensor& x, const NormalizeOptions& o) {
  return x / clamp(norm(x, {.p = o.p, .dims = {o.dim}, .keepdim = true}), o.eps).expand_as(x);
}

}  // namespace core
