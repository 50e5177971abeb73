#include "libcore/optim/averaged_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/operators.h"

namespace core {
namespace {

std::vector<Tensor> state_tensors(const Module& module, bool with_buffers) {
  std::vector<Tensor> all = module.parameters();
  if (!with_buffers) return all;
  for (const Tensor& buffer : module.buffers()) all.push_back(buffer);
  return all;
}

}  // namespace

AverageFunction swa_average() {
  return [](const Tensor& average, const Tensor& current, std::int64_t count) {
    const double weight = 1.0 / static_cast<double>(count + 1);
    if (average.is_floating_point()) {
      average.lerp_(current, weight);
    } else {
      average.add_((current - average) * weight);
    }
  };
}

AverageFunction ema_average(double decay) {
  if (decay < 0 || decay > 1) {
    std::string text = python_float(decay);
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    throw Error(ErrorCode::value, "Invalid decay value " + text + " provided. Please provide a value in [0,1] range.");
  }
  return [decay](const Tensor& average, const Tensor& current, std::int64_t) {
    if (average.is_floating_point()) {
      average.lerp_(current, 1 - decay);
    } else {
      average.copy_(average * decay + current * (1 - decay));
    }
  };
}

namespace detail {

void update_average(Module& average, const Module& model, const Tensor& count, const AveragedModelOptions& options) {
  const NoGradGuard no_grad;
  const auto seen = count.item<std::int64_t>();
  const std::vector<Tensor> ours = state_tensors(average, options.use_buffers);
  const std::vector<Tensor> theirs = state_tensors(model, options.use_buffers);
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    const Tensor to = ours[i].detach(), from = theirs[i].detach().to(to.device());
    if (seen == 0) {
      to.copy_(from);
    } else {
      options.average(to, from, seen);
    }
  }
  if (options.use_buffers) return;
  const std::vector<Tensor> our_buffers = average.buffers(), their_buffers = model.buffers();
  for (std::size_t i = 0; i < our_buffers.size(); ++i) our_buffers[i].detach().copy_(their_buffers.at(i).detach());
}

FreshStatistics::FreshStatistics(Module& model) : model_(model), was_training_(model.is_training()) {
  for (Module* module : model.modules()) {
    const bool is_batch_norm = module->class_name().starts_with("BatchNorm");
    auto* norm = is_batch_norm ? dynamic_cast<BatchNormState*>(module) : nullptr;
    if (norm == nullptr) continue;
    norm->reset_running_stats();
    norms_.emplace_back(norm, norm->options.momentum);
    norm->options.momentum.reset();
  }
  if (!norms_.empty()) model.train();
}

FreshStatistics::~FreshStatistics() {
  for (const auto& [norm, momentum] : norms_) norm->options.momentum = momentum;
  if (!norms_.empty()) model_.train(was_training_);
}

}  // namespace detail

namespace {

Optimizer& prepared(Optimizer& optimizer, const SWALR::Options& o) {
  if (o.anneal_strategy != "cos" && o.anneal_strategy != "linear") {
    throw Error(ErrorCode::value, "anneal_strategy must be one of 'cos' or 'linear', instead got " + o.anneal_strategy);
  }
  if (o.anneal_epochs < 0) {
    throw Error(ErrorCode::value,
                "anneal_epochs must be equal or greater than 0, got " + std::to_string(o.anneal_epochs));
  }
  const std::vector<double> rates = o.swa_lr.of(optimizer, "swa_lr");
  for (std::size_t i = 0; i < rates.size(); ++i) optimizer.param_groups()[i].options.set("swa_lr", Scalar(rates[i]));
  return optimizer;
}

}  // namespace

SWALR::SWALR(Optimizer& optimizer, const Options& options, std::int64_t last_epoch)
    : LRScheduler(prepared(optimizer, options), last_epoch), options_(options) {
  start();
}
double SWALR::anneal(double part) const {
  return options_.anneal_strategy == "linear" ? part : (1 - std::cos(std::numbers::pi * part)) / 2;
}
double SWALR::next_lr(const Group& group) const {
  auto step = static_cast<double>(step_count() - 1);
  if (options_.anneal_epochs == 0) step = std::max(1.0, step);
  const double epochs = std::max(1.0, static_cast<double>(options_.anneal_epochs));
  const double swa_lr = group.params->options.number("swa_lr");
  const double before = anneal(std::clamp((step - 1) / epochs, 0.0, 1.0));
  const double initial = before == 1 ? swa_lr : (group.lr - before * swa_lr) / (1 - before);
  const double now = anneal(std::clamp(step / epochs, 0.0, 1.0));
  return swa_lr * now + initial * (1 - now);
}
OptionMap SWALR::options() const {
  return {{"_anneal_strategy", options_.anneal_strategy}, {"anneal_epochs", Scalar(options_.anneal_epochs)}};
}
void SWALR::set_options(const OptionMap& state) {
  options_.anneal_strategy = state.text("_anneal_strategy");
  options_.anneal_epochs = state.integer("anneal_epochs");
}

}  // namespace core
