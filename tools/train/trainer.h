#pragma once
// Trainer: the loop. It takes steps, follows the curve, knows the best epoch, and can be saved in the middle of an
// epoch and go on later as if nothing had happened: the curve is the same to the last bit. It prints nothing and writes
// no file but the one it is told to. Thread safety: none. Use: train::Trainer trainer(*task, options); trainer.run({});
// trainer.curve().epochs.back().test->accuracy

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "libckpt/bridge/training_parts.h"
#include "libcore/optim/grad_scaler.h"
#include "tools/train/learning.h"
#include "tools/train/task.h"

namespace train {

struct EpochRow {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< done at its end
  double lr = 0;          ///< of its last step
  double loss = 0;        ///< mean over its steps
  std::optional<double> accuracy;
  std::optional<Evaluation> test;

  /// What decides which epoch is best: the loss on the test rows, else that in training.
  double judged() const { return test ? test->loss : loss; }
};

struct Curve {
  std::vector<float> losses;  ///< of every step
  std::vector<double> rates;  ///< learning rate of every step
  std::vector<EpochRow> epochs;
};

enum class Stop { done, early, asked };

class Trainer {
 public:
  /// REQUIRES: options that fill_in() completed; `task` outlives the trainer. Errors: those of make_optimizer() and
  /// Schedule.
  Trainer(Task& task, const RunOptions& o);

  struct Hooks {
    std::function<void()> after_step = {};
    std::function<void()> after_epoch = {};
    std::function<bool()> stop = {};  ///< asked behind every step; that of any process stops all
  };
  /// Goes on until all epochs are done, none was better for --early-stop epochs, or `stop` says so.
  /// Errors: Error(runtime) when the loss is no number; whatever the hooks throw.
  Stop run(const Hooks& hooks);

  const Curve& curve() const { return curve_; }
  std::int64_t step() const { return static_cast<std::int64_t>(curve_.losses.size()); }
  std::int64_t epoch() const { return static_cast<std::int64_t>(curve_.epochs.size()); }
  /// Steps done in an epoch that is not over.
  std::int64_t step_in_epoch() const { return epoch_steps_done_; }
  /// The best epoch, 0 before there is one, and the model's state behind it. REQUIRES for the latter: this trainer came
  /// through that epoch.
  std::int64_t best_epoch() const { return best_epoch_; }
  core::StateDict best_state() const { return best_model_->state_dict(); }
  const core::Optimizer& optimizer() const { return *optimizer_; }
  Task& task() const { return task_; }
  /// Processor time of the steps (not of evaluation) of this process, in seconds.
  double seconds() const { return seconds_; }

  /// One file from which resume() goes on (bridge/training_state.h). Errors: those of ckpt::save().
  void save(const std::filesystem::path& path) const;
  /// REQUIRES: a new trainer with the options of the one that was saved, except that there may be more or fewer epochs:
  /// then the learning rate goes on as if there had been as many from the beginning. Errors: those of
  /// ckpt::resume_training(); Error(key) when the file is no state of a trainer.
  void resume(const std::filesystem::path& path);
  /// The epochs that were planned when the state was saved that resume() read; 0 before.
  std::int64_t planned_before() const { return planned_before_; }

 private:
  /// The parts of a state. REQUIRES: used before this trainer ends.
  ckpt::TrainingParts parts() const;
  void learn_from(const core::Tensor& loss);
  bool take_step(const std::function<bool()>& stop);
  void end_epoch();
  bool stops_early() const;
  void keep_best();
  void go_to_step(std::int64_t step_in_epoch);
  void replay_schedule();

  Task& task_;
  RunOptions options_;
  std::vector<core::Tensor> params_;
  std::unique_ptr<core::Optimizer> optimizer_;
  std::unique_ptr<core::GradScaler> scaler_;  ///< with f16 alone, whose small gradients would be lost
  Schedule schedule_;
  std::int64_t planned_before_ = 0;
  Curve curve_;
  // Of the epoch under way.
  std::int64_t epoch_steps_done_ = 0;
  double loss_sum_ = 0;
  std::int64_t right_ = 0, seen_ = 0;
  bool is_classes_ = false;
  bool is_asked_to_stop_ = false;
  core::ByteVector epoch_generator_;  ///< the generator's state before the epoch's order was drawn
  // The best epoch.
  double best_ = 0;
  std::int64_t best_epoch_ = 0;
  std::shared_ptr<core::Module> best_model_;  ///< a copy on the CPU; none when it was found before a resume
  double seconds_ = 0;
};

}  // namespace train
