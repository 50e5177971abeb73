#include "libcore/optim/graphed_step.h"

#include <utility>

#include "libcore/autograd/autocast.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/record_stream.h"

namespace core {

GraphedStep::GraphedStep(Work work, Options options) : work_(std::move(work)), options_(std::move(options)) {
  if (options_.warmup < 1) {
    throw Error(ErrorCode::value, "GraphedStep: warmup is " + std::to_string(options_.warmup) +
                                      " where at least 1 is needed, as the first step makes what later ones work with");
  }
  if (!cuda::has_graphs(options_.device)) return;
  options_.device = resolve(options_.device);
  stream_.emplace(options_.device);
}

Tensor GraphedStep::operator()(const std::vector<Tensor>& inputs) {
  if (!stream_) return work_(inputs);
  if (calls_ < options_.warmup) {
    ++calls_;
    return call(inputs);
  }
  if (is_captured() && recorded_options_ != options_text()) reset();
  if (is_captured() && !fits(inputs)) return call(inputs);
  if (!is_captured()) capture(inputs);
  const NoGradGuard no_history;
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i]);
  graph_->replay();
  note_writes();
  return output_;
}

/// For those that keep copies of parameters (DataParallel does): the graph has changed them behind their versions.
void GraphedStep::note_writes() const {
  for (const Optimizer* optimizer : options_.optimizers) {
    for (const ParamGroup& group : optimizer->param_groups()) {
      for (const Tensor& param : group.params) param.impl()->bump_version();
    }
  }
}

/// The graph stays, as the next recording goes on with its memory.
void GraphedStep::reset() {
  output_ = {};
  inputs_.clear();
  is_recorded_ = false;
}

/// As it is, on the stream of the recordings; the caller's goes on when it is done.
Tensor GraphedStep::call(const std::vector<Tensor>& inputs) {
  const cuda::Stream outside = cuda::current_stream(options_.device);
  stream_->wait_stream(outside);
  Tensor result;
  {
    const cuda::StreamGuard guard(*stream_);
    std::vector<Tensor> here;
    for (const Tensor& input : inputs) {
      here.push_back(input.to(options_.device));
      record_stream(here.back(), *stream_);
    }
    result = work_(here);
  }
  outside.wait_stream(*stream_);
  if (result.defined()) record_stream(result, outside);
  return result;
}

void GraphedStep::capture(const std::vector<Tensor>& inputs) {
  reset();
  for (const Tensor& input : inputs) {
    inputs_.push_back(empty(input.sizes(), {.dtype = input.dtype(), .device = options_.device}));
  }
  if (!graph_) graph_.emplace(options_.device);
  clear_autocast_cache();  // weights are cast within the graph, for each replay
  try {
    graph_->capture(*stream_, [&] {
      const Tensor result = work_(inputs_);
      output_ = result.defined() ? result.detach() : result;
    });
  } catch (...) {
    reset();
    throw;
  }
  is_recorded_ = true;
  recorded_options_ = options_text();
}

bool GraphedStep::fits(const std::vector<Tensor>& inputs) const {
  if (inputs.size() != inputs_.size()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].sizes() != inputs_[i].sizes() || inputs[i].dtype() != inputs_[i].dtype()) return false;
  }
  return true;
}

/// What a recorded step has taken from the optimizers' groups.
std::string GraphedStep::options_text() const {
  std::string text;
  for (const Optimizer* optimizer : options_.optimizers) {
    for (const ParamGroup& group : optimizer->param_groups()) {
      const bool reads_lr = optimizer->follows_rate(group);
      for (const auto& [name, value] : group.options.items()) {
        if (!reads_lr || name != "lr") text += to_string(value) + ' ';
      }
    }
  }
  return text;
}

}  // namespace core
