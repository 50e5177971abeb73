#pragma once
// Schedules that go round, that look at a metric, and that put others together. As torch.optim.lr_scheduler's.
// Thread safety: as Optimizer. Use: core::OneCycleLR schedule(optimizer, {.max_lr = 1, .total_steps = 1000});

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/optim/schedule.h"

namespace core {

/// Multiplies the rate by a function of the epoch.
class MultiplicativeLR final : public LRScheduler {
 public:
  MultiplicativeLR(Optimizer& optimizer, EpochFunction factor, std::int64_t last_epoch = -1);
  /// One function a group. Error(value) "Expected 1 lr_lambdas, but got 2".
  MultiplicativeLR(Optimizer& optimizer, std::vector<EpochFunction> factors, std::int64_t last_epoch = -1);
  OptionMap state_dict() const override;

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override { return {}; }
  void set_options(const OptionMap&) override {}
  std::vector<EpochFunction> factors_;
};

/// A number for all groups, or one for each.
class PerGroup {
 public:
  PerGroup(double value) : values_{value}, for_all_(true) {}            // NOLINT(google-explicit-constructor)
  PerGroup(std::vector<double> values) : values_(std::move(values)) {}  // NOLINT(google-explicit-constructor)
  PerGroup(std::initializer_list<double> values) : values_(values) {}
  bool for_all() const { return for_all_; }
  std::size_t size() const { return values_.size(); }
  double operator[](std::size_t group) const { return values_[for_all_ ? 0 : group]; }
  /// One a group. Error(value) "max_lr must have the same length as optimizer.param_groups. ..." with the given name.
  std::vector<double> of(const Optimizer& optimizer, const char* name) const;

 private:
  std::vector<double> values_;
  bool for_all_ = false;
};

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

/// Multiplies the rate by `factor` when a metric has not become better for `patience` epochs.
class ReduceLROnPlateau {
 public:
  struct Options {
    std::string mode = "min";  ///< or "max"
    double factor = 0.1;
    std::int64_t patience = 10;
    double threshold = 1e-4;
    std::string threshold_mode = "rel";  ///< or "abs"
    std::int64_t cooldown = 0;
    PerGroup min_lr = 0.0;
    double eps = 1e-8;
  };
  /// Errors(value): "Factor should be < 1.0.", "mode x is unknown!", "threshold mode x is unknown!".
  explicit ReduceLROnPlateau(Optimizer& optimizer) : ReduceLROnPlateau(optimizer, Options()) {}
  ReduceLROnPlateau(Optimizer& optimizer, Options options);

  /// With an epoch: warns, and counts on from there.
  void step(double metric, std::optional<std::int64_t> epoch = {});
  const std::vector<double>& last_lr() const { return last_lr_; }
  std::int64_t last_epoch() const { return last_epoch_; }
  OptionMap state_dict() const;
  /// Error(key) when an entry is missing.
  void load_state_dict(const OptionMap& state);

 private:
  bool is_better(double metric) const;
  void reduce();
  void check() const;
  void remember_rates();
  Optimizer& optimizer_;
  Options options_;
  std::vector<double> min_lrs_, last_lr_;
  double best_;
  std::int64_t last_epoch_ = 0, bad_epochs_ = 0, cooldown_left_ = 0;
};

/// One schedule after the other: schedule i + 1 begins at epoch milestones[i].
class SequentialLR final : public LRScheduler {
 public:
  /// Error(value) when the counts do not fit, or a schedule belongs to another optimizer.
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules,
               std::vector<std::int64_t> milestones);
  /// Error(type) when an epoch is given.
  void step(std::optional<std::int64_t> epoch = {}) override;
  OptionMap state_dict() const override;
  void load_state_dict(const OptionMap& state) override;
  void undo_initial_step() override;

 private:
  double next_lr(const Group& group) const override { return group.lr; }
  OptionMap options() const override { return {}; }
  void set_options(const OptionMap&) override {}
  std::vector<std::shared_ptr<LRScheduler>> schedules_;
  std::vector<std::int64_t> milestones_;
};

/// All schedules at once.
class ChainedScheduler final : public LRScheduler {
 public:
  /// Error(value) without schedules, or when one belongs to another optimizer.
  explicit ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedules);
  ChainedScheduler(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules);
  /// Error(type) when an epoch is given.
  void step(std::optional<std::int64_t> epoch = {}) override;
  OptionMap state_dict() const override;
  void load_state_dict(const OptionMap& state) override;
  void undo_initial_step() override;

 private:
  double next_lr(const Group& group) const override { return group.lr; }
  OptionMap options() const override { return {}; }
  void set_options(const OptionMap&) override {}
  std::vector<std::shared_ptr<LRScheduler>> schedules_;
};

}  // namespace core
