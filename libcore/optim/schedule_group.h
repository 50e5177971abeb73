#pragma once
// Schedules that put others together, and the one that looks at a metric. As torch.optim.lr_scheduler's. Thread safety:
// as Optimizer. Use: core::ReduceLROnPlateau schedule(optimizer, {.patience = 3}); schedule.step(loss.item<double>());

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/optim/schedule.h"

namespace core {

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
