#include "libcore/module/lazy.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/tensor/uninitialized.h"

namespace core::detail {
namespace {

Parameter lazy_parameter(const TensorOptions& made) {
  return Parameter(uninitialized(made));
}

/// (out, in / groups, k...), or (in, out / groups, k...).
Shape weight_sizes(std::int64_t first, std::int64_t second, const Shape& kernel) {
  Shape sizes{first, second};
  for (const std::int64_t size : kernel) sizes.push_back(size);
  return sizes;
}

template <class Layer>
void make_lazy_convolution(Layer& layer, bool bias, const TensorOptions& made) {
  layer.in_channels = 0;
  layer.weight = lazy_parameter(made);
  if (bias) layer.bias = lazy_parameter(made);
}

}  // namespace

bool has_uninitialized(Module& module) {
  const Members own(module);
  const auto is_lazy = [](const TensorMember& member) { return is_uninitialized(*member.tensor); };
  return std::any_of(own.parameters().begin(), own.parameters().end(), is_lazy) ||
         std::any_of(own.buffers().begin(), own.buffers().end(), is_lazy);
}

void check_all_or_none(Module& module) {
  if (!has_uninitialized(module)) return;
  for (const TensorMember& member : Members(module).parameters()) {
    if (!member.tensor->defined() || is_uninitialized(*member.tensor)) continue;
    throw Error(ErrorCode::runtime, "module Lazy" + module.class_name() + ": '" + member.name +
                                        "' was loaded before the first call, other tensors were not; load all or none");
  }
}

void materialize_for(Module& module, const StateDict& state, std::string_view prefix) {
  const Members own(module);
  const auto fit = [&](const TensorMember& member) {
    const Tensor* given = state.find(std::string(prefix) + member.name);
    if (given == nullptr || !given->defined() || is_uninitialized(*given)) return;
    if (is_uninitialized(*member.tensor)) materialize(*member.tensor, given->sizes());
  };
  for (const TensorMember& member : own.parameters()) fit(member);
  for (const TensorMember& member : own.buffers()) fit(member);
}

std::int64_t lazy_channels(const Tensor& x, std::int64_t rank, std::int64_t groups, const std::string& class_name) {
  if (x.dim() != rank + 1 && x.dim() != rank + 2) {
    throw Error(ErrorCode::runtime, "Expected " + std::to_string(rank + 1) + "D (unbatched) or " +
                                        std::to_string(rank + 2) + "D (batched) input to " + class_name +
                                        ", but got input of size: torch.Size(" + to_list(x.sizes()) + ")");
  }
  const std::int64_t channels = x.size(x.dim() == rank + 2 ? 1 : 0);
  if (channels % groups != 0) throw Error(ErrorCode::value, "in_channels must be divisible by groups");
  return channels;
}

void make_lazy(Linear& layer, const LinearOptions& options) {
  const TensorOptions made{.dtype = options.dtype, .device = options.device};
  layer.in_features = 0;
  layer.weight = lazy_parameter(made);
  if (options.bias) layer.bias = lazy_parameter(made);
}

void make_lazy(Conv2d& layer, bool bias, const TensorOptions& made) {
  make_lazy_convolution(layer, bias, made);
}

void make_lazy(ConvState& layer, bool bias, const TensorOptions& made) {
  make_lazy_convolution(layer, bias, made);
}

void make_lazy(BatchNormState& layer, const BatchNormOptions& options) {
  const TensorOptions made{.dtype = options.dtype, .device = options.device};
  layer.options = options;
  if (options.affine) layer.weight = lazy_parameter(made);
  if (options.affine && options.bias) layer.bias = lazy_parameter(made);
  if (!options.track_running_stats) return;
  layer.running_mean = uninitialized(made);
  layer.running_var = uninitialized(made);
  layer.num_batches_tracked = zeros({}, {.dtype = DType::i64, .device = options.device});
}

void settle(Linear& layer, const Tensor& x) {
  if (is_uninitialized(layer.weight) || is_uninitialized(layer.bias)) {
    layer.in_features = x.size(-1);
    materialize(layer.weight, {layer.out_features, layer.in_features});
    if (layer.bias.defined()) materialize(layer.bias, {layer.out_features});
    layer.reset_parameters();
  }
  if (layer.in_features != 0) return;  // else the values were loaded
  if (x.size(-1) != layer.weight.size(-1)) {
    throw Error(ErrorCode::assertion,
                "The in_features inferred from input: " + std::to_string(x.size(-1)) +
                    " is not equal to in_features from self.weight: " + std::to_string(layer.weight.size(-1)));
  }
  layer.in_features = x.size(-1);
}

void settle(Conv2d& layer, std::int64_t channels) {
  layer.in_channels = channels;
  materialize(layer.weight, weight_sizes(layer.out_channels, channels / layer.options.groups,
                                         {layer.kernel_size.h(), layer.kernel_size.w()}));
  if (layer.bias.defined()) materialize(layer.bias, {layer.out_channels});
  layer.reset_parameters();
}

void settle(ConvState& layer, std::int64_t channels, bool is_transposed) {
  layer.in_channels = channels;
  materialize(layer.weight, is_transposed
                                ? weight_sizes(channels, layer.out_channels / layer.groups, layer.kernel_size)
                                : weight_sizes(layer.out_channels, channels / layer.groups, layer.kernel_size));
  if (layer.bias.defined()) materialize(layer.bias, {layer.out_channels});
  layer.reset_parameters();
}

void settle(BatchNormState& layer, std::int64_t features) {
  layer.num_features = features;
  for (const Tensor* tensor :
       {static_cast<const Tensor*>(&layer.weight), static_cast<const Tensor*>(&layer.bias),
        static_cast<const Tensor*>(&layer.running_mean), static_cast<const Tensor*>(&layer.running_var)}) {
    if (tensor->defined()) materialize(*tensor, {features});
  }
  layer.reset_parameters();
}

}  // namespace core::detail

namespace core {

template class ModuleOf<LazyLinear>;
template class ModuleOf<LazyConv2d>;
template class ModuleOf<LazyConv1d>;
template class ModuleOf<LazyConv3d>;
template class ModuleOf<LazyConvTranspose1d>;
template class ModuleOf<LazyConvTranspose2d>;
template class ModuleOf<LazyConvTranspose3d>;
template class ModuleOf<LazyBatchNorm1d>;
template class ModuleOf<LazyBatchNorm2d>;
template class ModuleOf<LazyBatchNorm3d>;
template class ModuleOf<LazyInstanceNorm1d>;
template class ModuleOf<LazyInstanceNorm2d>;
template class ModuleOf<LazyInstanceNorm3d>;

}  // namespace core
