#include "zoo/adapt.h"

#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/tensor.h"

namespace zoo {
namespace {

using core::Conv2d;
using core::Error;
using core::ErrorCode;
using core::Linear;
using core::Tensor;

template <class M>
std::vector<std::pair<std::string, M*>> layers_of(core::Module& model) {
  std::vector<std::pair<std::string, M*>> found;
  for (const auto& [path, module] : model.named_modules()) {
    if (auto* layer = dynamic_cast<M*>(module)) found.emplace_back(path, layer);
  }
  return found;
}

Linear resized(const Linear& old, std::int64_t out) {
  return Linear(old.in_features, out,
                {.bias = old.bias.defined(), .dtype = old.weight.dtype(), .device = old.weight.device()});
}

core::Conv2dLayerOptions options_of(const Conv2d& old) {
  return {.stride = old.options.stride,
          .padding = old.options.padding,
          .dilation = old.options.dilation,
          .groups = old.options.groups,
          .bias = old.bias.defined(),
          .dtype = old.weight.dtype(),
          .device = old.weight.device()};
}

bool is_auxiliary(const std::string& path) {
  return path.starts_with("aux") || path.starts_with("AuxLogits");
}

}  // namespace

std::vector<std::string> swap_head(core::Module& model, std::int64_t num_classes) {
  std::vector<std::string> paths;
  auto linears = layers_of<Linear>(model);
  if (!linears.empty()) {
    const std::int64_t old_classes = linears.back().second->out_features;
    for (auto& [path, linear] : linears) {
      const bool head = linear == linears.back().second;
      if (!head && !(is_auxiliary(path) && linear->out_features == old_classes)) continue;
      *linear = resized(*linear, num_classes);
      paths.push_back(path);
    }
    return paths;
  }
  auto convolutions = layers_of<Conv2d>(model);
  if (convolutions.empty()) throw Error(ErrorCode::type, "the model has no linear layer and no convolution");
  auto& [path, last] = convolutions.back();
  *last = Conv2d(last->in_channels, num_classes, last->kernel_size, options_of(*last));
  return {path};
}

std::string change_input_channels(core::Module& model, std::int64_t channels) {
  auto convolutions = layers_of<Conv2d>(model);
  if (convolutions.empty()) throw Error(ErrorCode::type, "the model has no convolution");
  auto& [path, first] = convolutions.front();
  if (first->in_channels == channels) return path;
  core::NoGradGuard no_grad;
  const std::int64_t old_channels = first->in_channels;
  Tensor summed = first->weight.sum({1}, true);  // (out, 1, kh, kw)
  Tensor weight = summed;
  if (channels > 1) {
    const std::int64_t times = (channels + old_channels - 1) / old_channels;
    Tensor repeated = first->weight.repeat({1, times, 1, 1}).slice(1, 0, channels);
    weight = repeated * (static_cast<double>(old_channels) / static_cast<double>(channels));
  }
  Conv2d wider(channels, first->out_channels, first->kernel_size, options_of(*first));
  wider.weight.detach().copy_(weight);
  wider.bias = first->bias;
  *first = std::move(wider);
  return path;
}

std::vector<Tensor> features(core::Module& model, const std::vector<std::string>& paths, const Tensor& x) {
  std::vector<Tensor> found(paths.size());
  std::vector<std::pair<core::Module*, std::int64_t>> hooks;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    core::Module& module = paths[i].empty() ? model : model.submodule(paths[i]);
    Tensor* place = &found[i];
    hooks.emplace_back(
        &module, module.register_forward_hook([place](core::Module&, const std::vector<Tensor>&, const Tensor& output) {
          *place = output;
          return Tensor();
        }));
  }
  auto remove = [&] {
    for (auto& [module, id] : hooks) module->remove_hook(id);
  };
  try {
    model.call(x);
  } catch (...) {
    remove();
    throw;
  }
  remove();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!found[i].defined()) {
      throw Error(ErrorCode::runtime, core::quote(paths[i]) + " gave no tensor in this call");
    }
  }
  return found;
}

}  // namespace zoo
