#pragma once
// Learning-rate schedules over an optimizer's groups. As torch.optim.lr_scheduler, to the last bit.
// Thread safety: none. The optimizer must outlive its schedule.
// Use: core::StepLR schedule(optimizer, {.step_size = 30}); ... optimizer.step(); schedule.step();  // once an epoch

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "libcore/optim/optimizer.h"

namespace core {

/// A factor of the learning rate by epoch.
using EpochFunction = std::function<double(std::int64_t epoch)>;

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Goes to the next epoch and sets the learning rates. With an epoch: goes there, by the closed form of the schedule
  /// where it has one, and warns. Warns when it is called before the optimizer's first step.
  virtual void step(std::optional<std::int64_t> epoch = {});
  /// The rates in force, one a group.
  const std::vector<double>& last_lr() const { return last_lr_; }
  std::int64_t last_epoch() const { return last_epoch_; }

  /// Options, then counters, in PyTorch's order. Functions are left out. to_value() of bridge/training_state.h stores
  /// it.
  virtual OptionMap state_dict() const;
  /// Error(key) when an entry is missing.
  virtual void load_state_dict(const OptionMap& state);
  Optimizer& optimizer() const { return optimizer_; }

  /// For SequentialLR: forgets the step that the constructor made; makes it again.
  virtual void undo_initial_step() { --last_epoch_; }
  void initial_step();
  /// For SequentialLR: the rates of epoch 0, from those in force where the schedule goes by them.
  void restart() { go_to(0, true); }

 protected:
  /// `last_epoch`: that of a run which goes on, -1 for a new one. Error(key) "param 'initial_lr' is not specified ..."
  /// when the optimizer's state was not loaded.
  explicit LRScheduler(Optimizer& optimizer, std::int64_t last_epoch = -1);
  /// To be called at the end of every constructor: sets the rates of epoch 0.
  void start() { initial_step(); }

  /// The rate of one group in epoch last_epoch().
  struct Group {
    double lr;           ///< now
    double base_lr;      ///< at the beginning
    ParamGroup* params;  ///< the group itself; for schedules that change more than the rate
    std::size_t index;
  };
  virtual double next_lr(const Group& group) const = 0;
  /// The same from the base rate alone, where the schedule has such a form.
  virtual std::optional<double> closed_form(const Group& group) const;
  /// The options of this kind of schedule.
  virtual OptionMap options() const = 0;
  virtual void set_options(const OptionMap& state) = 0;
  /// True while the constructor sets the first rates.
  bool is_initial() const { return is_initial_; }
  std::int64_t step_count() const { return step_count_; }
  /// Sets the rates of an epoch without counting a step.
  void go_to(std::int64_t epoch, bool by_closed_form = false);
  /// What last_lr() says.
  void remember_rates();
  void remember_rates(std::vector<double> rates, std::int64_t epoch);
  void set_base_lrs(std::vector<double> rates) { base_lrs_ = std::move(rates); }

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
  StepLR(Optimizer& optimizer, Options options, std::int64_t last_epoch = -1);

 private:
  double next_lr(const Group& group) const override;
  std::optional<double> closed_form(const Group& group) const override;
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
  MultiStepLR(Optimizer& optimizer, Options options, std::int64_t last_epoch = -1);

 private:
  double next_lr(const Group& group) const override;
  std::optional<double> closed_form(const Group& group) const override;
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
  ConstantLR(Optimizer& optimizer, Options options, std::int64_t last_epoch = -1);

 private:
  double next_lr(const Group& group) const override;
  std::optional<double> closed_form(const Group& group) const override;
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
  LinearLR(Optimizer& optimizer, Options options, std::int64_t last_epoch = -1);

 private:
  double next_lr(const Group& group) const override;
  std::optional<double> closed_form(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
};

/// Multiplies the rate by gamma every epoch.
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma, std::int64_t last_epoch = -1);

 private:
  double next_lr(const Group& group) const override;
  std::optional<double> closed_form(const Group& group) const override;
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
  PolynomialLR(Optimizer& optimizer, Options options, std::int64_t last_epoch = -1);

 private:
  double next_lr(const Group& group) const override;
  std::optional<double> closed_form(const Group& group) const override;
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
  CosineAnnealingLR(Optimizer& optimizer, Options options, std::int64_t last_epoch = -1);

 private:
  double next_lr(const Group& group) const override;
  std::optional<double> closed_form(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  Options options_;
};

/// The base rate times a function of the epoch.
class LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, EpochFunction factor, std::int64_t last_epoch = -1);
  /// One function a group. Error(value) "Expected 1 lr_lambdas, but got 2".
  LambdaLR(Optimizer& optimizer, std::vector<EpochFunction> factors, std::int64_t last_epoch = -1);
  OptionMap state_dict() const override;

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override { return {}; }
  void set_options(const OptionMap&) override {}
  std::vector<EpochFunction> factors_;
};

namespace detail {
/// One function a group. Error(value) "Expected 1 lr_lambdas, but got 2".
std::vector<EpochFunction> check_factors(const Optimizer& optimizer, std::vector<EpochFunction> factors);
/// `state` with "lr_lambdas": a None for every function.
OptionMap with_lambdas(OptionMap state, std::size_t count);
}  // namespace detail

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

}  // namespace core
