#include "libcore/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/host_array.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::check_option;

constexpr const char* kAdjustments[] = {"original", "match_rms_adamw", "spectral_unclamped"};

OptionMap checked_defaults(const MuonOptions& o) {
  check_option(o.lr.to_double() >= 0, "Learning rate should be >= 0 but is", o.lr);
  check_option(o.momentum.to_double() >= 0, "momentum should be >= 0 but is", o.momentum);
  check_option(o.weight_decay.to_double() >= 0, "weight decay should be >= 0 but is", o.weight_decay);
  const bool known = o.adjust_lr_fn.empty() || std::find(std::begin(kAdjustments), std::end(kAdjustments),
                                                         o.adjust_lr_fn) != std::end(kAdjustments);
  if (!known) {
    throw Error(ErrorCode::value, "Adjust learning rate function " + o.adjust_lr_fn + " is not supported");
  }
  return {{"lr", o.lr},
          {"weight_decay", o.weight_decay},
          {"momentum", o.momentum},
          {"nesterov", Scalar(o.nesterov)},
          {"ns_coefficients", std::vector<Scalar>(o.ns_coefficients.begin(), o.ns_coefficients.end())},
          {"eps", o.eps},
          {"ns_steps", Scalar(o.ns_steps)},
          {"adjust_lr_fn", o.adjust_lr_fn.empty() ? OptionValue() : OptionValue(o.adjust_lr_fn)}};
}

/// A matrix near the orthogonal one of the same singular vectors.
Tensor orthogonalised(const Tensor& grad, const OptionMap& o) {
  const std::vector<double> k = o.numbers("ns_coefficients");
  const std::int64_t steps = o.integer("ns_steps");
  if (steps >= 100) {
    throw Error(ErrorCode::value, "Number of steps must be less than 100 for computational efficiency");
  }
  if (k.size() != 3) throw Error(ErrorCode::value, "Coefficients must be a tuple of exactly 3 values");
  const bool tall = grad.size(0) > grad.size(1);
  Tensor x = grad.to(DType::bf16);
  if (tall) x = x.t();
  x = x / clamp(norm(x), o.number("eps"));
  for (std::int64_t i = 0; i < steps; ++i) {
    const Tensor gram = matmul(x, x.t());
    x = addmm(x, addmm(gram, gram, gram, k[1], k[2]), x, k[0]);
  }
  return tall ? x.t() : x;
}

double adjusted_rate(double lr, const OptionMap& o, const Tensor& param) {
  const auto rows = static_cast<double>(param.size(0)), columns = static_cast<double>(param.size(1));
  const OptionValue& how = o.at("adjust_lr_fn");
  const std::string name = std::holds_alternative<std::monostate>(how) ? "original" : o.text("adjust_lr_fn");
  if (name == "match_rms_adamw") return lr * 0.2 * std::sqrt(std::max(rows, columns));
  if (name == "spectral_unclamped") return lr * std::sqrt(rows / columns);
  return lr * std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace

Muon::Muon(std::vector<ParamGroup> groups, const MuonOptions& options)
    : Optimizer("Muon", std::move(groups), checked_defaults(options)) {
  for (const ParamGroup& group : param_groups()) {
    for (const Tensor& param : group.params) {
      if (param.dim() == 2) continue;
      throw Error(ErrorCode::value,
                  "Muon only supports 2D parameters whereas we found a parameter with size: "
                  "torch.Size(" +
                      to_list(param.sizes()) + ")");
    }
  }
}

void Muon::update(const ParamGroup& group) {
  const OptionMap& o = group.options;
  const double lr = o.number("lr"), momentum = o.number("momentum");
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    const Tensor buffer = detail::state_tensor(state, "momentum_buffer", param);
    buffer.lerp_(grad, 1 - momentum);
    const Tensor change = orthogonalised(o.flag("nesterov") ? lerp(grad, buffer, momentum) : buffer, o);
    const Tensor values = param.detach();
    values.mul_(1 - lr * o.number("weight_decay"));
    values.add_(change, -adjusted_rate(lr, o, param));
  });
}

}  // namespace core
