#pragma once
// Schedules that go round. As torch.optim.lr_scheduler's. Thread safety: as Optimizer.
// Use: core::OneCycleLR schedule(optimizer, {.max_lr = 1, .total_steps = 1000});

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/optim/schedule.h"

namespace core {

/// Down half a cosine in T_0 epochs, then again from the top, each time T_mult times as long.
class CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  struct Options {
    std::int64_t T_0 = 1;
    std::int64_t T_mult = 1;
    double eta_min = 0;
  };
  /// Error(value) "Expected positive integer T_0, but got 0".
  CosineAnnealingWarmRestarts(Optimizer& optimizer, Options options, std::int64_t last_epoch = -1);
  void step(std::optional<std::int64_t> epoch = {}) override;
  /// Goes to any place, also inside an epoch: step_at(epoch + batch / batches). Error(value) when it is negative.
  void step_at(double epoch);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
  std::int64_t length_;
  double passed_ = 0;
};

/// Up from max_lr / div_factor to max_lr and far down, once; momentum (or beta1) the other way round.
class OneCycleLR final : public LRScheduler {
 public:
  struct Options {
    PerGroup max_lr = 1;
    std::optional<std::int64_t> total_steps = {};  ///< or epochs and steps_per_epoch
    std::optional<std::int64_t> epochs = {};
    std::optional<std::int64_t> steps_per_epoch = {};
    double pct_start = 0.3;
    std::string anneal_strategy = "cos";  ///< or "linear"
    bool cycle_momentum = true;
    PerGroup base_momentum = 0.85;
    PerGroup max_momentum = 0.95;
    double div_factor = 25;
    double final_div_factor = 1e4;
    bool three_phase = false;
  };
  /// Errors(value): PyTorch's texts, such as "You must define either total_steps OR (epochs AND steps_per_epoch)".
  OneCycleLR(Optimizer& optimizer, const Options& options, std::int64_t last_epoch = -1);

 private:
  struct Phase {
    double end_step;
    std::string start_lr, end_lr, start_momentum, end_momentum;
  };
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  double anneal(double from, double to, double part) const;
  Options options_;
  std::int64_t total_steps_;
  std::vector<Phase> phases_;
};

/// Up and down between base_lr and max_lr, again and again; momentum the other way round.
class CyclicLR final : public LRScheduler {
 public:
  struct Options {
    PerGroup base_lr = 0.0;
    PerGroup max_lr = 1;
    std::int64_t step_size_up = 2000;
    std::optional<std::int64_t> step_size_down = {};  ///< as step_size_up
    std::string mode = "triangular";                  ///< or "triangular2", "exp_range"
    double gamma = 1;
    std::function<double(double)> scale_fn = {};  ///< in place of `mode`
    std::string scale_mode = "cycle";             ///< of scale_fn: what it is given; or "iterations"
    bool cycle_momentum = true;
    PerGroup base_momentum = 0.8;
    PerGroup max_momentum = 0.9;
  };
  /// Errors(value): PyTorch's texts, such as "optimizer must support momentum or beta1 with `cycle_momentum` option
  /// enabled".
  CyclicLR(Optimizer& optimizer, const Options& options, std::int64_t last_epoch = -1);
  OptionMap state_dict() const override;

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  double height(double x) const;
  Options options_;
  std::vector<double> max_lrs_, base_momentums_, max_momentums_;
  double total_size_, step_ratio_;
};

}  // namespace core
