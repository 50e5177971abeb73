#include "libcore/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/optim/schedule_state.h"
#include "libcore/optim/schedule_text.h"

namespace core {
namespace {

constexpr const char* kOrderWarning =
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
    "them "
    "in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in "
    "PyTorch "
    "skipping the first value of the learning rate schedule. See more details at "
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate";

[[noreturn]] void throw_no_initial_lr(std::size_t group) {
  throw Error(ErrorCode::key,
              "param 'initial_lr' is not specified in param_groups[" + std::to_string(group) +
                  "] when resuming scheduler with last_epoch >= 0.\nThis typically happens when:\n1. You're trying to "
                  "resume training from a checkpoint but haven't properly loaded the optimizer state\n2. You're using "
                  "last_epoch >= 0 for a fresh training run (not recommended)");
}

void require_factor(bool ok, const char* message) {
  if (!ok) throw Error(ErrorCode::value, message);
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer, std::int64_t last_epoch)
    : optimizer_(optimizer), last_epoch_(last_epoch) {
  std::vector<ParamGroup>& groups = optimizer.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    OptionMap& options = groups[i].options;
    if (!options.contains("initial_lr")) {
      if (last_epoch != -1) throw_no_initial_lr(i);
      options.set("initial_lr", options.at("lr"));
    }
    base_lrs_.push_back(options.number("initial_lr"));
  }
  optimizer.watch_steps();
}

void LRScheduler::initial_step() {
  step_count_ = 0;
  is_initial_ = true;
  step();
  is_initial_ = false;
}

void LRScheduler::step(std::optional<std::int64_t> epoch) {
  if (step_count_ == 1 && !optimizer_.was_stepped()) warn(kOrderWarning);
  ++step_count_;
  if (!epoch) return go_to(last_epoch_ + 1);
  warn(kEpochWarning);
  go_to(*epoch, true);
}

std::optional<double> LRScheduler::closed_form(const Group&) const {
  return std::nullopt;
}

void LRScheduler::go_to(std::int64_t epoch, bool by_closed_form) {
  last_epoch_ = epoch;
  std::vector<ParamGroup>& groups = optimizer_.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group group{.lr = groups[i].lr(), .base_lr = base_lrs_[i], .params = &groups[i], .index = i};
    const std::optional<double> closed = by_closed_form ? closed_form(group) : std::nullopt;
    groups[i].set_lr(closed ? *closed : next_lr(group));
  }
  remember_rates();
}

void LRScheduler::remember_rates() {
  last_lr_.clear();
  for (const ParamGroup& group : optimizer_.param_groups()) last_lr_.push_back(group.lr());
}

void LRScheduler::remember_rates(std::vector<double> rates, std::int64_t epoch) {
  last_lr_ = std::move(rates);
  last_epoch_ = epoch;
}

OptionMap LRScheduler::state_dict() const {
  OptionMap state = options();
  state.set("base_lrs", detail::scalars(base_lrs_));
  state.set("last_epoch", Scalar(last_epoch_));
  state.set("_step_count", Scalar(step_count_));
  state.set("_is_initial", Scalar(is_initial_));
  state.set("_get_lr_called_within_step", Scalar(false));
  state.set("_last_lr", detail::scalars(last_lr_));
  return state;
}

void LRScheduler::load_state_dict(const OptionMap& state) {
  base_lrs_ = state.numbers("base_lrs");
  last_lr_ = state.numbers("_last_lr");
  last_epoch_ = state.integer("last_epoch");
  step_count_ = state.integer("_step_count");
  set_options(state);
}

StepLR::StepLR(Optimizer& optimizer, Options options, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), options_(options) {
  start();
}
double StepLR::next_lr(const Group& group) const {
  return last_epoch() == 0 || last_epoch() % options_.step_size != 0 ? group.lr : group.lr * options_.gamma;
}
std::optional<double> StepLR::closed_form(const Group& group) const {
  return group.base_lr * std::pow(options_.gamma, static_cast<double>(last_epoch() / options_.step_size));
}
OptionMap StepLR::options() const {
  return {{"step_size", Scalar(options_.step_size)}, {"gamma", Scalar(options_.gamma)}};
}
void StepLR::set_options(const OptionMap& state) {
  options_ = {.step_size = state.integer("step_size"), .gamma = state.number("gamma")};
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, Options options, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), options_(std::move(options)) {
  start();
}
double MultiStepLR::next_lr(const Group& group) const {
  auto times = std::count(options_.milestones.begin(), options_.milestones.end(), last_epoch());
  return times == 0 ? group.lr : group.lr * std::pow(options_.gamma, static_cast<double>(times));
}
std::optional<double> MultiStepLR::closed_form(const Group& group) const {
  const auto passed = std::count_if(options_.milestones.begin(), options_.milestones.end(),
                                    [&](std::int64_t epoch) { return epoch <= last_epoch(); });
  return group.base_lr * std::pow(options_.gamma, static_cast<double>(passed));
}
OptionMap MultiStepLR::options() const {
  std::vector<Scalar> milestones(options_.milestones.begin(), options_.milestones.end());
  return {{"milestones", milestones}, {"gamma", Scalar(options_.gamma)}};
}
void MultiStepLR::set_options(const OptionMap& state) {
  options_ = {.milestones = {}, .gamma = state.number("gamma")};
  for (double epoch : state.numbers("milestones")) options_.milestones.push_back(static_cast<std::int64_t>(epoch));
}

ConstantLR::ConstantLR(Optimizer& optimizer, Options options, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), options_(options) {
  require_factor(options.factor >= 0 && options.factor <= 1,
                 "Constant multiplicative factor expected to be between 0 and 1.");
  start();
}
double ConstantLR::next_lr(const Group& group) const {
  if (last_epoch() == 0) return group.lr * options_.factor;
  return last_epoch() != options_.total_iters ? group.lr : group.lr * (1.0 / options_.factor);
}
std::optional<double> ConstantLR::closed_form(const Group& group) const {
  return group.base_lr * (options_.factor + (last_epoch() >= options_.total_iters ? 1 : 0) * (1 - options_.factor));
}
OptionMap ConstantLR::options() const {
  return {{"factor", Scalar(options_.factor)}, {"total_iters", Scalar(options_.total_iters)}};
}
void ConstantLR::set_options(const OptionMap& state) {
  options_ = {.factor = state.number("factor"), .total_iters = state.integer("total_iters")};
}

LinearLR::LinearLR(Optimizer& optimizer, Options options, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), options_(options) {
  require_factor(options.start_factor > 0 && options.start_factor <= 1,
                 "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.");
  require_factor(options.end_factor >= 0 && options.end_factor <= 1,
                 "Ending multiplicative factor expected to be between 0 and 1.");
  start();
}
double LinearLR::next_lr(const Group& group) const {
  if (last_epoch() == 0) return group.lr * options_.start_factor;
  if (is_initial() || last_epoch() > options_.total_iters) return group.lr;
  double rise = options_.end_factor - options_.start_factor;
  double before =
      static_cast<double>(options_.total_iters) * options_.start_factor + static_cast<double>(last_epoch() - 1) * rise;
  return group.lr * (1.0 + rise / before);
}
std::optional<double> LinearLR::closed_form(const Group& group) const {
  const auto total = static_cast<double>(options_.total_iters);
  const double passed = std::min(total, static_cast<double>(last_epoch()));
  return group.base_lr * (options_.start_factor + (options_.end_factor - options_.start_factor) * passed / total);
}
OptionMap LinearLR::options() const {
  return {{"start_factor", Scalar(options_.start_factor)},
          {"end_factor", Scalar(options_.end_factor)},
          {"total_iters", Scalar(options_.total_iters)}};
}
void LinearLR::set_options(const OptionMap& state) {
  options_ = {.start_factor = state.number("start_factor"),
              .end_factor = state.number("end_factor"),
              .total_iters = state.integer("total_iters")};
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), gamma_(gamma) {
  start();
}
double ExponentialLR::next_lr(const Group& group) const {
  return is_initial() ? group.lr : group.lr * gamma_;
}
std::optional<double> ExponentialLR::closed_form(const Group& group) const {
  return group.base_lr * std::pow(gamma_, static_cast<double>(last_epoch()));
}
OptionMap ExponentialLR::options() const {
  return {{"gamma", Scalar(gamma_)}};
}
void ExponentialLR::set_options(const OptionMap& state) {
  gamma_ = state.number("gamma");
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, Options options, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), options_(options) {
  start();
}
double PolynomialLR::next_lr(const Group& group) const {
  if (is_initial() || last_epoch() > options_.total_iters) return group.lr;
  auto total = static_cast<double>(options_.total_iters);
  double left = 1.0 - static_cast<double>(last_epoch()) / total;
  double left_before = 1.0 - static_cast<double>(last_epoch() - 1) / total;
  return group.lr * std::pow(left / left_before, options_.power);
}
std::optional<double> PolynomialLR::closed_form(const Group& group) const {
  const auto total = static_cast<double>(options_.total_iters);
  const double passed = std::min(total, static_cast<double>(last_epoch()));
  return group.base_lr * std::pow(1.0 - passed / total, options_.power);
}
OptionMap PolynomialLR::options() const {
  return {{"total_iters", Scalar(options_.total_iters)}, {"power", Scalar(options_.power)}};
}
void PolynomialLR::set_options(const OptionMap& state) {
  options_ = {.total_iters = state.integer("total_iters"), .power = state.number("power")};
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, Options options, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), options_(options) {
  start();
}
double CosineAnnealingLR::next_lr(const Group& group) const {
  constexpr double kPi = std::numbers::pi;
  if (is_initial()) return group.lr;
  auto epoch = static_cast<double>(last_epoch());
  auto half = static_cast<double>(options_.T_max);
  if (step_count() == 1 && last_epoch() > 0) return *closed_form(group);
  // Where the rate has just touched the minimum the quotient below would be 0 / 0.
  if ((last_epoch() - 1 - options_.T_max) % (2 * options_.T_max) == 0) {
    return group.lr + (group.base_lr - options_.eta_min) * (1 - std::cos(kPi / half)) / 2;
  }
  return (1 + std::cos(kPi * epoch / half)) / (1 + std::cos(kPi * (epoch - 1) / half)) * (group.lr - options_.eta_min) +
         options_.eta_min;
}
std::optional<double> CosineAnnealingLR::closed_form(const Group& group) const {
  const double part = std::numbers::pi * static_cast<double>(last_epoch()) / static_cast<double>(options_.T_max);
  return options_.eta_min + (group.base_lr - options_.eta_min) * (1 + std::cos(part)) / 2;
}
OptionMap CosineAnnealingLR::options() const {
  return {{"T_max", Scalar(options_.T_max)}, {"eta_min", Scalar(options_.eta_min)}};
}
void CosineAnnealingLR::set_options(const OptionMap& state) {
  options_ = {.T_max = state.integer("T_max"), .eta_min = state.number("eta_min")};
}

namespace detail {

std::vector<EpochFunction> check_factors(const Optimizer& optimizer, std::vector<EpochFunction> factors) {
  const std::size_t groups = optimizer.param_groups().size();
  if (factors.size() == groups) return factors;
  throw Error(ErrorCode::value,
              "Expected " + std::to_string(groups) + " lr_lambdas, but got " + std::to_string(factors.size()));
}

OptionMap with_lambdas(OptionMap state, std::size_t count) {
  state.set("lr_lambdas", std::vector<OptionMap>(count));
  return state;
}

}  // namespace detail

LambdaLR::LambdaLR(Optimizer& optimizer, EpochFunction factor, std::int64_t last_epoch)
    : LambdaLR(optimizer, std::vector<EpochFunction>(optimizer.param_groups().size(), factor), last_epoch) {}
LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<EpochFunction> factors, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), factors_(detail::check_factors(optimizer, std::move(factors))) {
  start();
}
double LambdaLR::next_lr(const Group& group) const {
  return group.base_lr * factors_[group.index](last_epoch());
}
OptionMap LambdaLR::state_dict() const {
  return detail::with_lambdas(LRScheduler::state_dict(), factors_.size());
}

std::vector<double> PerGroup::of(const Optimizer& optimizer, const char* name) const {
  const std::size_t groups = optimizer.param_groups().size();
  if (!for_all_ && size() != groups) {
    throw Error(ErrorCode::value, std::string(name) + " must have the same length as optimizer.param_groups. " + name +
                                      " has " + std::to_string(size()) + " values, param_groups has " +
                                      std::to_string(groups) + ".");
  }
  std::vector<double> result;
  for (std::size_t i = 0; i < groups; ++i) result.push_back((*this)[i]);
  return result;
}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, EpochFunction factor, std::int64_t last_epoch)
    : MultiplicativeLR(optimizer, std::vector<EpochFunction>(optimizer.param_groups().size(), factor), last_epoch) {}
MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::vector<EpochFunction> factors, std::int64_t last_epoch)
    : LRScheduler(optimizer, last_epoch), factors_(detail::check_factors(optimizer, std::move(factors))) {
  start();
}
double MultiplicativeLR::next_lr(const Group& group) const {
  return is_initial() ? group.lr : group.lr * factors_[group.index](last_epoch());
}
OptionMap MultiplicativeLR::state_dict() const {
  return detail::with_lambdas(LRScheduler::state_dict(), factors_.size());
}

}  // namespace core
