#include "tools/train/trainer.h"

#include <time.h>

#include <cmath>
#include <limits>

#include "libckpt/bridge/training_state.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/optim/clip.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor.h"
#include "tools/train/processes.h"

namespace train {
namespace {

using ckpt::Value;
using core::Error;
using core::ErrorCode;
using core::Tensor;

constexpr std::int64_t kColumns = 9;  ///< of an EpochRow in a state
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double processor_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Adds the processor time that it lives to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum), begin_(processor_seconds()) {}
  ~Stopwatch() { sum_ += processor_seconds() - begin_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  double begin_;
};

// --- The curve as tensors.

template <class T>
Value values_of(const std::vector<T>& numbers, const core::Shape& shape) {
  const Tensor tensor = core::empty(shape, {.dtype = core::dtype_of<T>});
  std::copy(numbers.begin(), numbers.end(), tensor.mutable_data<T>());
  return Value::tensor(ckpt::to_entry(tensor));
}

std::vector<double> numbers_of(const EpochRow& row) {
  const bool tested = row.test.has_value();
  return {static_cast<double>(row.epoch),
          static_cast<double>(row.step),
          row.lr,
          row.loss,
          row.accuracy.value_or(kNone),
          tested ? row.test->loss : kNone,
          tested ? row.test->accuracy.value_or(kNone) : kNone,
          tested ? static_cast<double>(row.test->right) : 0,
          tested ? static_cast<double>(row.test->rows) : 0};
}

std::optional<double> unless_none(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

EpochRow row_of(const double* n) {
  EpochRow row{static_cast<std::int64_t>(n[0]), static_cast<std::int64_t>(n[1]), n[2], n[3], unless_none(n[4]), {}};
  if (!std::isnan(n[5])) {
    row.test = Evaluation{n[5], unless_none(n[6]), static_cast<std::int64_t>(n[7]), static_cast<std::int64_t>(n[8])};
  }
  return row;
}

Value bytes_of(const core::ByteVector& bytes) {
  const Tensor tensor = core::empty({static_cast<std::int64_t>(bytes.size())}, {.dtype = core::DType::u8});
  std::copy_n(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), tensor.mutable_data<std::uint8_t>());
  return Value::tensor(ckpt::to_entry(tensor));
}

const Value& part(const Value& extra, const char* key, Value::Kind kind) {
  const Value* value = extra.find(key);
  if (value == nullptr || !value->is(kind)) {
    throw Error(ErrorCode::key, std::string("no ") + key + " in the state, so this program did not write it");
  }
  return *value;
}

template <class T>
std::vector<T> numbers_in(const Value& extra, const char* key) {
  const Tensor tensor = ckpt::to_tensor(part(extra, key, Value::Kind::tensor).as_entry(), core::Device());
  if (tensor.dtype() != core::dtype_of<T>) throw Error(ErrorCode::corrupt, std::string(key) + " has another type");
  return tensor.to_vector<T>();
}

double real_in(const Value& extra, const char* key) {
  return part(extra, key, Value::Kind::real).as_real();
}

std::int64_t integer_in(const Value& extra, const char* key) {
  return part(extra, key, Value::Kind::integer).as_integer();
}

std::vector<Tensor> that_learn(std::vector<Tensor> parameters) {
  std::erase_if(parameters, [](const Tensor& parameter) { return !parameter.requires_grad(); });
  return parameters;
}

}  // namespace

Trainer::Trainer(Task& task, const RunOptions& o)
    : task_(task),
      options_(o),
      params_(that_learn(task.module().parameters())),
      optimizer_(make_optimizer(params_, o)),
      scaler_(o.amp == "f16" ? std::make_unique<core::GradScaler>(params_.front().device().is_cpu() ? "cpu" : "cuda")
                             : nullptr),
      schedule_(*optimizer_, o, task.steps()) {
  // The first steps of a scaler are often left out: one without gradients, so that the schedule does not warn.
  if (scaler_) optimizer_->step();
}

Stop Trainer::run(const Hooks& hooks) {
  task_.module().train();
  while (epoch() < *options_.epochs && !stops_early()) {
    if (epoch_steps_done_ == 0) {
      const Stopwatch watch(seconds_);
      epoch_generator_ = core::default_generator().state();
      task_.begin_epoch();
    }
    while (take_step(hooks.stop)) {
      if (hooks.after_step) hooks.after_step();
      const bool is_alone = !has_several_processes();
      if (is_asked_to_stop_ || (is_alone && hooks.stop && hooks.stop())) return Stop::asked;
    }
    end_epoch();
    if (hooks.after_epoch) hooks.after_epoch();
  }
  return epoch() < *options_.epochs ? Stop::early : Stop::done;
}

void Trainer::learn_from(const Tensor& loss) {
  const bool clips = options_.clip.value_or(0) > 0;
  optimizer_->zero_grad();
  if (scaler_) {
    scaler_->scale(loss).backward();
    if (clips) scaler_->unscale_(*optimizer_);
  } else {
    loss.backward();
  }
  if (clips) core::clip_grad_norm_(params_, *options_.clip);
  if (!scaler_) return optimizer_->step();
  scaler_->step(*optimizer_);
  scaler_->update();
}

/// False when the epoch has no more batches.
bool Trainer::take_step(const std::function<bool()>& stop) {
  const Stopwatch watch(seconds_);
  if (!task_.next()) return false;
  const Outcome out = forward(task_, options_);
  learn_from(out.loss);
  is_classes_ = out.right.defined();
  const StepSums all = over_processes({.loss = static_cast<double>(out.loss.item<float>()),
                                       .right = is_classes_ ? static_cast<double>(out.right.item<std::int64_t>()) : 0,
                                       .rows = static_cast<double>(out.rows),
                                       .stops = has_several_processes() && stop && stop() ? 1.0 : 0.0});
  is_asked_to_stop_ = all.stops > 0;
  const auto loss = static_cast<float>(all.loss);
  if (!std::isfinite(loss)) {
    throw Error(ErrorCode::runtime,
                "the loss of step " + std::to_string(step() + 1) + " is not a number; try a lower --lr, or --clip 1");
  }
  curve_.losses.push_back(loss);
  curve_.rates.push_back(optimizer_->param_groups().front().lr());
  schedule_.after_step();
  ++epoch_steps_done_;
  loss_sum_ += static_cast<double>(loss);
  seen_ += static_cast<std::int64_t>(all.rows);
  right_ += static_cast<std::int64_t>(all.right);
  return true;
}

void Trainer::end_epoch() {
  EpochRow row{.epoch = epoch() + 1, .step = step(), .lr = curve_.rates.back(), .accuracy = {}, .test = {}};
  row.loss = loss_sum_ / static_cast<double>(epoch_steps_done_);
  if (is_classes_) row.accuracy = static_cast<double>(right_) / static_cast<double>(seen_);
  row.test = task_.evaluate();
  curve_.epochs.push_back(row);
  schedule_.after_epoch(row.judged());
  keep_best();
  epoch_steps_done_ = 0;
  loss_sum_ = 0;
  right_ = seen_ = 0;
}

void Trainer::keep_best() {
  const double judged = curve_.epochs.back().judged();
  if (best_epoch_ != 0 && !(judged < best_ - options_.min_delta.value_or(0))) return;
  best_ = judged;
  best_epoch_ = epoch();
  best_model_ = task_.model().deep_copy();
  best_model_->cpu();
}

bool Trainer::stops_early() const {
  const std::int64_t patience = options_.early_stop.value_or(0);
  return patience > 0 && epoch() - best_epoch_ >= patience && epoch() > 0;
}

ckpt::TrainingParts Trainer::parts() const {
  ckpt::TrainingParts parts;
  parts.add("model", task_.module()).add("optimizer", *optimizer_);
  if (scaler_) parts.add("scaler", *scaler_);
  return parts;
}

void Trainer::save(const std::filesystem::path& path) const {
  std::vector<double> history;
  for (const EpochRow& row : curve_.epochs) {
    for (double number : numbers_of(row)) history.push_back(number);
  }
  ckpt::Dict extra;
  const auto add = [&](const char* key, Value value) { extra.items.emplace_back(Value::text(key), std::move(value)); };
  add("step_in_epoch", Value::integer(epoch_steps_done_));
  add("epoch_rng_state", bytes_of(epoch_generator_));
  add("loss_sum", Value::real(loss_sum_));
  add("right", Value::integer(right_));
  add("seen", Value::integer(seen_));
  add("losses", values_of(curve_.losses, {step()}));
  add("rates", values_of(curve_.rates, {step()}));
  add("epochs", values_of(history, {epoch(), kColumns}));
  add("best", Value::real(best_));
  add("best_epoch", Value::integer(best_epoch_));
  add("schedule", schedule_.state());
  add("planned_epochs", Value::integer(*options_.epochs));
  ckpt::save_training(path, parts(), {.epoch = epoch(), .step = step(), .extra = Value::dict(std::move(extra))});
}

void Trainer::resume(const std::filesystem::path& path) {
  const ckpt::TrainingProgress progress = ckpt::resume_training(path, parts(), {.map_location = "cpu"});
  core::with_context(path.string(), [&] {
    const Value& extra = progress.extra;
    curve_.losses = numbers_in<float>(extra, "losses");
    curve_.rates = numbers_in<double>(extra, "rates");
    const std::vector<double> history = numbers_in<double>(extra, "epochs");
    for (std::size_t i = 0; i + kColumns <= history.size(); i += kColumns) {
      curve_.epochs.push_back(row_of(history.data() + i));
    }
    loss_sum_ = real_in(extra, "loss_sum");
    right_ = integer_in(extra, "right");
    seen_ = integer_in(extra, "seen");
    best_ = real_in(extra, "best");
    best_epoch_ = integer_in(extra, "best_epoch");
    const bool says_plan = extra.find("planned_epochs") != nullptr;  // older states do not
    planned_before_ = says_plan ? integer_in(extra, "planned_epochs") : *options_.epochs;
    if (planned_before_ == *options_.epochs) {
      schedule_.load(part(extra, "schedule", Value::Kind::dict));
    } else {
      replay_schedule();
    }
    epoch_generator_ = ckpt::read_all(*part(extra, "epoch_rng_state", Value::Kind::tensor).as_entry().bytes);
    go_to_step(integer_in(extra, "step_in_epoch"));
  });
}

/// Another number of epochs changes the rates of those that are over as well. A schedule goes from one rate to the
/// next, so all of its way is gone again, on an optimizer that has nothing to do.
void Trainer::replay_schedule() {
  const Tensor nothing = core::zeros({1}).requires_grad_();
  const auto optimizer = make_optimizer({nothing}, options_);
  Schedule schedule(*optimizer, options_, task_.steps());
  optimizer->step();  // so that the schedule does not warn
  std::int64_t done = 0;
  const auto go = [&](std::int64_t steps) {
    for (; done < steps; ++done) schedule.after_step();
  };
  for (const EpochRow& row : curve_.epochs) {
    go(row.step);
    schedule.after_epoch(row.judged());
  }
  go(step());
  optimizer_->param_groups().front().options = optimizer->param_groups().front().options;
  schedule_.load(schedule.state());
}

/// Draws the order of the epoch again and passes over the batches that are done.
void Trainer::go_to_step(std::int64_t step_in_epoch) {
  epoch_steps_done_ = step_in_epoch;
  if (step_in_epoch == 0) return;
  core::Generator generator = core::default_generator();
  const core::ByteVector now = generator.state();
  generator.set_state(epoch_generator_);
  task_.begin_epoch();
  for (std::int64_t i = 0; i < step_in_epoch; ++i) {
    if (!task_.next())
      throw Error(ErrorCode::value, "the epoch is shorter than it was: other data, or another --batch");
  }
  generator.set_state(now);
}

}  // namespace train
