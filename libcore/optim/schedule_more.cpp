#include "libcore/optim/schedule_more.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {
namespace {

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::value, text);
}

/// Sets what goes the other way round: the momentum, or Adam's first beta.
void set_momentum(ParamGroup& group, double value) {
  const OptionValue* betas = group.options.find("betas");
  if (!betas) {
    group.options.set("momentum", Scalar(value));
    return;
  }
  std::vector<Scalar> both = std::get<std::vector<Scalar>>(*betas);
  both[0] = Scalar(value);
  group.options.set("betas", both);
}

std::int64_t total_of(const OneCycleLR::Options& o) {
  if (o.total_steps) {
    if (*o.total_steps <= 0) {
      fail("Expected positive integer total_steps, but got " + std::to_string(*o.total_steps));
    }
    return *o.total_steps;
  }
  if (!o.epochs || !o.steps_per_epoch) fail("You must define either total_steps OR (epochs AND steps_per_epoch)");
  return *o.epochs * *o.steps_per_epoch;
}

Optimizer& prepared(Optimizer& optimizer, const OneCycleLR::Options& o) {
  total_of(o);
  if (o.pct_start < 0 || o.pct_start > 1) {
    fail("Expected float between 0 and 1 pct_start, but got " + python_float(o.pct_start));
  }
  if (o.anneal_strategy != "cos" && o.anneal_strategy != "linear") {
    fail("anneal_strategy must be one of 'cos' or 'linear', instead got " + o.anneal_strategy);
  }
  for (ParamGroup& group : optimizer.param_groups()) {
    const double initial = o.max_lr / o.div_factor;
    group.options.set("initial_lr", Scalar(initial));
    group.options.set("max_lr", Scalar(o.max_lr));
    group.options.set("min_lr", Scalar(initial / o.final_div_factor));
    if (!o.cycle_momentum) continue;
    group.options.set("max_momentum", Scalar(o.max_momentum));
    group.options.set("base_momentum", Scalar(o.base_momentum));
    set_momentum(group, o.max_momentum);
  }
  return optimizer;
}

Optimizer& prepared(Optimizer& optimizer, const CyclicLR::Options& o) {
  if (o.mode != "triangular" && o.mode != "triangular2" && o.mode != "exp_range") {
    fail("mode is invalid and scale_fn is None");
  }
  for (ParamGroup& group : optimizer.param_groups()) {
    group.options.set("lr", Scalar(o.base_lr));
    if (!o.cycle_momentum) continue;
    group.options.set("base_momentum", Scalar(o.base_momentum));
    group.options.set("max_momentum", Scalar(o.max_momentum));
    set_momentum(group, o.max_momentum);
  }
  return optimizer;
}

}  // namespace

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  start();
}
double MultiplicativeLR::next_lr(const Group& group) const {
  return last_epoch() > 0 ? group.lr * factor_(last_epoch()) : group.lr;
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, Options options)
    : LRScheduler(optimizer), options_(options), length_(options.T_0) {
  if (options.T_0 <= 0) fail("Expected positive integer T_0, but got " + std::to_string(options.T_0));
  if (options.T_mult < 1) fail("Expected integer T_mult >= 1, but got " + std::to_string(options.T_mult));
  go_to(0);
}
void CosineAnnealingWarmRestarts::step() {
  if (++passed_ >= length_) {
    passed_ -= length_;
    length_ *= options_.T_mult;
  }
  go_to(last_epoch() + 1);
}
double CosineAnnealingWarmRestarts::next_lr(const Group& group) const {
  const double part = std::numbers::pi * static_cast<double>(passed_) / static_cast<double>(length_);
  return options_.eta_min + (group.base_lr - options_.eta_min) * (1 + std::cos(part)) / 2;
}
OptionMap CosineAnnealingWarmRestarts::options() const {
  return {{"T_0", Scalar(options_.T_0)},
          {"T_i", Scalar(length_)},
          {"T_mult", Scalar(options_.T_mult)},
          {"eta_min", Scalar(options_.eta_min)},
          {"T_cur", Scalar(passed_)}};
}
void CosineAnnealingWarmRestarts::set_options(const OptionMap& state) {
  const auto whole = [&](const char* name) { return std::get<Scalar>(state.at(name)).to_int(); };
  options_ = {whole("T_0"), whole("T_mult"), state.number("eta_min")};
  length_ = whole("T_i");
  passed_ = whole("T_cur");
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, const Options& options)
    : LRScheduler(prepared(optimizer, options)), options_(options), total_steps_(total_of(options)) {
  const auto total = static_cast<double>(total_steps_);
  const char *initial = "initial_lr", *top = "max_lr", *least = "min_lr";
  const char *high = "max_momentum", *low = "base_momentum";
  phases_.push_back({options.pct_start * total - 1, initial, top, high, low});
  if (options.three_phase) {
    phases_.push_back({2 * options.pct_start * total - 2, top, initial, low, high});
    phases_.push_back({total - 1, initial, least, high, high});
  } else {
    phases_.push_back({total - 1, top, least, low, high});
  }
  start();
}
double OneCycleLR::anneal(double from, double to, double part) const {
  if (options_.anneal_strategy == "linear") return (to - from) * part + from;
  return to + (from - to) / 2.0 * (std::cos(std::numbers::pi * part) + 1);
}
double OneCycleLR::next_lr(const Group& group) const {
  if (last_epoch() > total_steps_) {
    fail("Tried to step " + std::to_string(last_epoch()) + " times. The specified number of total steps is " +
         std::to_string(total_steps_));
  }
  const auto now = static_cast<double>(last_epoch());
  double begin = 0;
  std::size_t at = 0;
  for (; at + 1 < phases_.size() && now > phases_[at].end_step; ++at) begin = phases_[at].end_step;
  const Phase& phase = phases_[at];
  const double part = (now - begin) / (phase.end_step - begin);
  const OptionMap& o = group.params->options;
  const double lr = anneal(o.number(phase.start_lr), o.number(phase.end_lr), part);
  if (options_.cycle_momentum) {
    set_momentum(*group.params, anneal(o.number(phase.start_momentum), o.number(phase.end_momentum), part));
  }
  return lr;
}
OptionMap OneCycleLR::options() const {
  return {{"total_steps", Scalar(total_steps_)},
          {"_anneal_func_type", options_.anneal_strategy},
          {"cycle_momentum", Scalar(options_.cycle_momentum)}};
}

CyclicLR::CyclicLR(Optimizer& optimizer, const Options& options)
    : LRScheduler(prepared(optimizer, options)), options_(options) {
  start();
}
double CyclicLR::height(double x) const {
  if (options_.mode == "triangular") return 1;
  return options_.mode == "triangular2" ? 1 / std::pow(2.0, x - 1) : std::pow(options_.gamma, x);
}
double CyclicLR::next_lr(const Group& group) const {
  const auto up = static_cast<double>(options_.step_size_up);
  const double total = up + static_cast<double>(options_.step_size_down.value_or(options_.step_size_up));
  const double ratio = up / total, now = static_cast<double>(last_epoch());
  const double cycle = std::floor(1 + now / total), x = 1 + now / total - cycle;
  const double scale = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
  const double factor = height(options_.mode == "exp_range" ? now : cycle);
  const double lr = group.base_lr + (options_.max_lr - group.base_lr) * scale * factor;
  if (options_.cycle_momentum) {
    const double range = (options_.max_momentum - options_.base_momentum) * scale;
    set_momentum(*group.params, options_.max_momentum - range * factor);
  }
  return lr;
}
OptionMap CyclicLR::options() const {
  return {
      {"mode", options_.mode}, {"gamma", Scalar(options_.gamma)}, {"cycle_momentum", Scalar(options_.cycle_momentum)}};
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, Options options)
    : optimizer_(optimizer), options_(std::move(options)) {
  if (options_.factor >= 1) fail("Factor should be < 1.0.");
  if (options_.mode != "min" && options_.mode != "max") fail("mode " + options_.mode + " is unknown!");
  if (options_.threshold_mode != "rel" && options_.threshold_mode != "abs") {
    fail("threshold mode " + options_.threshold_mode + " is unknown!");
  }
  const double worst = std::numeric_limits<double>::infinity();
  best_ = options_.mode == "min" ? worst : -worst;
}
bool ReduceLROnPlateau::is_better(double metric) const {
  const bool least = options_.mode == "min", relative = options_.threshold_mode == "rel";
  if (least) return metric < (relative ? best_ * (1 - options_.threshold) : best_ - options_.threshold);
  return metric > (relative ? best_ * (options_.threshold + 1) : best_ + options_.threshold);
}
void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
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
  if (bad_epochs_ <= options_.patience) return;
  for (ParamGroup& group : optimizer_.param_groups()) {
    const double lower = std::max(group.lr() * options_.factor, options_.min_lr);
    if (group.lr() - lower > options_.eps) group.set_lr(lower);
  }
  cooldown_left_ = options_.cooldown;
  bad_epochs_ = 0;
}
std::vector<double> ReduceLROnPlateau::last_lr() const {
  std::vector<double> rates;
  for (const ParamGroup& group : optimizer_.param_groups()) rates.push_back(group.lr());
  return rates;
}
OptionMap ReduceLROnPlateau::state_dict() const {
  const std::vector<double> rates = last_lr();
  return {{"factor", Scalar(options_.factor)},
          {"patience", Scalar(options_.patience)},
          {"cooldown", Scalar(options_.cooldown)},
          {"eps", Scalar(options_.eps)},
          {"last_epoch", Scalar(last_epoch_)},
          {"_last_lr", std::vector<Scalar>(rates.begin(), rates.end())},
          {"mode", options_.mode},
          {"threshold", Scalar(options_.threshold)},
          {"threshold_mode", options_.threshold_mode},
          {"best", Scalar(best_)},
          {"cooldown_counter", Scalar(cooldown_left_)},
          {"num_bad_epochs", Scalar(bad_epochs_)}};
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules,
                           std::vector<std::int64_t> milestones)
    : LRScheduler(optimizer), schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  if (schedules_.size() != milestones_.size() + 1) {
    fail(
        "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
        "points, but got number of schedulers " +
        std::to_string(schedules_.size()) + " and the number of milestones to be equal to " +
        std::to_string(milestones_.size()));
  }
  for (ParamGroup& group : optimizer.param_groups()) group.set_lr(group.options.number("initial_lr"));
  for (const auto& schedule : schedules_) schedule->undo_initial_step();
  schedules_[0]->step();
  go_to(0);
}
void SequentialLR::step() {
  ++epoch_;
  const auto after = std::upper_bound(milestones_.begin(), milestones_.end(), epoch_);
  const auto at = static_cast<std::size_t>(after - milestones_.begin());
  if (at > 0 && milestones_[at - 1] == epoch_) {
    schedules_[at]->restart();
  } else {
    schedules_[at]->step();
  }
  go_to(epoch_);
}
OptionMap SequentialLR::options() const {
  return {{"_milestones", std::vector<Scalar>(milestones_.begin(), milestones_.end())}};
}

ChainedScheduler::ChainedScheduler(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules)
    : LRScheduler(optimizer), schedules_(std::move(schedules)) {
  go_to(0);
}
void ChainedScheduler::step() {
  for (const auto& schedule : schedules_) schedule->step();
  go_to(last_epoch() + 1);
}

}  // namespace core
