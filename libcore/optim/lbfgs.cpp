#include "libcore/optim/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

OptionMap checked_defaults(const LBFGSOptions& o) {
  detail::check_option(o.lr.to_double() >= 0, "Invalid learning rate", o.lr);
  const OptionValue search = o.line_search_fn.empty() ? OptionValue() : OptionValue(o.line_search_fn);
  return {{"lr", o.lr},
          {"max_iter", Scalar(o.max_iter)},
          {"max_eval", Scalar(o.max_eval.value_or(o.max_iter * 5 / 4))},
          {"tolerance_grad", Scalar(o.tolerance_grad)},
          {"tolerance_change", Scalar(o.tolerance_change)},
          {"history_size", Scalar(o.history_size)},
          {"line_search_fn", search},
          {"maximize", Scalar(o.maximize)}};
}

double value_of(const Tensor& tensor) {
  return tensor.item<double>();
}
double largest(const Tensor& tensor) {
  return value_of(abs(tensor).max());
}

bool has_line_search(const OptionMap& options) {
  const OptionValue& search = options.at("line_search_fn");
  if (std::holds_alternative<std::monostate>(search)) return false;
  if (options.text("line_search_fn") != "strong_wolfe") {
    throw Error(ErrorCode::runtime, "only 'strong_wolfe' is supported");
  }
  return true;
}

Tensor taken(const ParamState& state, const char* name) {
  for (const auto& [key, value] : state) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace

LBFGS::LBFGS(const std::vector<Tensor>& params, const LBFGSOptions& options)
    : Optimizer("LBFGS", detail::one_group(params), checked_defaults(options)) {}

void LBFGS::update(const ParamGroup&) {
  throw Error(ErrorCode::type, "LBFGS.step() missing 1 required positional argument: 'closure'");
}

Tensor LBFGS::step(const Closure& closure) {
  const detail::AnnotationScope event([this] { return event_name("step"); });
  Tensor first_loss;
  run_step([&] { run(closure, first_loss); });
  return first_loss;
}

Tensor LBFGS::flat_gradient() const {
  std::vector<Tensor> parts;
  for (const Tensor& param : param_groups()[0].params) {
    Tensor grad = param.grad();
    if (grad.defined()) grad = to_dense(grad);
    parts.push_back(grad.defined() ? grad.detach().reshape({-1}) : zeros_like(param.detach()).reshape({-1}));
  }
  const Tensor flat = cat(parts);
  return param_groups()[0].options.flag("maximize") ? neg(flat) : flat;
}

LBFGS::Point LBFGS::evaluate(const Closure& closure, Tensor* loss) {
  Tensor value;
  {
    const GradModeGuard grad(true);
    value = closure();
  }
  if (loss != nullptr) *loss = value;
  const double sign = param_groups()[0].options.flag("maximize") ? -1 : 1;
  return {sign * value_of(value), flat_gradient()};
}

/// Adds t times the direction to the parameters.
void LBFGS::add_direction(double t) {
  std::int64_t offset = 0;
  for (const Tensor& param : param_groups()[0].params) {
    param.add_(direction_.narrow(0, offset, param.numel()).view(param.sizes()), t);
    offset += param.numel();
  }
}

LBFGS::Point LBFGS::evaluate_at(const Closure& closure, const std::vector<Tensor>& start, double t) {
  add_direction(t);
  Point point = evaluate(closure);
  for (std::size_t i = 0; i < start.size(); ++i) param_groups()[0].params[i].copy_(start[i]);
  return point;
}

void LBFGS::remember_curvature(const Tensor& gradient, std::int64_t history_size) {
  const Tensor y = gradient - previous_gradient_, s = direction_ * t_;
  const Tensor ys = dot(y, s);
  if (!(value_of(ys) > 1e-10)) return;
  Curvature& c = curvature_;
  if (static_cast<std::int64_t>(c.directions.size()) == history_size) {
    for (std::vector<Tensor>* list : {&c.directions, &c.steps, &c.ro}) list->erase(list->begin());
  }
  c.directions.push_back(y);
  c.steps.push_back(s);
  c.ro.push_back(reciprocal(ys));
  c.h_diag = ys / dot(y, y);
}

/// Minus the gradient times the inverse Hessian that the remembered steps tell of: two loops over them.
Tensor LBFGS::new_direction(const Tensor& gradient) const {
  const Curvature& c = curvature_;
  const std::size_t count = c.directions.size();
  std::vector<double> al(count);
  const Tensor q = neg(gradient);
  for (std::size_t i = count; i-- > 0;) {
    al[i] = value_of(dot(c.steps[i], q) * c.ro[i]);
    q.add_(c.directions[i], -al[i]);
  }
  const Tensor r = c.h_diag.defined() ? q * c.h_diag : q.clone();
  for (std::size_t i = 0; i < count; ++i) {
    const double be = value_of(dot(c.directions[i], r) * c.ro[i]);
    r.add_(c.steps[i], al[i] - be);
  }
  return r;
}

void LBFGS::run(const Closure& closure, Tensor& first_loss) {
  const OptionMap& o = param_groups()[0].options;
  const double tolerance_grad = o.number("tolerance_grad"), tolerance_change = o.number("tolerance_change");
  const std::int64_t max_iter = o.integer("max_iter"), max_eval = o.integer("max_eval");
  Point now = evaluate(closure, &first_loss);
  std::int64_t evaluations = 1;
  ++func_evals_;
  if (largest(now.gradient) <= tolerance_grad) return;
  for (std::int64_t n = 1; n <= max_iter; ++n) {
    if (++n_iter_ == 1) {
      curvature_ = {};
      direction_ = neg(now.gradient);
      t_ = std::min(1.0, 1.0 / value_of(abs(now.gradient).sum())) * o.number("lr");
    } else {
      remember_curvature(now.gradient, o.integer("history_size"));
      direction_ = new_direction(now.gradient);
      t_ = o.number("lr");
    }
    previous_gradient_ = now.gradient.clone();
    previous_loss_ = now.loss;
    const double slope = value_of(dot(now.gradient, direction_));
    if (slope > -tolerance_change) break;
    std::int64_t more = 0;
    if (has_line_search(o)) {
      std::vector<Tensor> start;
      for (const Tensor& param : param_groups()[0].params) start.push_back(param.detach().clone());
      const auto at = [&](double t) {
        Point point = evaluate_at(closure, start, t);
        return std::make_pair(point.loss, std::move(point.gradient));
      };
      const auto found =
          detail::strong_wolfe({at, direction_, 1e-9, max_eval - evaluations}, {t_, now.loss, now.gradient, slope});
      now = {found.point.loss, found.point.gradient};
      t_ = found.point.t;
      more = found.evaluations;
      add_direction(t_);
    } else {
      add_direction(t_);
      if (n != max_iter) {
        now = evaluate(closure);
        more = 1;
      }
    }
    evaluations += more;
    func_evals_ += more;
    const bool small_step = largest(direction_ * t_) <= tolerance_change;
    const bool small_gain = std::abs(now.loss - previous_loss_) < tolerance_change;
    if (evaluations >= max_eval || largest(now.gradient) <= tolerance_grad || small_step || small_gain) break;
  }
  put_tensors();
}

/// The tensors of the state stand with the first parameter, where state_dict() finds them.
void LBFGS::put_tensors() {
  ParamState& state = mutable_state_of(param_groups()[0].params[0]);
  state = {{"d", direction_}, {"prev_flat_grad", previous_gradient_}};
  if (curvature_.h_diag.defined()) state.emplace_back("H_diag", curvature_.h_diag);
}

void LBFGS::save_values(OptimizerState& state) const {
  if (func_evals_ == 0) return;
  auto& values = state.values.emplace_back(0, decltype(state.values)::value_type::second_type()).second;
  values.emplace_back("func_evals", Scalar(func_evals_));
  values.emplace_back("n_iter", Scalar(n_iter_));
  if (!direction_.defined()) return;
  values.emplace_back("t", Scalar(t_));
  values.emplace_back("old_dirs", curvature_.directions);
  values.emplace_back("old_stps", curvature_.steps);
  values.emplace_back("ro", curvature_.ro);
  if (!curvature_.h_diag.defined()) values.emplace_back("H_diag", Scalar(1));
  values.emplace_back("prev_loss", Scalar(previous_loss_));
}

void LBFGS::load_values(const OptimizerState& state) {
  func_evals_ = n_iter_ = 0;
  t_ = previous_loss_ = 0;
  const Tensor& first = param_groups()[0].params[0];
  const ParamState& tensors = state_of(first);
  curvature_ = {.directions = {}, .steps = {}, .ro = {}, .h_diag = taken(tensors, "H_diag")};
  direction_ = taken(tensors, "d");
  previous_gradient_ = taken(tensors, "prev_flat_grad");
  if (const Tensor t = taken(tensors, "t"); t.defined()) t_ = value_of(t);
  if (state.values.empty()) return;
  for (const auto& [name, value] : state.values[0].second) {
    if (const auto* number = std::get_if<Scalar>(&value)) {
      if (name == "func_evals") func_evals_ = number->to_int();
      if (name == "n_iter") n_iter_ = number->to_int();
      if (name == "t") t_ = number->to_double();
      if (name == "prev_loss") previous_loss_ = number->to_double();
      continue;
    }
    for (const Tensor& tensor : std::get<std::vector<Tensor>>(value)) {
      const Tensor copy = tensor.to(first.device(), first.dtype()).clone();
      if (name == "old_dirs") curvature_.directions.push_back(copy);
      if (name == "old_stps") curvature_.steps.push_back(copy);
      if (name == "ro") curvature_.ro.push_back(copy);
    }
  }
}

}  // namespace core
