#pragma once
// Parts that several image models share. Their names, order and printed text are torchvision's, which keeps keys and
// files the same. Thread safety: as core::Module.
// Use: zoo::detail::Conv2dNormActivation stem(3, 32, {.stride = 2, .activation = zoo::detail::Act::relu6});

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/module.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace zoo::detail {

/// A Sequential under another class name.
template <class Derived>
struct SequentialOf : core::ModuleOf<Derived>, core::ModuleEntries {
  SequentialOf() : core::ModuleOf<Derived>(core::OnBehalf()) {}
  void push_back(core::AnyModule module) { this->add(std::to_string(this->size()), std::move(module)); }
  void add_module(std::string name, core::AnyModule module) { this->add(std::move(name), std::move(module)); }
  void members(core::Members& m) override { this->list(m); }
  core::Tensor forward(const core::Tensor& x) {
    core::Tensor h = x;
    for (const auto& entry : this->entries()) h = entry.second->call(h);
    return h;
  }
};

enum class Act { none, relu, relu6, hardswish, silu };
/// The module, working in place as torchvision's do. REQUIRES: not Act::none.
core::AnyModule make_activation(Act act);

struct ConvNormActOptions {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  std::int64_t dilation = 1;
  core::BatchNormOptions norm = {};
  Act activation = Act::relu;
};
/// Convolution without bias that keeps the size (before the stride), batch norm, activation.
/// (n, in, h, w) -> (n, out, h / stride, w / stride), rounded up.
template <class Derived>
struct ConvNormActOf : SequentialOf<Derived> {
  ConvNormActOf() = default;
  ConvNormActOf(std::int64_t in, std::int64_t out, const ConvNormActOptions& o) {
    this->push_back(core::Conv2d(in, out, o.kernel,
                                 {.stride = o.stride,
                                  .padding = (o.kernel - 1) / 2 * o.dilation,
                                  .dilation = o.dilation,
                                  .groups = o.groups,
                                  .bias = false}));
    this->push_back(core::BatchNorm2d(out, o.norm));
    if (o.activation != Act::none) this->push_back(make_activation(o.activation));
  }
};
struct Conv2dNormActivation : ConvNormActOf<Conv2dNormActivation> {
  using ConvNormActOf::ConvNormActOf;
};

/// Scales each channel by what two 1 x 1 convolutions make of the channels' means.
struct SqueezeExcitation : core::ModuleOf<SqueezeExcitation> {
  struct Options {
    std::int64_t squeezed = 1;
    core::AnyModule activation;
    core::AnyModule scale_activation;
  };
  core::AdaptiveAvgPool2d avgpool;
  core::Conv2d fc1;
  core::Conv2d fc2;
  std::shared_ptr<core::Module> activation;
  std::shared_ptr<core::Module> scale_activation;

  SqueezeExcitation(std::int64_t channels, const Options& options);
  void members(core::Members& m) override;
  /// (n, channels, h, w) -> the same.
  core::Tensor forward(const core::Tensor& x);
};

/// In training, leaves out the branch of a whole sample with probability p.
struct StochasticDepth : core::ModuleOf<StochasticDepth> {
  double p;
  explicit StochasticDepth(double probability) : p(probability) {}
  void members(core::Members&) override {}
  std::string extra_repr() const override;
  core::Tensor forward(const core::Tensor& x) const;
};

/// The same as Hugging Face's models have it: a class for each kind, a generator drawn from for every sample.
struct DropPath : core::ModuleOf<DropPath> {
  std::string kind;
  double p;
  DropPath(std::string kind_name, double probability) : kind(std::move(kind_name)), p(probability) {}
  std::string class_name() const override { return kind + "DropPath"; }
  void members(core::Members&) override {}
  std::string extra_repr() const override;
  core::Tensor forward(const core::Tensor& x) const;
};
/// One with a probability above 0, else Identity.
std::shared_ptr<core::Module> drop_path(std::string kind, double probability);

struct Permute : core::ModuleOf<Permute> {
  core::Shape dims;
  explicit Permute(core::Shape order) : dims(std::move(order)) {}
  void members(core::Members&) override {}
  core::Tensor forward(const core::Tensor& x) const { return x.permute(dims); }
};

/// The two linear layers of a transformer: Linear, GELU, Dropout, Linear, Dropout, drawn Xavier-uniform.
/// (..., width) -> the same.
struct MlpOptions {
  std::int64_t width = 1;
  std::int64_t hidden = 1;
  double dropout = 0;
};
template <class Derived>
struct MlpOf : SequentialOf<Derived> {
  explicit MlpOf(const MlpOptions& options);
};
struct MLP : MlpOf<MLP> {
  using MlpOf::MlpOf;
};
/// The same under the name and version that vision transformers give it.
struct MLPBlock : MlpOf<MLPBlock> {
  using MlpOf::MlpOf;
  int version() const override { return 2; }
};

/// `value` rounded to a multiple of `divisor`, never down by more than a tenth.
std::int64_t make_divisible(double value, std::int64_t divisor = 8);

/// Every module of the model that is an M, in the order of modules().
template <class M>
std::vector<M*> modules_of(core::Module& model) {
  std::vector<M*> found;
  for (const auto& [name, module] : model.named_modules()) {
    if (auto* match = dynamic_cast<M*>(module)) found.push_back(match);
  }
  return found;
}
/// Visits convolutions and linear layers together, in the order of modules(), as initialisation loops do.
template <class OnConv, class OnLinear>
void init_layers(core::Module& model, OnConv on_conv, OnLinear on_linear) {
  for (const auto& [name, module] : model.named_modules()) {
    if (auto* conv = dynamic_cast<core::Conv2d*>(module)) on_conv(*conv);
    if (auto* linear = dynamic_cast<core::Linear*>(module)) on_linear(*linear);
  }
}
/// Kaiming-normal by fan_out, bias 0.
void init_kaiming_fan_out(core::Conv2d& conv);
/// N(0, std), bias 0.
void init_normal(core::Linear& linear, double std);

}  // namespace zoo::detail
