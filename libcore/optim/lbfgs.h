#pragma once
// LBFGS: a quasi-Newton method over all parameters at once, with the strong-Wolfe line search. As torch.optim.LBFGS.
// Thread safety: as Optimizer.
// Use: core::LBFGS optimizer(model.parameters(), {.line_search_fn = "strong_wolfe"});
//      optimizer.step([&] { optimizer.zero_grad(); core::Tensor loss = criterion(model(x), y); loss.backward(); return
//      loss; });
// Source: Nocedal and Wright, "Numerical Optimization", 2006, algorithms 3.5, 3.6 and 7.5.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcore/optim/optimizer.h"

namespace core {

struct LBFGSOptions {
  Scalar lr = 1;
  std::int64_t max_iter = 20;                 ///< directions in one step
  std::optional<std::int64_t> max_eval = {};  ///< calls of the closure in one step; max_iter * 5 / 4
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  std::int64_t history_size = 100;
  std::string line_search_fn = {};  ///< "strong_wolfe", or none
  bool maximize = false;
};

class LBFGS final : public Optimizer {
 public:
  /// Errors: Error(value) "Invalid learning rate: -1"; Error(runtime) "only 'strong_wolfe' is supported" from step().
  explicit LBFGS(const std::vector<Tensor>& params, const LBFGSOptions& options = {});

  /// Error(type) from step() without a closure.
  using Optimizer::step;
  /// The loss of the first call.
  Tensor step(const Closure& closure) override;

 private:
  struct Point {
    double loss;
    Tensor gradient;  ///< of all parameters, flat
  };
  struct Curvature {
    std::vector<Tensor> directions, steps, ro;
    Tensor h_diag;  ///< undefined: 1
  };

  void update(const ParamGroup& group) override;
  void save_values(OptimizerState& state) const override;
  void load_values(const OptimizerState& state) override;

  void run(const Closure& closure, Tensor& first_loss);
  Point evaluate(const Closure& closure, Tensor* loss = nullptr);
  Point evaluate_at(const Closure& closure, const std::vector<Tensor>& start, double t);
  Tensor flat_gradient() const;
  void add_direction(double t);
  void remember_curvature(const Tensor& gradient, std::int64_t history_size);
  Tensor new_direction(const Tensor& gradient) const;
  void put_tensors();

  std::int64_t func_evals_ = 0, n_iter_ = 0;
  Tensor direction_, previous_gradient_;
  double t_ = 0, previous_loss_ = 0;
  Curvature curvature_;
};

namespace detail {

/// A point on the line of a search.
struct LinePoint {
  double t = 0;
  double loss = 0;
  Tensor gradient;
  double slope = 0;  ///< gradient . direction
};
struct WolfeSearch {
  std::function<std::pair<double, Tensor>(double t)> evaluate;  ///< loss and gradient at start + t * direction
  Tensor direction;
  double tolerance_change = 1e-9;
  std::int64_t max_steps = 25;
};
struct WolfeResult {
  LinePoint point;
  std::int64_t evaluations = 0;
};
/// A point that satisfies the strong Wolfe conditions, or the best found. `start.t` is the first step to try.
WolfeResult strong_wolfe(const WolfeSearch& search, const LinePoint& start);

}  // namespace detail
}  // namespace core
