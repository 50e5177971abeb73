// Schedules that look at a metric, and that put others together: see schedule_group.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <typeinfo>

#include "libcore/base/class_name.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/optim/schedule_group.h"
#include "libcore/optim/schedule_state.h"
#include "libcore/optim/schedule_text.h"

namespace core {
namespace {

using Schedules = std::vector<std::shared_ptr<LRScheduler>>;

void check_optimizer(const char* name, const Optimizer& optimizer, const Schedules& schedules) {
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    const Optimizer& other = schedules[i]->optimizer();
    if (&other == &optimizer) continue;
    detail::fail_value(std::string(name) +
                       " expects all schedulers to belong to the same optimizer, but got scheduler " +
                       short_class_name(typeid(*schedules[i])) + " at index " + std::to_string(i) + " has " +
                       other.str() + ", which is different from " + optimizer.name() + ".");
  }
}

Schedules at_least_one(const char* text, Schedules schedules) {
  if (schedules.empty()) detail::fail_value(text);
  return schedules;
}

void refuse_epoch(const char* name, std::optional<std::int64_t> epoch) {
  if (!epoch) return;
  throw Error(ErrorCode::type, std::string(name) + ".step() takes 1 positional argument but 2 were given");
}

std::vector<OptionMap> states_of(const Schedules& schedules) {
  std::vector<OptionMap> states;
  for (const auto& schedule : schedules) states.push_back(schedule->state_dict());
  return states;
}

void load_states(const Schedules& schedules, const OptionMap& state) {
  const auto* states = std::get_if<std::vector<OptionMap>>(&state.at("_schedulers"));
  if (states == nullptr || states->size() != schedules.size()) {
    detail::fail_value("loaded state dict has a different number of schedulers");
  }
  for (std::size_t i = 0; i < schedules.size(); ++i) schedules[i]->load_state_dict((*states)[i]);
}

constexpr const char* kNoSchedule = "SequentialLR expects at least one scheduler, but got no scheduler.";
constexpr const char* kNoChain = "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.";

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, Options options)
    : optimizer_(optimizer), options_(std::move(options)) {
  if (options_.factor >= 1) detail::fail_value("Factor should be < 1.0.");
  const std::size_t groups = optimizer.param_groups().size();
  if (!options_.min_lr.for_all() && options_.min_lr.size() != groups) {
    detail::fail_value("expected " + std::to_string(groups) + " min_lrs, got " +
                       std::to_string(options_.min_lr.size()));
  }
  min_lrs_ = options_.min_lr.of(optimizer, "min_lr");
  check();
  const double worst = std::numeric_limits<double>::infinity();
  best_ = options_.mode == "min" ? worst : -worst;
  remember_rates();
}
void ReduceLROnPlateau::check() const {
  if (options_.mode != "min" && options_.mode != "max") detail::fail_value("mode " + options_.mode + " is unknown!");
  if (options_.threshold_mode != "rel" && options_.threshold_mode != "abs") {
    detail::fail_value("threshold mode " + options_.threshold_mode + " is unknown!");
  }
}
bool ReduceLROnPlateau::is_better(double metric) const {
  const bool least = options_.mode == "min", relative = options_.threshold_mode == "rel";
  if (least) return metric < (relative ? best_ * (1 - options_.threshold) : best_ - options_.threshold);
  return metric > (relative ? best_ * (options_.threshold + 1) : best_ + options_.threshold);
}
void ReduceLROnPlateau::step(double metric, std::optional<std::int64_t> epoch) {
  if (epoch) warn(kEpochWarning);
  last_epoch_ = epoch.value_or(last_epoch_ + 1);
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > options_.patience) {
    reduce();
    cooldown_left_ = options_.cooldown;
    bad_epochs_ = 0;
  }
  remember_rates();
}
void ReduceLROnPlateau::reduce() {
  std::vector<ParamGroup>& groups = optimizer_.param_groups();
  if (groups.size() != min_lrs_.size()) {
    if (!options_.min_lr.for_all()) {
      throw Error(ErrorCode::runtime,
                  "The number of param groups in the `optimizer` (" + std::to_string(groups.size()) +
                      ") differs from when `ReduceLROnPlateau` was initialized (" + std::to_string(min_lrs_.size()) +
                      "), usually due to a new param group being added to the optimizer. Please modify the `min_lrs` "
                      "field to match the length of the `optimizer` param groups.");
    }
    min_lrs_.assign(groups.size(), options_.min_lr[0]);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double lower = std::max(groups[i].lr() * options_.factor, min_lrs_[i]);
    if (groups[i].lr() - lower > options_.eps) groups[i].set_lr(lower);
  }
}
void ReduceLROnPlateau::remember_rates() {
  last_lr_.clear();
  for (const ParamGroup& group : optimizer_.param_groups()) last_lr_.push_back(group.lr());
}
OptionMap ReduceLROnPlateau::state_dict() const {
  const double worst = std::numeric_limits<double>::infinity();
  OptionMap state{{"factor", Scalar(options_.factor)},
                  {"default_min_lr", {}},
                  {"min_lrs", detail::scalars(min_lrs_)},
                  {"patience", Scalar(options_.patience)},
                  {"cooldown", Scalar(options_.cooldown)},
                  {"eps", Scalar(options_.eps)},
                  {"last_epoch", Scalar(last_epoch_)},
                  {"_last_lr", detail::scalars(last_lr_)},
                  {"mode_worse", Scalar(options_.mode == "min" ? worst : -worst)},
                  {"mode", options_.mode},
                  {"threshold", Scalar(options_.threshold)},
                  {"threshold_mode", options_.threshold_mode},
                  {"best", Scalar(best_)},
                  {"cooldown_counter", Scalar(cooldown_left_)},
                  {"num_bad_epochs", Scalar(bad_epochs_)}};
  if (options_.min_lr.for_all()) state.set("default_min_lr", detail::plain_number(options_.min_lr[0]));
  return state;
}
void ReduceLROnPlateau::load_state_dict(const OptionMap& state) {
  const bool for_all = !std::holds_alternative<std::monostate>(state.at("default_min_lr"));
  min_lrs_ = state.numbers("min_lrs");
  options_.min_lr = for_all ? PerGroup(state.number("default_min_lr")) : PerGroup(min_lrs_);
  options_.factor = state.number("factor");
  options_.patience = state.integer("patience");
  options_.cooldown = state.integer("cooldown");
  options_.eps = state.number("eps");
  options_.mode = state.text("mode");
  options_.threshold = state.number("threshold");
  options_.threshold_mode = state.text("threshold_mode");
  check();
  last_epoch_ = state.integer("last_epoch");
  last_lr_ = state.numbers("_last_lr");
  best_ = state.number("best");
  cooldown_left_ = state.integer("cooldown_counter");
  bad_epochs_ = state.integer("num_bad_epochs");
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules,
                           std::vector<std::int64_t> milestones)
    : LRScheduler(optimizer),
      schedules_(at_least_one(kNoSchedule, std::move(schedules))),
      milestones_(std::move(milestones)) {
  check_optimizer("SequentialLR", optimizer, schedules_);
  if (schedules_.size() != milestones_.size() + 1) {
    detail::fail_value(
        "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
        "points, but got number of schedulers " +
        std::to_string(schedules_.size()) + " and the number of milestones to be equal to " +
        std::to_string(milestones_.size()));
  }
  for (ParamGroup& group : optimizer.param_groups()) group.set_lr(group.options.number("initial_lr"));
  undo_initial_step();
  const auto first = std::upper_bound(milestones_.begin(), milestones_.end(), 0) - milestones_.begin();
  LRScheduler& schedule = *schedules_[static_cast<std::size_t>(first)];
  schedule.initial_step();
  remember_rates(schedule.last_lr(), 0);
}
void SequentialLR::step(std::optional<std::int64_t> epoch) {
  refuse_epoch("SequentialLR", epoch);
  const std::int64_t now = last_epoch() + 1;
  const auto after = std::upper_bound(milestones_.begin(), milestones_.end(), now);
  const auto at = static_cast<std::size_t>(after - milestones_.begin());
  LRScheduler& schedule = *schedules_[at];
  if (at > 0 && milestones_[at - 1] == now) {
    schedule.restart();
  } else {
    schedule.step();
  }
  remember_rates(schedule.last_lr(), now);
}
void SequentialLR::undo_initial_step() {
  for (const auto& schedule : schedules_) schedule->undo_initial_step();
}
OptionMap SequentialLR::state_dict() const {
  return {{"_milestones", std::vector<Scalar>(milestones_.begin(), milestones_.end())},
          {"last_epoch", Scalar(last_epoch())},
          {"_last_lr", detail::scalars(last_lr())},
          {"_schedulers", states_of(schedules_)}};
}
void SequentialLR::load_state_dict(const OptionMap& state) {
  load_states(schedules_, state);
  milestones_.clear();
  for (const double milestone : state.numbers("_milestones")) {
    milestones_.push_back(static_cast<std::int64_t>(milestone));
  }
  remember_rates(state.numbers("_last_lr"), state.integer("last_epoch"));
}

ChainedScheduler::ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedules)
    : ChainedScheduler(at_least_one(kNoChain, schedules)[0]->optimizer(), schedules) {}
ChainedScheduler::ChainedScheduler(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules)
    : LRScheduler(optimizer), schedules_(at_least_one(kNoChain, std::move(schedules))) {
  check_optimizer("ChainedScheduler", optimizer, schedules_);
  LRScheduler::remember_rates();
}
void ChainedScheduler::step(std::optional<std::int64_t> epoch) {
  refuse_epoch("ChainedScheduler", epoch);
  for (const auto& schedule : schedules_) schedule->step();
  LRScheduler::remember_rates();
}
void ChainedScheduler::undo_initial_step() {
  for (const auto& schedule : schedules_) schedule->undo_initial_step();
}
OptionMap ChainedScheduler::state_dict() const {
  return {{"_last_lr", detail::scalars(last_lr())}, {"_schedulers", states_of(schedules_)}};
}
void ChainedScheduler::load_state_dict(const OptionMap& state) {
  load_states(schedules_, state);
  remember_rates(state.numbers("_last_lr"), last_epoch());
}

}  // namespace core
