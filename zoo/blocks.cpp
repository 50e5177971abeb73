#include "zoo/blocks.h"

#include <algorithm>

#include "libcore/base/text.h"
#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/init.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace zoo::detail {

using core::Tensor;

core::AnyModule make_activation(Act act) {
  switch (act) {
    case Act::relu6:
      return core::ReLU6({.inplace = true});
    case Act::hardswish:
      return core::Hardswish({.inplace = true});
    case Act::silu:
      return core::SiLU({.inplace = true});
    case Act::none:
    case Act::relu:
      break;
  }
  return core::ReLU({.inplace = true});
}

SqueezeExcitation::SqueezeExcitation(std::int64_t channels, const Options& options)
    : avgpool(1),
      fc1(channels, options.squeezed, 1),
      fc2(options.squeezed, channels, 1),
      activation(options.activation.get()),
      scale_activation(options.scale_activation.get()) {}

void SqueezeExcitation::members(core::Members& m) {
  m.child("avgpool", avgpool).child("fc1", fc1).child("fc2", fc2);
  m.child("activation", activation).child("scale_activation", scale_activation);
}

Tensor SqueezeExcitation::forward(const Tensor& x) {  // (n, c, h, w)
  Tensor h = activation->call(fc1(avgpool(x)));       // (n, squeezed, 1, 1)
  return scale_activation->call(fc2(h)) * x;          // (n, c, h, w)
}

std::string StochasticDepth::extra_repr() const {
  return "p=" + core::python_float(p) + ", mode=row";
}

Tensor StochasticDepth::forward(const Tensor& x) const {
  if (!is_training() || p == 0) return x;
  core::Shape sizes = x.sizes();
  std::fill(sizes.begin() + 1, sizes.end(), 1);
  Tensor kept = core::empty(sizes, {.dtype = x.dtype(), .device = x.device()});  // (n, 1, ...)
  core::bernoulli_(kept, 1 - p);
  if (p < 1) kept.div_(1 - p);
  return x * kept;
}

std::string DropPath::extra_repr() const {
  return "p=" + core::python_float(p);
}

Tensor DropPath::forward(const Tensor& x) const {
  if (!is_training() || p == 0) return x;
  core::Shape sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[0] = x.size(0);
  const double kept = 1 - p;
  Tensor drawn = core::rand(sizes, {.dtype = x.dtype(), .device = x.device()});  // (n, 1, ...)
  return x / kept * core::floor(drawn + kept);
}

std::shared_ptr<core::Module> drop_path(std::string kind, double probability) {
  if (probability > 0) return std::make_shared<DropPath>(std::move(kind), probability);
  return std::make_shared<core::Identity>();
}

template <class Derived>
MlpOf<Derived>::MlpOf(const MlpOptions& o) {
  core::Linear first(o.width, o.hidden);
  core::Linear second(o.hidden, o.width);
  for (core::Linear* linear : {&first, &second}) {
    core::init::xavier_uniform_(linear->weight);
    core::init::normal_(linear->bias, 0, 1e-6);
  }
  this->push_back(std::move(first));
  this->push_back(core::GELU());
  this->push_back(core::Dropout(o.dropout));
  this->push_back(std::move(second));
  this->push_back(core::Dropout(o.dropout));
}
template struct MlpOf<MLP>;
template struct MlpOf<MLPBlock>;

std::int64_t make_divisible(double value, std::int64_t divisor) {
  std::int64_t half = static_cast<std::int64_t>(value + static_cast<double>(divisor) / 2) / divisor * divisor;
  std::int64_t rounded = std::max(divisor, half);
  return static_cast<double>(rounded) < 0.9 * value ? rounded + divisor : rounded;
}

void init_kaiming_fan_out(core::Conv2d& conv) {
  core::init::kaiming_normal_(conv.weight, {.mode = core::init::FanMode::out, .nonlinearity = "relu"});
  if (conv.bias.defined()) core::init::zeros_(conv.bias);
}

void init_normal(core::Linear& linear, double std) {
  core::init::normal_(linear.weight, 0, std);
  if (linear.bias.defined()) core::init::zeros_(linear.bias);
}

}  // namespace zoo::detail
