#include "libcore/optim/more_optimizers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/base/error.h"
#include "libcore/optim/host_array.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/sparse.h"

namespace core {
namespace {

void require(bool ok, const std::string& text, const Scalar& value) {
  if (!ok) throw Error(ErrorCode::value, text + to_string(OptionValue(value)));
}

// --- SparseAdam

OptionMap checked_defaults(const SparseAdamOptions& o) {
  const double first = o.betas.first.to_double(), second = o.betas.second.to_double();
  require(o.lr.to_double() > 0, "Invalid learning rate: ", o.lr);
  require(o.eps.to_double() > 0, "Invalid epsilon value: ", o.eps);
  require(first >= 0 && first < 1, "Invalid beta parameter at index 0: ", o.betas.first);
  require(second >= 0 && second < 1, "Invalid beta parameter at index 1: ", o.betas.second);
  return {{"lr", o.lr},
          {"betas", std::vector<Scalar>{o.betas.first, o.betas.second}},
          {"eps", o.eps},
          {"maximize", Scalar(o.maximize)}};
}

struct SparseAdamStep {
  double lr, beta1, beta2, eps;
  bool maximize;
  double step;
};

void update_sparse_adam(const Tensor& param, const Tensor& given, const Tensor& average, const Tensor& square,
                        const SparseAdamStep& how) {
  const Tensor grad = coalesce(how.maximize ? given * -1 : given);
  const Tensor indices = sparse_indices(grad), values = sparse_values(grad);
  if (values.numel() == 0) return;
  const auto add_rows = [&](const Tensor& to, const Tensor& rows) {
    to.add_(sparse_coo_tensor(indices, rows, grad.sizes()));
  };
  const Tensor old_average = detail::rows_at(average, indices), old_square = detail::rows_at(square, indices);
  const Tensor more = (values - old_average) * (1 - how.beta1);
  const Tensor more_square = (values * values - old_square) * (1 - how.beta2);
  add_rows(average, more);
  add_rows(square, more_square);
  const Tensor root = (more_square + old_square).sqrt() + how.eps;
  const double correction1 = 1 - std::pow(how.beta1, how.step), correction2 = 1 - std::pow(how.beta2, how.step);
  const double size = how.lr * std::sqrt(correction2) / correction1;
  add_rows(param.detach(), (more + old_average) / root * -size);
}

// --- Adafactor

OptionMap checked_defaults(const AdafactorOptions& o) {
  require(o.lr.to_double() >= 0, "Learning rate should be >= 0 but is: ", o.lr);
  require(o.beta2_decay.to_double() <= 0, "beta2_decay should be <= 0 but is: ", o.beta2_decay);
  if (o.eps.first) require(o.eps.first->to_double() >= 0, "epsilon1 should be >= 0 but is: ", *o.eps.first);
  require(o.eps.second.to_double() >= 0, "epsilon2 should be >= 0 but is: ", o.eps.second);
  require(o.d.to_double() >= 1, "Clipping threshold d should be >= 1 but is: ", o.d);
  require(o.weight_decay.to_double() >= 0, "weight_decay should be >= 0 but is: ", o.weight_decay);
  OptionValue eps = std::vector<std::optional<Scalar>>{o.eps.first, o.eps.second};
  if (o.eps.first) eps = std::vector<Scalar>{*o.eps.first, o.eps.second};
  return {{"lr", o.lr},    {"beta2_decay", o.beta2_decay},  {"eps", eps}, {"d", o.d}, {"weight_decay", o.weight_decay},
          {"foreach", {}}, {"maximize", Scalar(o.maximize)}};
}

struct AdafactorStep {
  double lr, beta2_decay, eps1, eps2, d, weight_decay;
};

double eps_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f16:
      return 0.0009765625;
    case DType::bf16:
      return 0.0078125;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

AdafactorStep adafactor_step(const OptionMap& o, DType dtype) {
  AdafactorStep how{o.number("lr"), o.number("beta2_decay"), eps_of(dtype), 0, o.number("d"), o.number("weight_decay")};
  if (const auto* some = std::get_if<std::vector<std::optional<Scalar>>>(&o.at("eps"))) {
    if ((*some)[0]) how.eps1 = (*some)[0]->to_double();
    how.eps2 = (*some)[1]->to_double();
  } else {
    const std::vector<double> eps = o.numbers("eps");
    how.eps1 = eps[0], how.eps2 = eps[1];
  }
  return how;
}

double length(const Tensor& x) {
  return norm(x).item<double>();
}

/// The mean of the squares along `dim`, as a moving average.
Tensor factor(ParamState& state, const char* name, const Tensor& grad, std::int64_t dim, double weight) {
  Tensor moment = detail::find_state(state, name);
  if (!moment.defined()) {
    Shape sizes = grad.sizes();
    sizes[static_cast<std::size_t>(grad.dim() + dim)] = 1;
    moment = zeros(sizes, {.dtype = grad.dtype(), .device = grad.device()});
    state.emplace_back(name, moment);
  }
  const Tensor root = norm(grad, {.dims = {dim}, .keepdim = true});
  moment.lerp_(root * root / grad.size(dim), weight);
  return moment;
}

/// An estimate of the squared gradient, once `state` has seen this one.
Tensor second_moment(const Tensor& grad, ParamState& state, double weight, double eps1) {
  if (grad.dim() < 2) {
    const Tensor variance = detail::state_tensor(state, "variance", grad);
    variance.lerp_(grad * grad, weight);
    return variance.clone();
  }
  const Tensor rows = factor(state, "row_var", grad, -1, weight), columns = factor(state, "col_var", grad, -2, weight);
  return matmul(rows, columns) / clamp(rows.mean(Shape{-2}, true), Scalar(eps1));
}

void update_adafactor(const Tensor& param, const Tensor& grad, ParamState& state, const AdafactorStep& how) {
  const double step = detail::count_step(state);
  const double rate = std::min(how.lr, 1 / std::sqrt(step));
  const auto root_of_count = std::sqrt(static_cast<double>(param.numel()));
  const double alpha = std::max(how.eps2, length(param) / root_of_count) * rate;
  if (how.weight_decay != 0) param.mul_(1 - how.lr * how.weight_decay);
  const Tensor moment = second_moment(grad, state, std::pow(step, how.beta2_decay), how.eps1);
  const Tensor change = rsqrt(clamp(moment, Scalar(how.eps1 * how.eps1))) * grad;
  const double clip = std::max(1.0, length(change) / (root_of_count * how.d));
  param.add_(change, -alpha / clip);
}

// --- Muon

constexpr const char* kAdjustments[] = {"original", "match_rms_adamw", "spectral_unclamped"};

OptionMap checked_defaults(const MuonOptions& o) {
  require(o.lr.to_double() >= 0, "Learning rate should be >= 0 but is: ", o.lr);
  require(o.momentum.to_double() >= 0, "momentum should be >= 0 but is: ", o.momentum);
  require(o.weight_decay.to_double() >= 0, "weight decay should be >= 0 but is: ", o.weight_decay);
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

SparseAdam::SparseAdam(std::vector<ParamGroup> groups, const SparseAdamOptions& options)
    : Optimizer("SparseAdam", std::move(groups), checked_defaults(options)) {
  take_sparse();
}

void SparseAdam::update(const ParamGroup& group) {
  const OptionMap& o = group.options;
  const std::vector<double> betas = o.numbers("betas");
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    if (!grad.is_sparse()) {
      throw Error(ErrorCode::runtime, "SparseAdam does not support dense gradients, please consider Adam instead");
    }
    const Tensor average = detail::state_tensor(state, "exp_avg", param);
    const Tensor square = detail::state_tensor(state, "exp_avg_sq", param);
    const double step = detail::count_step(state);
    update_sparse_adam(param, grad, average, square,
                       {o.number("lr"), betas[0], betas[1], o.number("eps"), o.flag("maximize"), step});
  });
}

Adafactor::Adafactor(std::vector<ParamGroup> groups, const AdafactorOptions& options)
    : Optimizer("Adafactor", std::move(groups), checked_defaults(options)) {}

void Adafactor::update(const ParamGroup& group) {
  each_gradient(group, [&](const Tensor& param, const Tensor& grad, ParamState& state) {
    const AdafactorStep how = adafactor_step(group.options, param.dtype());
    update_adafactor(param.detach(), group.options.flag("maximize") ? -grad : grad, state, how);
  });
}

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
