#pragma once
// The optimizer and the learning-rate schedule that the options ask for.
// Thread safety: none. Use: auto optimizer = make_optimizer(params, o); Schedule schedule(*optimizer, o, steps);

#include <cstdint>
#include <memory>
#include <vector>

#include "libckpt/value.h"
#include "libcore/optim/optimizer.h"
#include "libcore/optim/schedule_group.h"
#include "tools/train/options.h"

namespace train {

/// Errors: Error(usage) for a name that is none; Error(value) with PyTorch's texts for numbers out of range.
std::unique_ptr<core::Optimizer> make_optimizer(const std::vector<core::Tensor>& params, const RunOptions& o);

/// Names of optimizers and of schedules.
const std::vector<std::string>& optimizer_names();
const std::vector<std::string>& schedule_names();

/// A schedule that goes by epochs (or by the loss, or by steps), behind a linear warm-up by steps.
class Schedule {
 public:
  /// `steps`: batches an epoch has. Errors: Error(usage) for a name or a combination that makes no sense; Error(value)
  /// with PyTorch's texts.
  Schedule(core::Optimizer& optimizer, const RunOptions& o, std::int64_t steps);

  void after_step();
  /// Whether the rates depend on how many epochs there are.
  static bool spans_epochs(const RunOptions& o);
  /// `loss`: what `plateau` looks at.
  void after_epoch(double loss);

  ckpt::Value state() const;
  /// Errors: Error(key), Error(type) for a state of another schedule.
  void load(const ckpt::Value& state);

 private:
  std::unique_ptr<core::LRScheduler> warmup_, by_step_, by_epoch_;
  std::unique_ptr<core::ReduceLROnPlateau> plateau_;
  std::int64_t total_steps_ = 0;  ///< of by_step_
};

}  // namespace train
