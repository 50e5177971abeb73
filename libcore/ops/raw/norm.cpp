#include "libcore/ops/raw/norm.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_impl.h"

namespace core::raw {
namespace {

using core::detail::fail;

using kernel::data_or_null;
using kernel::dense;
using kernel::output_or_null;

/// Weight and bias are of x's type, or f32 beside f16 and bf16. True in the second case. The texts are PyTorch's.
bool has_f32_parameters(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor& first = weight.defined() ? weight : bias;
  if (!first.defined()) return false;
  const DType second = bias.defined() ? bias.dtype() : first.dtype();
  if (first.dtype() == x.dtype()) {
    if (second == x.dtype()) return false;
    fail(std::string("expected scalar type ") + scalar_type_name(x.dtype()) + " but found " + scalar_type_name(second));
  }
  if (first.dtype() != DType::f32 || second != DType::f32) {
    fail("mixed dtype (CPU): expect parameter to have scalar type of Float");
  }
  if (x.dtype() != DType::f16 && x.dtype() != DType::bf16) {
    fail("mixed dtype (CPU): all inputs must share same datatype.");
  }
  return true;
}

/// Uninitialised, for the gradient of a parameter; of x's type where there is no weight to say another.
Tensor empty_parameter(const Tensor& x, const Tensor& weight, const Shape& sizes) {
  return make(sizes, (weight.defined() ? weight : x).dtype(), backend_of(x));
}

/// Of an array whose channels lie so.
BatchNormSizes batch_norm_sizes(const Tensor& x, ImageOrder order) {
  const std::int64_t channels = x.size(1);
  if (order == ImageOrder::channels_last) return {x.size(0) * x.size(2) * x.size(3), channels, 1};
  const std::int64_t rows = x.size(0) * channels;
  return {x.size(0), channels, rows == 0 ? 0 : x.numel() / rows};
}

void check_batch_norm(const Tensor& x, const BatchNormArguments& a) {
  kernel::check_devices(x, {&a.weight, &a.bias, &a.running_mean, &a.running_var});
  const auto check = [&](const char* what, const Tensor& t) {
    if (t.defined() && t.numel() != x.size(1)) {
      fail(std::string(what) + " should contain " + std::to_string(x.size(1)) + " elements not " +
           std::to_string(t.numel()));
    }
  };
  if (!a.training && (!a.running_mean.defined() || !a.running_var.defined())) {
    fail(std::string(a.running_mean.defined() ? "running_var" : "running_mean") +
         " must be defined in evaluation mode");
  }
  check("running_mean", a.running_mean);
  check("running_var", a.running_var);
  check("weight", a.weight);
  check("bias", a.bias);
  has_f32_parameters(x, a.weight, a.bias);
  if (!a.training) return;
  if (x.size(1) != 0 && x.numel() / x.size(1) == 1) {
    throw Error(ErrorCode::value, "Expected more than 1 value per channel when training, got input size torch.Size(" +
                                      to_list(x.sizes()) + ")");
  }
}

bool has_16_bits(const Tensor& x) {
  return x.dtype() == DType::f16 || x.dtype() == DType::bf16;
}
/// What statistics of x are kept in: f32 for f16 and bf16.
DType stats_dtype(const Tensor& x) {
  return has_16_bits(x) ? DType::f32 : x.dtype();
}
/// The statistics as PyTorch's CPU keeps them: of x's type where no parameter of `with` is f32.
NormStats as_kept(const Tensor& x, std::initializer_list<const Tensor*> with, NormStats stats) {
  const bool mixed =
      std::any_of(with.begin(), with.end(), [](const Tensor* t) { return t->defined() && t->dtype() == DType::f32; });
  if (!has_16_bits(x) || mixed || !x.device().is_cpu()) return stats;
  const auto rounded = [&](const Tensor& t) { return cast(cast(t, x.dtype()), t.dtype()); };
  return {rounded(stats.mean), rounded(stats.inverse_std)};
}
Tensor empty_stats(const Tensor& x, std::int64_t count) {
  return make({count}, stats_dtype(x), backend_of(x));
}

Tensor inverse_std(const Tensor& var, double eps) {
  return unary(UnaryOp::rsqrt, binary(BinaryOp::add, var, eps));
}

/// running += momentum * (value - running), with the unbiased variance. An empty batch leaves it as it is.
void update_running(const BatchNormArguments& a, const Tensor& mean, const Tensor& var, std::int64_t count) {
  if (count == 0) return;
  const auto blend = [&](const Tensor& running, const Tensor& value) {
    if (!running.defined()) return;
    if (has_16_bits(running)) {  // one rounding, at the end
      const Tensor kept = binary(BinaryOp::mul, cast(running, value.dtype()), 1 - a.momentum);
      copy_into(running, binary(BinaryOp::add, kept, binary(BinaryOp::mul, value, a.momentum)));
      running.impl()->bump_version();
      return;
    }
    binary_in_place(BinaryOp::mul, running, 1 - a.momentum);
    binary_in_place(BinaryOp::add, running, cast(binary(BinaryOp::mul, value, a.momentum), running.dtype()));
    running.impl()->bump_version();
  };
  blend(a.running_mean, mean);
  blend(a.running_var, binary(BinaryOp::mul, var, static_cast<double>(count) / static_cast<double>(count - 1)));
}

void check_layer_norm(const Tensor& x, const Shape& normalized, const LayerNormArguments& a) {
  kernel::check_devices(x, {&a.weight, &a.bias});
  has_f32_parameters(x, a.weight, a.bias);
  const std::size_t front = x.sizes().size() - std::min(x.sizes().size(), normalized.size());
  const Shape tail(x.sizes().span().subspan(front));
  if (normalized == tail) return;
  std::string wanted = "[*";
  for (const std::int64_t size : normalized) wanted += ", " + std::to_string(size);
  fail("Given normalized_shape=" + to_list(normalized) + ", expected input with shape " + wanted +
       "], but got input of size" + to_list(x.sizes()));
}

/// What a normalisation does to each channel.
std::shared_ptr<const blocked::ChannelMap> channel_map(const NormStats& stats, const BatchNormArguments& a) {
  const Tensor means = dense(stats.mean), inverse_stds = dense(stats.inverse_std);
  const Tensor weights = dense(a.weight), biases = dense(a.bias);
  const auto* mean = means.data<float>();
  const auto* inverse_std = inverse_stds.data<float>();
  const float* weight = weights.defined() ? weights.data<float>() : nullptr;
  const float* bias = biases.defined() ? biases.data<float>() : nullptr;
  auto map = std::make_shared<blocked::ChannelMap>();
  const auto channels = static_cast<std::size_t>(means.numel()), padded = (channels + 15) / 16 * 16;
  map->scale.resize(padded);
  map->shift.resize(padded);
  map->finite = true;
  for (std::size_t c = 0; c < channels; ++c) {
    map->scale[c] = inverse_std[c] * (weight != nullptr ? weight[c] : 1.0F);
    map->shift[c] = (bias != nullptr ? bias[c] : 0.0F) - mean[c] * map->scale[c];
    map->finite = map->finite && std::isfinite(map->scale[c]) && std::isfinite(map->shift[c]);
  }
  return map;
}

NormGrads norm_grad_of_images(const Tensor& output_grad, const Tensor& x, const NormStats& stats, const Tensor& weight,
                              bool batch_stats, NormGrads out, bool want_input) {
  const Tensor means = dense(stats.mean), inverse_stds = dense(stats.inverse_std), w = dense(weight);
  const blocked::Image grad = blocked::image(output_grad), in = blocked::image(x);
  blocked::Bytes input_grad = want_input ? blocked::make_bytes(blocked::shape_of(x.sizes()).count()) : blocked::Bytes();
  blocked::table_of(x).norm_grad(
      {blocked::shape_of(x.sizes()), batch_stats, grad.data, in.data, means.data<float>(), inverse_stds.data<float>(),
       static_cast<const float*>(data_or_null(w)), want_input ? input_grad->data() : nullptr,
       static_cast<float*>(output_or_null(out.weight)), static_cast<float*>(output_or_null(out.bias))});
  if (want_input) out.input = blocked::make(x.sizes(), {.bytes = std::move(input_grad)}, backend_of(x));
  return out;
}

bool all_f32(std::initializer_list<const Tensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Tensor* t) { return !t->defined() || t->dtype() == DType::f32; });
}

/// The row of kernels for rows of this length.
template <class Row>
Row NnTable::*row_kernel(const Tensor& x, std::int64_t length, Row NnTable::*any, Row NnTable::*for_long) {
  const NnTable* table = backend_of(x).ops().nn;
  const bool has_long = table != nullptr && (table->*for_long)[static_cast<std::size_t>(x.dtype())] != nullptr;
  return has_long && length >= NnTable::kLongRow ? for_long : any;
}

}  // namespace

NormStats batch_norm_stats(const Tensor& x, const BatchNormArguments& a) {
  const core::detail::OpScope scope("batch_norm_stats", x);
  check_batch_norm(x, a);
  if (!a.training) {
    const DType dtype = stats_dtype(x);
    const auto known = [&](const Tensor& running) { return dtype == x.dtype() ? running : cast(running, dtype); };
    return {known(a.running_mean), inverse_std(known(a.running_var), a.eps)};
  }
  const ImageOrder order = kernel::order_of(x);
  const BatchNormSizes sizes = batch_norm_sizes(x, order);
  const Tensor mean = empty_stats(x, sizes.channels), var = empty_stats(x, sizes.channels);
  if (blocked::is_blocked(x)) {
    const blocked::Image in = blocked::image(x);
    blocked::table_of(x).stats({blocked::shape_of(x.sizes()), in.data, static_cast<float*>(mean.mutable_raw_data()),
                                static_cast<float*>(var.mutable_raw_data())});
  } else if (kernel::has_bytes(x)) {
    const Tensor in = dense(x, order);
    kernel::run("batch_norm", x, &NnTable::batch_stats,
                BatchStatsParams{sizes, in.raw_data(), mean.mutable_raw_data(), var.mutable_raw_data()});
  }
  update_running(a, mean, var, sizes.batch * sizes.plane);
  return as_kept(x, {&a.weight, &a.bias, &a.running_mean, &a.running_var}, {mean, inverse_std(var, a.eps)});
}

Tensor batch_norm(const Tensor& x, const NormStats& stats, const BatchNormArguments& a) {
  const core::detail::OpScope scope("native_batch_norm", x);
  if (blocked::is_blocked(x) && all_f32({&stats.mean, &stats.inverse_std, &a.weight, &a.bias})) {
    if (Tensor mapped = blocked::try_map(x, channel_map(stats, a)); mapped.defined()) return mapped;
  }
  const ImageOrder order = kernel::order_of(x);
  Tensor out = kernel::empty_as(x, x.sizes(), order);
  if (out.numel() == 0 || !kernel::has_bytes(x)) return out;
  const Tensor in = dense(x, order), mean = dense(stats.mean), weight = dense(a.weight), bias = dense(a.bias);
  kernel::run("batch_norm", x, &NnTable::batch_norm,
              BatchNormParams{batch_norm_sizes(x, order), in.raw_data(), mean.raw_data(), stats.inverse_std.raw_data(),
                              data_or_null(weight), data_or_null(bias), out.mutable_raw_data(),
                              has_f32_parameters(x, weight, bias)});
  return out;
}

NormGrads batch_norm_grad(const Tensor& output_grad, const Tensor& x, const NormStats& stats, const Tensor& weight,
                          bool batch_stats, NormWanted wanted) {
  const core::detail::OpScope scope("native_batch_norm_backward", output_grad, x, weight);
  NormGrads out;
  if (wanted.weight) out.weight = empty_parameter(x, weight, {x.size(1)});
  if (wanted.bias) out.bias = empty_parameter(x, weight, {x.size(1)});
  if (blocked::is_blocked(x) && all_f32({&output_grad, &stats.mean, &weight})) {
    return norm_grad_of_images(output_grad, x, stats, weight, batch_stats, std::move(out), wanted.input);
  }
  const ImageOrder order = kernel::order_of(x);
  if (wanted.input) out.input = kernel::empty_as(x, x.sizes(), order);
  if (x.numel() == 0) {
    for (const Tensor* parameter : {&out.weight, &out.bias}) {
      if (parameter->defined()) fill_into(*parameter, 0);
    }
    return out;
  }
  if (!kernel::has_bytes(x)) return out;
  const Tensor grad = dense(output_grad, order), in = dense(x, order), mean = dense(stats.mean), w = dense(weight);
  kernel::run(
      "batch_norm_backward", x, &NnTable::batch_norm_grad,
      BatchNormGradParams{batch_norm_sizes(x, order), batch_stats, grad.raw_data(), in.raw_data(), mean.raw_data(),
                          stats.inverse_std.raw_data(), data_or_null(w), output_or_null(out.input),
                          output_or_null(out.weight), output_or_null(out.bias), has_f32_parameters(x, weight, {})});
  return out;
}

LayerNormResult layer_norm(const Tensor& x, const Shape& normalized_shape, const LayerNormArguments& a) {
  const core::detail::OpScope scope("native_layer_norm", x);
  check_layer_norm(x, normalized_shape, a);
  const std::int64_t length = normalized_shape.numel();
  const std::int64_t rows = length == 0 ? 0 : x.numel() / length;
  LayerNormResult out{kernel::empty_as(x, x.sizes()), {empty_stats(x, rows), empty_stats(x, rows)}};
  if (x.numel() == 0 || !kernel::has_bytes(x)) return out;
  const Tensor in = dense(x), weight = dense(a.weight), bias = dense(a.bias);
  kernel::run("layer_norm", x, row_kernel(x, length, &NnTable::layer_norm, &NnTable::layer_norm_long),
              LayerNormParams{rows, length, a.eps, in.raw_data(), data_or_null(weight), data_or_null(bias),
                              out.output.mutable_raw_data(), out.stats.mean.mutable_raw_data(),
                              out.stats.inverse_std.mutable_raw_data(), has_f32_parameters(x, weight, bias)});
  out.stats = as_kept(x, {&weight, &bias}, out.stats);
  return out;
}

NormGrads layer_norm_grad(const Tensor& output_grad, const Tensor& x, const NormStats& stats, const Tensor& weight,
                          NormWanted wanted) {
  const core::detail::OpScope scope("native_layer_norm_backward", output_grad, x, weight);
  const std::int64_t rows = stats.mean.numel();
  const std::int64_t length = rows == 0 ? 0 : x.numel() / rows;
  NormGrads out;
  Shape normalized(x.sizes());
  while (normalized.numel() > length && !normalized.empty()) normalized.erase(0);
  if (wanted.input) out.input = kernel::empty_as(x, x.sizes());
  if (wanted.weight) out.weight = empty_parameter(x, weight, normalized);
  if (wanted.bias) out.bias = empty_parameter(x, weight, normalized);
  if (x.numel() == 0 || !kernel::has_bytes(x)) return out;
  const Tensor grad = dense(output_grad), in = dense(x), w = dense(weight);
  kernel::run(
      "layer_norm_backward", x, row_kernel(x, length, &NnTable::layer_norm_grad, &NnTable::layer_norm_long_grad),
      LayerNormGradParams{rows, length, grad.raw_data(), in.raw_data(), stats.mean.raw_data(),
                          stats.inverse_std.raw_data(), data_or_null(w), output_or_null(out.input),
                          output_or_null(out.weight), output_or_null(out.bias), has_f32_parameters(x, weight, {})});
  return out;
}

}  // namespace core::raw
