#include "libcore/optim/schedule_cycle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/text.h"
#include "libcore/optim/schedule_state.h"

namespace core {
namespace {

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

std::int64_t checked_count(const char* name, std::int64_t count) {
  if (count <= 0)
    detail::fail_value(std::string("Expected positive integer ") + name + ", but got " + std::to_string(count));
  return count;
}

std::int64_t total_of(const OneCycleLR::Options& o) {
  if (o.total_steps) return checked_count("total_steps", *o.total_steps);
  if (!o.epochs || !o.steps_per_epoch)
    detail::fail_value("You must define either total_steps OR (epochs AND steps_per_epoch)");
  return checked_count("epochs", *o.epochs) * checked_count("steps_per_epoch", *o.steps_per_epoch);
}

bool uses_beta1(const Optimizer& optimizer) {
  return optimizer.defaults().contains("betas");
}

/// What a schedule of the momentum begins with.
void prepare_momentum(Optimizer& optimizer, const PerGroup& base, const PerGroup& top, bool is_new) {
  if (!uses_beta1(optimizer) && !optimizer.defaults().contains("momentum")) {
    detail::fail_value("optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
  }
  const std::vector<double> tops = top.of(optimizer, "max_momentum"), bases = base.of(optimizer, "base_momentum");
  for (std::size_t i = 0; is_new && i < tops.size(); ++i) {
    ParamGroup& group = optimizer.param_groups()[i];
    set_momentum(group, tops[i]);
    group.options.set("max_momentum", Scalar(tops[i]));
    group.options.set("base_momentum", Scalar(bases[i]));
  }
}

Optimizer& prepared(Optimizer& optimizer, const OneCycleLR::Options& o, std::int64_t last_epoch) {
  total_of(o);
  if (o.pct_start < 0 || o.pct_start > 1) {
    detail::fail_value("Expected float between 0 and 1 pct_start, but got " + python_float(o.pct_start));
  }
  if (o.anneal_strategy != "cos" && o.anneal_strategy != "linear") {
    detail::fail_value("anneal_strategy must be one of 'cos' or 'linear', instead got " + o.anneal_strategy);
  }
  const std::vector<double> tops = o.max_lr.of(optimizer, "max_lr");
  for (std::size_t i = 0; last_epoch == -1 && i < tops.size(); ++i) {
    OptionMap& options = optimizer.param_groups()[i].options;
    const double initial = tops[i] / o.div_factor;
    options.set("initial_lr", Scalar(initial));
    options.set("max_lr", Scalar(tops[i]));
    options.set("min_lr", Scalar(initial / o.final_div_factor));
  }
  if (o.cycle_momentum) prepare_momentum(optimizer, o.base_momentum, o.max_momentum, last_epoch == -1);
  return optimizer;
}

Optimizer& prepared(Optimizer& optimizer, const CyclicLR::Options& o, std::int64_t last_epoch) {
  const std::vector<double> bases = o.base_lr.of(optimizer, "base_lr");
  for (std::size_t i = 0; last_epoch == -1 && i < bases.size(); ++i) optimizer.param_groups()[i].set_lr(bases[i]);
  o.max_lr.of(optimizer, "max_lr");
  const bool known = o.mode == "triangular" || o.mode == "triangular2" || o.mode == "exp_range";
  if (!known && !o.scale_fn) detail::fail_value("mode is invalid and scale_fn is None");
  if (o.cycle_momentum) prepare_momentum(optimizer, o.base_momentum, o.max_momentum, last_epoch == -1);
  return optimizer;
}

}  // namespace

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, Options options, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch),
      options_(options),
      length_(options.T_0),
      passed_(static_cast<double>(last_epoch)) {
  if (options.T_0 <= 0) detail::fail_value("Expected positive integer T_0, but got " + std::to_string(options.T_0));
  if (options.T_mult < 1) detail::fail_value("Expected integer T_mult >= 1, but got " + std::to_string(options.T_mult));
  start();
}
void CosineAnnealingWarmRestarts::step(std::optional<std::int64_t> epoch) {
  if (epoch) return step_at(static_cast<double>(*epoch));
  if (last_epoch() < 0) return step_at(0);
  passed_ += 1;
  if (passed_ >= static_cast<double>(length_)) {
    passed_ = std::fmod(passed_, static_cast<double>(length_));
    length_ *= options_.T_mult;
  }
  go_to(last_epoch() + 1);
}
void CosineAnnealingWarmRestarts::step_at(double epoch) {
  if (epoch < 0) detail::fail_value("Expected non-negative epoch, but got " + python_float(epoch));
  const auto first = static_cast<double>(options_.T_0), times = static_cast<double>(options_.T_mult);
  if (epoch < first) {
    length_ = options_.T_0;
    passed_ = epoch;
  } else if (options_.T_mult == 1) {
    passed_ = std::fmod(epoch, first);
  } else {
    const double n = std::trunc(std::log(epoch / first * (times - 1) + 1) / std::log(times));
    passed_ = epoch - first * (std::pow(times, n) - 1) / (times - 1);
    length_ = static_cast<std::int64_t>(first * std::pow(times, n));
  }
  go_to(static_cast<std::int64_t>(std::floor(epoch)));
}
double CosineAnnealingWarmRestarts::next_lr(const Group& group) const {
  const double part = std::numbers::pi * passed_ / static_cast<double>(length_);
  return options_.eta_min + (group.base_lr - options_.eta_min) * (1 + std::cos(part)) / 2;
}
OptionMap CosineAnnealingWarmRestarts::options() const {
  return {{"T_0", Scalar(options_.T_0)},
          {"T_i", Scalar(length_)},
          {"T_mult", Scalar(options_.T_mult)},
          {"eta_min", Scalar(options_.eta_min)},
          {"T_cur", detail::plain_number(passed_)}};
}
void CosineAnnealingWarmRestarts::set_options(const OptionMap& state) {
  options_ = {state.integer("T_0"), state.integer("T_mult"), state.number("eta_min")};
  length_ = state.integer("T_i");
  passed_ = state.number("T_cur");
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, const Options& options, std::int64_t last_epoch)
    : LRScheduler(prepared(optimizer, options, last_epoch), last_epoch),
      options_(options),
      total_steps_(total_of(options)) {
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
    detail::fail_value("Tried to step " + std::to_string(last_epoch()) +
                       " times. The specified number of total steps is " + std::to_string(total_steps_));
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
  std::vector<OptionMap> phases;
  for (const Phase& phase : phases_) {
    phases.push_back({{"end_step", detail::plain_number(phase.end_step)},
                      {"start_lr", phase.start_lr},
                      {"end_lr", phase.end_lr},
                      {"start_momentum", phase.start_momentum},
                      {"end_momentum", phase.end_momentum}});
  }
  OptionMap state{{"total_steps", Scalar(total_steps_)},
                  {"_schedule_phases", phases},
                  {"_anneal_func_type", options_.anneal_strategy},
                  {"cycle_momentum", Scalar(options_.cycle_momentum)}};
  if (options_.cycle_momentum) state.set("use_beta1", Scalar(uses_beta1(optimizer())));
  return state;
}
void OneCycleLR::set_options(const OptionMap& state) {
  total_steps_ = state.integer("total_steps");
  options_.anneal_strategy = state.text("_anneal_func_type");
  options_.cycle_momentum = state.flag("cycle_momentum");
  const auto* phases = std::get_if<std::vector<OptionMap>>(&state.at("_schedule_phases"));
  if (phases == nullptr || phases->empty()) {
    throw Error(ErrorCode::type, "optimizer option '_schedule_phases' is no list of maps");
  }
  phases_.clear();
  for (const OptionMap& phase : *phases) {
    phases_.push_back({phase.number("end_step"), phase.text("start_lr"), phase.text("end_lr"),
                       phase.text("start_momentum"), phase.text("end_momentum")});
  }
}

CyclicLR::CyclicLR(Optimizer& optimizer, const Options& options, std::int64_t last_epoch)
    : LRScheduler(prepared(optimizer, options, last_epoch), last_epoch),
      options_(options),
      max_lrs_(options.max_lr.of(optimizer, "max_lr")) {
  const auto up = static_cast<double>(options.step_size_up);
  total_size_ = up + static_cast<double>(options.step_size_down.value_or(options.step_size_up));
  step_ratio_ = up / total_size_;
  if (!options.scale_fn) options_.scale_mode = options.mode == "exp_range" ? "iterations" : "cycle";
  if (options.cycle_momentum) {
    base_momentums_ = options.base_momentum.of(optimizer, "base_momentum");
    max_momentums_ = options.max_momentum.of(optimizer, "max_momentum");
  }
  start();
  set_base_lrs(options.base_lr.of(optimizer, "base_lr"));
}
double CyclicLR::height(double x) const {
  if (options_.scale_fn) return options_.scale_fn(x);
  if (options_.mode == "triangular") return 1;
  return options_.mode == "triangular2" ? 1 / std::pow(2.0, x - 1) : std::pow(options_.gamma, x);
}
double CyclicLR::next_lr(const Group& group) const {
  const auto now = static_cast<double>(last_epoch());
  const double cycle = std::floor(1 + now / total_size_), x = 1 + now / total_size_ - cycle;
  const double scale = x <= step_ratio_ ? x / step_ratio_ : (x - 1) / (step_ratio_ - 1);
  const double factor = height(options_.scale_mode == "cycle" ? cycle : now);
  const double lr = group.base_lr + (max_lrs_[group.index] - group.base_lr) * scale * factor;
  if (options_.cycle_momentum) {
    const double top = max_momentums_[group.index];
    set_momentum(*group.params, top - (top - base_momentums_[group.index]) * scale * factor);
  }
  return lr;
}
OptionMap CyclicLR::options() const {
  OptionMap state{{"max_lrs", detail::scalars(max_lrs_)},
                  {"total_size", Scalar(total_size_)},
                  {"step_ratio", Scalar(step_ratio_)},
                  {"mode", options_.mode},
                  {"gamma", Scalar(options_.gamma)},
                  {"scale_mode", options_.scale_mode},
                  {"cycle_momentum", Scalar(options_.cycle_momentum)}};
  if (!options_.cycle_momentum) return state;
  state.set("use_beta1", Scalar(uses_beta1(optimizer())));
  state.set("base_momentums", detail::scalars(base_momentums_));
  state.set("max_momentums", detail::scalars(max_momentums_));
  return state;
}
OptionMap CyclicLR::state_dict() const {
  OptionMap state = LRScheduler::state_dict();
  state.set("_scale_fn_custom", {});
  return state;
}
void CyclicLR::set_options(const OptionMap& state) {
  max_lrs_ = state.numbers("max_lrs");
  total_size_ = state.number("total_size");
  step_ratio_ = state.number("step_ratio");
  options_.mode = state.text("mode");
  options_.gamma = state.number("gamma");
  options_.scale_mode = state.text("scale_mode");
  options_.cycle_momentum = state.flag("cycle_momentum");
  if (!options_.cycle_momentum) return;
  base_momentums_ = state.numbers("base_momentums");
  max_momentums_ = state.numbers("max_momentums");
}

}  // namespace core
