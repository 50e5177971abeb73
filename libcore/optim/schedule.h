#pragma once
// Learning-rate schedules over an optimizer's groups. As torch.optim.lr_scheduler, to the last bit.
// Thread safety: none. The optimizer must outlive its schedule.
// Use: core::StepLR schedule(optimizer, {.step_size = 30}); ... optimizer.step(); schedule.step();  // once an epoch

#include <cstdint>
#include <functional>
#include <vector>

#include "libcore/optim/optimizer.h"

namespace core {

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Goes to the next epoch and sets the learning rates.
  virtual void step();
  /// The rates in force, one a group.
  const std::vector<double>& last_lr() const { return last_lr_; }
  std::int64_t last_epoch() const { return last_epoch_; }

  /// Options, then counters, in PyTorch's order. Functions are left out.
  virtual OptionMap state_dict() const;
  /// Error(key) when an entry is missing.
  virtual void load_state_dict(const OptionMap& state);

  /// For SequentialLR: forgets the step that the constructor made; begins again at epoch 0 from the base rates.
  void undo_initial_step() { --last_epoch_; }
  void restart();

 protected:
  explicit LRScheduler(Optimizer& optimizer);
  /// To be called at the end of every constructor: sets the rates of epoch 0.
  void start();

  /// The rate of one group in epoch last_epoch().
  struct Group {
    double lr;           ///< now
    double base_lr;      ///< at the beginning
    ParamGroup* params;  ///< the group itself; for schedules that change more than the rate
  };
  virtual double next_lr(const Group& group) const = 0;
  /// The options of this kind of schedule.
  virtual OptionMap options() const = 0;
  virtual void set_options(const OptionMap& state) = 0;
  /// True while the constructor sets the first rates.
  bool is_initial() const { return is_initial_; }
  Optimizer& optimizer() const { return optimizer_; }
  /// Sets the rates of an epoch without counting a step.
  void go_to(std::int64_t epoch);
  /// What last_lr() says.
  void remember_rates();

 private:
  Optimizer& optimizer_;
  std::vector<double> base_lrs_;
  std::vector<double> last_lr_;
  std::int64_t last_epoch_ = -1;
  std::int64_t step_count_ = 0;
  bool is_initial_ = false;
};

/// Multiplies the rate by gamma every step_size epochs.
class StepLR final : public LRScheduler {
 public:
  struct Options {
    std::int64_t step_size = 1;
    double gamma = 0.1;
  };
  StepLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
};

/// Multiplies the rate by gamma at each of the given epochs.
class MultiStepLR final : public LRScheduler {
 public:
  struct Options {
    std::vector<std::int64_t> milestones = {};
    double gamma = 0.1;
  };
  MultiStepLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
};

/// Multiplies the rate by `factor` until epoch total_iters.
class ConstantLR final : public LRScheduler {
 public:
  struct Options {
    double factor = 1.0 / 3;
    std::int64_t total_iters = 5;
  };
  explicit ConstantLR(Optimizer& optimizer) : ConstantLR(optimizer, Options()) {}
  ConstantLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
};

/// Multiplies the rate by a factor that goes linearly from start_factor to end_factor in total_iters epochs.
class LinearLR final : public LRScheduler {
 public:
  struct Options {
    double start_factor = 1.0 / 3;
    double end_factor = 1.0;
    std::int64_t total_iters = 5;
  };
  explicit LinearLR(Optimizer& optimizer) : LinearLR(optimizer, Options()) {}
  LinearLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
};

/// Multiplies the rate by gamma every epoch.
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  double gamma_;
};

/// From the base rate to 0 in total_iters epochs, along a power of the part that is left.
class PolynomialLR final : public LRScheduler {
 public:
  struct Options {
    std::int64_t total_iters = 5;
    double power = 1.0;
  };
  explicit PolynomialLR(Optimizer& optimizer) : PolynomialLR(optimizer, Options()) {}
  PolynomialLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
};

/// From the base rate down to eta_min along half a cosine of T_max epochs, and up again.
class CosineAnnealingLR final : public LRScheduler {
 public:
  struct Options {
    std::int64_t T_max = 1;
    double eta_min = 0;
  };
  CosineAnnealingLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
};

/// The base rate times a function of the epoch.
class LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t epoch)> factor);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override { return {}; }
  void set_options(const OptionMap&) override {}
  std::function<double(std::int64_t)> factor_;
};

}  // namespace core
