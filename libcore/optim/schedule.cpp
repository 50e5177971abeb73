#include "libcore/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "libcore/base/error.h"

namespace core {
namespace {

std::vector<Scalar> scalars(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

std::vector<double> numbers(const OptionMap& state, std::string_view name) {
  std::vector<double> result;
  for (const Scalar& value : std::get<std::vector<Scalar>>(state.at(name))) result.push_back(value.to_double());
  return result;
}

std::int64_t integer(const OptionMap& state, std::string_view name) {
  return std::get<Scalar>(state.at(name)).to_int();
}

void require(bool ok, const char* message) {
  if (!ok) throw Error(ErrorCode::value, message);
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (ParamGroup& group : optimizer.param_groups()) {
    if (!group.options.contains("initial_lr")) group.options.set("initial_lr", group.options.at("lr"));
    base_lrs_.push_back(group.options.number("initial_lr"));
  }
}

void LRScheduler::start() {
  is_initial_ = true;
  step();
  is_initial_ = false;
}

void LRScheduler::step() {
  ++step_count_;
  go_to(last_epoch_ + 1);
}

void LRScheduler::go_to(std::int64_t epoch) {
  last_epoch_ = epoch;
  std::vector<ParamGroup>& groups = optimizer_.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].set_lr(next_lr({.lr = groups[i].lr(), .base_lr = base_lrs_[i], .params = &groups[i]}));
  }
  remember_rates();
}

void LRScheduler::remember_rates() {
  last_lr_.clear();
  for (const ParamGroup& group : optimizer_.param_groups()) last_lr_.push_back(group.lr());
}

void LRScheduler::restart() {
  std::vector<ParamGroup>& groups = optimizer_.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].set_lr(base_lrs_[i]);
  is_initial_ = true;
  go_to(0);
  is_initial_ = false;
}

OptionMap LRScheduler::state_dict() const {
  OptionMap state = options();
  state.set("base_lrs", scalars(base_lrs_));
  state.set("last_epoch", Scalar(last_epoch_));
  state.set("_step_count", Scalar(step_count_));
  state.set("_is_initial", Scalar(is_initial_));
  state.set("_get_lr_called_within_step", Scalar(false));
  state.set("_last_lr", scalars(last_lr_));
  return state;
}

void LRScheduler::load_state_dict(const OptionMap& state) {
  base_lrs_ = numbers(state, "base_lrs");
  last_lr_ = numbers(state, "_last_lr");
  last_epoch_ = integer(state, "last_epoch");
  step_count_ = integer(state, "_step_count");
  set_options(state);
}

StepLR::StepLR(Optimizer& optimizer, Options options) : LRScheduler(optimizer), options_(options) {
  start();
}
double StepLR::next_lr(const Group& group) const {
  return last_epoch() == 0 || last_epoch() % options_.step_size != 0 ? group.lr : group.lr * options_.gamma;
}
OptionMap StepLR::options() const {
  return {{"step_size", Scalar(options_.step_size)}, {"gamma", Scalar(options_.gamma)}};
}
void StepLR::set_options(const OptionMap& state) {
  options_ = {.step_size = integer(state, "step_size"), .gamma = state.number("gamma")};
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, Options options) : LRScheduler(optimizer), options_(std::move(options)) {
  start();
}
double MultiStepLR::next_lr(const Group& group) const {
  auto times = std::count(options_.milestones.begin(), options_.milestones.end(), last_epoch());
  return times == 0 ? group.lr : group.lr * std::pow(options_.gamma, static_cast<double>(times));
}
OptionMap MultiStepLR::options() const {
  std::vector<Scalar> milestones(options_.milestones.begin(), options_.milestones.end());
  return {{"milestones", milestones}, {"gamma", Scalar(options_.gamma)}};
}
void MultiStepLR::set_options(const OptionMap& state) {
  options_ = {.milestones = {}, .gamma = state.number("gamma")};
  for (double epoch : numbers(state, "milestones")) options_.milestones.push_back(static_cast<std::int64_t>(epoch));
}

ConstantLR::ConstantLR(Optimizer& optimizer, Options options) : LRScheduler(optimizer), options_(options) {
  require(options.factor >= 0 && options.factor <= 1, "Constant multiplicative factor expected to be between 0 and 1.");
  start();
}
double ConstantLR::next_lr(const Group& group) const {
  if (last_epoch() == 0) return group.lr * options_.factor;
  return last_epoch() != options_.total_iters ? group.lr : group.lr * (1.0 / options_.factor);
}
OptionMap ConstantLR::options() const {
  return {{"factor", Scalar(options_.factor)}, {"total_iters", Scalar(options_.total_iters)}};
}
void ConstantLR::set_options(const OptionMap& state) {
  options_ = {.factor = state.number("factor"), .total_iters = integer(state, "total_iters")};
}

LinearLR::LinearLR(Optimizer& optimizer, Options options) : LRScheduler(optimizer), options_(options) {
  require(options.start_factor > 0 && options.start_factor <= 1,
          "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.");
  require(options.end_factor >= 0 && options.end_factor <= 1,
          "Ending multiplicative factor expected to be between 0 and 1.");
  start();
}
double LinearLR::next_lr(const Group& group) const {
  if (last_epoch() == 0) return group.lr * options_.start_factor;
  if (last_epoch() > options_.total_iters) return group.lr;
  double rise = options_.end_factor - options_.start_factor;
  double before =
      static_cast<double>(options_.total_iters) * options_.start_factor + static_cast<double>(last_epoch() - 1) * rise;
  return group.lr * (1.0 + rise / before);
}
OptionMap LinearLR::options() const {
  return {{"start_factor", Scalar(options_.start_factor)},
          {"end_factor", Scalar(options_.end_factor)},
          {"total_iters", Scalar(options_.total_iters)}};
}
void LinearLR::set_options(const OptionMap& state) {
  options_ = {.start_factor = state.number("start_factor"),
              .end_factor = state.number("end_factor"),
              .total_iters = integer(state, "total_iters")};
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : LRScheduler(optimizer), gamma_(gamma) {
  start();
}
double ExponentialLR::next_lr(const Group& group) const {
  return is_initial() ? group.lr : group.lr * gamma_;
}
OptionMap ExponentialLR::options() const {
  return {{"gamma", Scalar(gamma_)}};
}
void ExponentialLR::set_options(const OptionMap& state) {
  gamma_ = state.number("gamma");
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, Options options) : LRScheduler(optimizer), options_(options) {
  start();
}
double PolynomialLR::next_lr(const Group& group) const {
  if (is_initial() || last_epoch() > options_.total_iters) return group.lr;
  auto total = static_cast<double>(options_.total_iters);
  double left = 1.0 - static_cast<double>(last_epoch()) / total;
  double left_before = 1.0 - static_cast<double>(last_epoch() - 1) / total;
  return group.lr * std::pow(left / left_before, options_.power);
}
OptionMap PolynomialLR::options() const {
  return {{"total_iters", Scalar(options_.total_iters)}, {"power", Scalar(options_.power)}};
}
void PolynomialLR::set_options(const OptionMap& state) {
  options_ = {.total_iters = integer(state, "total_iters"), .power = state.number("power")};
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, Options options)
    : LRScheduler(optimizer), options_(options) {
  start();
}
double CosineAnnealingLR::next_lr(const Group& group) const {
  constexpr double kPi = std::numbers::pi;
  if (is_initial()) return group.lr;
  auto epoch = static_cast<double>(last_epoch());
  auto half = static_cast<double>(options_.T_max);
  // Where the rate has just touched the minimum the quotient below would be 0 / 0.
  if ((last_epoch() - 1 - options_.T_max) % (2 * options_.T_max) == 0) {
    return group.lr + (group.base_lr - options_.eta_min) * (1 - std::cos(kPi / half)) / 2;
  }
  return (1 + std::cos(kPi * epoch / half)) / (1 + std::cos(kPi * (epoch - 1) / half)) * (group.lr - options_.eta_min) +
         options_.eta_min;
}
OptionMap CosineAnnealingLR::options() const {
  return {{"T_max", Scalar(options_.T_max)}, {"eta_min", Scalar(options_.eta_min)}};
}
void CosineAnnealingLR::set_options(const OptionMap& state) {
  options_ = {.T_max = integer(state, "T_max"), .eta_min = state.number("eta_min")};
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  start();
}
double LambdaLR::next_lr(const Group& group) const {
  return group.base_lr * factor_(last_epoch());
}

}  // namespace core
