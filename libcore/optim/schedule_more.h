#pragma once
// Schedules that go round, that look at a metric, and that put others together. As torch.optim.lr_scheduler's.
// Thread safety: as Optimizer. Use: core::OneCycleLR schedule(optimizer, {.max_lr = 1, .total_steps = 1000});

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/optim/schedule.h"

namespace core {

/// Multiplies the rate by a function of the epoch.
class MultiplicativeLR final : public LRScheduler {
 public:
  MultiplicativeLR(Optimizer& optimizer, std::function<double(std::int64_t epoch)> factor);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override { return {}; }
  void set_options(const OptionMap&) override {}
  std::function<double(std::int64_t)> factor_;
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
  CosineAnnealingWarmRestarts(Optimizer& optimizer, Options options);
  void step() override;

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
  std::int64_t length_, passed_ = 0;
};

/// Up from max_lr / div_factor to max_lr and far down, once; momentum (or beta1) the other way round.
class OneCycleLR final : public LRScheduler {
 public:
  struct Options {
    double max_lr = 1;
    std::optional<std::int64_t> total_steps = {};  ///< or epochs and steps_per_epoch
    std::optional<std::int64_t> epochs = {};
    std::optional<std::int64_t> steps_per_epoch = {};
    double pct_start = 0.3;
    std::string anneal_strategy = "cos";  ///< or "linear"
    bool cycle_momentum = true;
    double base_momentum = 0.85;
    double max_momentum = 0.95;
    double div_factor = 25;
    double final_div_factor = 1e4;
    bool three_phase = false;
  };
  /// Errors(value): PyTorch's texts, such as "You must define either total_steps OR (epochs AND steps_per_epoch)".
  OneCycleLR(Optimizer& optimizer, const Options& options);

 private:
  struct Phase {
    double end_step;
    const char *start_lr, *end_lr, *start_momentum, *end_momentum;
  };
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap&) override {}
  double anneal(double from, double to, double part) const;
  Options options_;
  std::int64_t total_steps_;
  std::vector<Phase> phases_;
};

/// Up and down between base_lr and max_lr, again and again; momentum the other way round.
class CyclicLR final : public LRScheduler {
 public:
  struct Options {
    double base_lr = 0;
    double max_lr = 1;
    std::int64_t step_size_up = 2000;
    std::optional<std::int64_t> step_size_down = {};  ///< as step_size_up
    std::string mode = "triangular";                  ///< or "triangular2", "exp_range"
    double gamma = 1;
    bool cycle_momentum = true;
    double base_momentum = 0.8;
    double max_momentum = 0.9;
  };
  CyclicLR(Optimizer& optimizer, const Options& options);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap&) override {}
  double height(double x) const;
  Options options_;
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
    double min_lr = 0;
    double eps = 1e-8;
  };
  /// Errors(value): "Factor should be < 1.0.", "mode x is unknown!", "threshold mode x is unknown!".
  explicit ReduceLROnPlateau(Optimizer& optimizer) : ReduceLROnPlateau(optimizer, Options()) {}
  ReduceLROnPlateau(Optimizer& optimizer, Options options);

  void step(double metric);
  std::vector<double> last_lr() const;
  std::int64_t last_epoch() const { return last_epoch_; }
  OptionMap state_dict() const;

 private:
  bool is_better(double metric) const;
  Optimizer& optimizer_;
  Options options_;
  double best_;
  std::int64_t last_epoch_ = 0, bad_epochs_ = 0, cooldown_left_ = 0;
};

/// One schedule after the other: schedule i + 1 begins at epoch milestones[i].
class SequentialLR final : public LRScheduler {
 public:
  /// Error(value) when the counts do not fit.
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules,
               std::vector<std::int64_t> milestones);
  void step() override;

 private:
  double next_lr(const Group& group) const override { return group.lr; }
  OptionMap options() const override;
  void set_options(const OptionMap&) override {}
  std::vector<std::shared_ptr<LRScheduler>> schedules_;
  std::vector<std::int64_t> milestones_;
  std::int64_t epoch_ = 0;
};

/// All schedules at once.
class ChainedScheduler final : public LRScheduler {
 public:
  ChainedScheduler(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules);
  void step() override;

 private:
  double next_lr(const Group& group) const override { return group.lr; }
  OptionMap options() const override { return {}; }
  void set_options(const OptionMap&) override {}
  std::vector<std::shared_ptr<LRScheduler>> schedules_;
};

}  // namespace core
