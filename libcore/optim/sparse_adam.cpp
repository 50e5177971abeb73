#include "libcore/optim/sparse_adam.h"

#include <cmath>

#include "libcore/base/error.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/host_array.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::check_option;

OptionMap checked_defaults(const SparseAdamOptions& o) {
  const double first = o.betas.first.to_double(), second = o.betas.second.to_double();
  check_option(o.lr.to_double() > 0, "Invalid learning rate", o.lr);
  check_option(o.eps.to_double() > 0, "Invalid epsilon value", o.eps);
  check_option(first >= 0 && first < 1, "Invalid beta parameter at index 0", o.betas.first);
  check_option(second >= 0 && second < 1, "Invalid beta parameter at index 1", o.betas.second);
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

}  // namespace core
