#include "tools/train/learning.h"

#include <algorithm>
#include <charconv>

#include "libckpt/bridge/training_state.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/averaging.h"
#include "libcore/optim/schedule_cycle.h"
#include "libcore/optim/sgd.h"
#include "tools/support/suggest.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using Params = std::vector<core::Tensor>;
using Made = std::unique_ptr<core::Optimizer>;

template <class T, class Options>
Made with_betas(const Params& params, const RunOptions& o) {
  Options own;
  own.lr = *o.lr;
  own.betas = {o.beta1.value_or(0.9), o.beta2.value_or(0.999)};
  if (o.weight_decay) own.weight_decay = *o.weight_decay;
  return std::make_unique<T>(params, own);
}

template <class T, class Options>
Made plain(const Params& params, const RunOptions& o) {
  Options own;
  own.lr = *o.lr;
  own.weight_decay = o.weight_decay.value_or(0);
  return std::make_unique<T>(params, own);
}

Made make_sgd(const Params& params, const RunOptions& o) {
  return std::make_unique<core::SGD>(params, core::SGDOptions{.lr = *o.lr,
                                                              .momentum = o.momentum.value_or(0),
                                                              .weight_decay = o.weight_decay.value_or(0),
                                                              .nesterov = o.nesterov});
}

Made make_rmsprop(const Params& params, const RunOptions& o) {
  return std::make_unique<core::RMSprop>(
      params, core::RMSpropOptions{
                  .lr = *o.lr, .weight_decay = o.weight_decay.value_or(0), .momentum = o.momentum.value_or(0)});
}

struct Kind {
  const char* name;
  Made (*make)(const Params& params, const RunOptions& o);
  bool has_momentum;  ///< takes --momentum
  bool has_betas;     ///< takes --beta1 and --beta2
};

const Kind kOptimizers[] = {
    {"sgd", make_sgd, true, false},
    {"adam", with_betas<core::Adam, core::AdamOptions>, false, true},
    {"adamw", with_betas<core::AdamW, core::AdamWOptions>, false, true},
    {"rmsprop", make_rmsprop, true, false},
    {"adagrad", plain<core::Adagrad, core::AdagradOptions>, false, false},
    {"adadelta", plain<core::Adadelta, core::AdadeltaOptions>, false, false},
    {"adamax", with_betas<core::Adamax, core::AdamaxOptions>, false, true},
    {"nadam", with_betas<core::NAdam, core::NAdamOptions>, false, true},
    {"radam", with_betas<core::RAdam, core::RAdamOptions>, false, true},
};

const Kind& kind_of(const std::string& name) {
  for (const Kind& kind : kOptimizers) {
    if (name == kind.name) return kind;
  }
  throw Error(ErrorCode::usage, "no optimizer is named " + core::quote(name) +
                                    cli::did_you_mean(name, optimizer_names()) + "; there are " +
                                    core::join(optimizer_names(), ", "));
}

std::vector<std::int64_t> numbers(const std::string& list) {
  std::vector<std::int64_t> values;
  for (std::string_view part : core::split(list, ',')) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (code != std::errc() || end != part.data() + part.size() || value < 1) {
      throw Error(ErrorCode::usage, "--milestones are epochs with commas between them (3,5), not " + core::quote(list));
    }
    values.push_back(value);
  }
  return values;
}

core::OneCycleLR::Options one_cycle(const RunOptions& o, std::int64_t steps) {
  const bool cycles = kind_of(o.optimizer).has_betas || o.momentum.value_or(0) > 0;
  return {.max_lr = *o.lr, .total_steps = *o.epochs * steps, .cycle_momentum = cycles};
}

ckpt::Value dict_of(std::vector<std::pair<const char*, ckpt::Value>> items) {
  ckpt::Dict dict;
  for (auto& [key, value] : items) dict.items.emplace_back(ckpt::Value::text(key), std::move(value));
  return ckpt::Value::dict(std::move(dict));
}

void check_name(const std::string& name) {
  const auto& names = schedule_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  throw Error(ErrorCode::usage, "no schedule is named " + core::quote(name) + cli::did_you_mean(name, names) +
                                    "; there are " + core::join(names, ", "));
}

}  // namespace

std::unique_ptr<core::Optimizer> make_optimizer(const Params& params, const RunOptions& o) {
  const Kind& kind = kind_of(o.optimizer);
  const std::string name = o.optimizer;
  if (!kind.has_momentum && o.momentum) throw Error(ErrorCode::usage, "--momentum: " + name + " has none");
  if (name != "sgd" && o.nesterov) throw Error(ErrorCode::usage, "--nesterov: " + name + " has no such form");
  if (!kind.has_betas && (o.beta1 || o.beta2)) throw Error(ErrorCode::usage, "--beta1, --beta2: " + name + " has none");
  return kind.make(params, o);
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Kind& kind : kOptimizers) names.emplace_back(kind.name);
    return names;
  }();
  return kNames;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> kNames = {"none",     "step", "multistep", "exponential", "cosine",
                                                  "restarts", "poly", "plateau",   "onecycle"};
  return kNames;
}

Schedule::Schedule(core::Optimizer& optimizer, const RunOptions& o, std::int64_t steps) {
  const std::string& name = o.schedule;
  check_name(name);
  const std::int64_t warmup = o.warmup.value_or(0),
                     step_size = o.step_size.value_or(std::max<std::int64_t>(1, *o.epochs / 3));
  const double gamma = o.gamma.value_or(0.1), least = o.min_lr.value_or(0);
  if (warmup > 0 && (name == "onecycle" || name == "restarts")) {
    throw Error(ErrorCode::usage, "--warmup: " + name + " decides the rate from its beginning");
  }
  if (warmup > 0) {
    const core::LinearLR::Options rise{.start_factor = 1.0 / static_cast<double>(warmup + 1), .total_iters = warmup};
    warmup_ = std::make_unique<core::LinearLR>(optimizer, rise);
  }
  using std::make_unique;
  if (name == "step") by_epoch_ = make_unique<core::StepLR>(optimizer, core::StepLR::Options{step_size, gamma});
  if (name == "multistep") {
    by_epoch_ = make_unique<core::MultiStepLR>(optimizer, core::MultiStepLR::Options{numbers(o.milestones), gamma});
  }
  if (name == "exponential") by_epoch_ = make_unique<core::ExponentialLR>(optimizer, o.gamma.value_or(0.9));
  if (name == "cosine") {
    by_epoch_ = make_unique<core::CosineAnnealingLR>(optimizer, core::CosineAnnealingLR::Options{*o.epochs, least});
  }
  if (name == "restarts") {
    by_epoch_ = make_unique<core::CosineAnnealingWarmRestarts>(
        optimizer, core::CosineAnnealingWarmRestarts::Options{.T_0 = step_size, .T_mult = 2, .eta_min = least});
  }
  if (name == "poly") by_epoch_ = make_unique<core::PolynomialLR>(optimizer, core::PolynomialLR::Options{*o.epochs, 1});
  if (name == "plateau") {
    plateau_ = make_unique<core::ReduceLROnPlateau>(
        optimizer,
        core::ReduceLROnPlateau::Options{.factor = gamma, .patience = o.patience.value_or(3), .min_lr = least});
  }
  if (name == "onecycle") by_step_ = make_unique<core::OneCycleLR>(optimizer, one_cycle(o, steps));
  total_steps_ = *o.epochs * steps;
}

bool Schedule::spans_epochs(const RunOptions& o) {
  const std::string& name = o.schedule;
  const bool thirds = (name == "step" || name == "restarts") && !o.step_size;
  return thirds || name == "cosine" || name == "poly" || name == "onecycle";
}

void Schedule::after_step() {
  if (warmup_) warmup_->step();
  // Behind the last step there is no rate to go to.
  if (by_step_ && by_step_->last_epoch() + 1 < total_steps_) by_step_->step();
}

void Schedule::after_epoch(double loss) {
  if (by_epoch_) by_epoch_->step();
  if (plateau_) plateau_->step(loss);
}

ckpt::Value Schedule::state() const {
  std::vector<std::pair<const char*, ckpt::Value>> items;
  if (warmup_) items.emplace_back("warmup", ckpt::to_value(warmup_->state_dict()));
  if (by_step_) items.emplace_back("by_step", ckpt::to_value(by_step_->state_dict()));
  if (by_epoch_) items.emplace_back("by_epoch", ckpt::to_value(by_epoch_->state_dict()));
  if (plateau_) items.emplace_back("plateau", ckpt::to_value(plateau_->state_dict()));
  return dict_of(std::move(items));
}

void Schedule::load(const ckpt::Value& state) {
  const auto load = [&](const char* name, auto& schedule) {
    if (!schedule) return;
    const ckpt::Value* own = state.find(name);
    if (own == nullptr) throw Error(ErrorCode::key, std::string("the state has no schedule ") + core::quote(name));
    schedule->load_state_dict(ckpt::to_option_map(*own));
  };
  load("warmup", warmup_);
  load("by_step", by_step_);
  load("by_epoch", by_epoch_);
  load("plateau", plateau_);
  if (by_step_) total_steps_ = by_step_->state_dict().integer("total_steps");
}

}  // namespace train
