#include "libcore/autograd/function.h"

#include <algorithm>

#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

bool contains(const std::vector<Tensor>& list, const Tensor& t) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& one) { return one.is_same(t); });
}

}  // namespace

std::vector<Tensor> FunctionContext::saved_tensors() const {
  return node_ == nullptr ? to_save_ : node_->unpack();
}

namespace detail {

FunctionNode::FunctionNode(std::string class_name, FunctionBackward backward)
    : name_(std::move(class_name) + "Backward"), backward_(backward) {}

std::vector<Tensor> FunctionNode::unpack() const {
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < saved_count_; ++i) result.push_back(saved(i));
  return result;
}

void FunctionNode::start(std::vector<Tensor> arguments, std::vector<bool> is_tensor) {
  arguments_ = std::move(arguments);
  is_tensor_ = std::move(is_tensor);
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    context_.needs_.push_back(needs_grad(arguments_[i]));
    any_history_ = any_history_ || context_.needs_[i];
    if (!is_tensor_[i]) continue;
    if (is_grad_enabled()) {
      add_edge(arguments_[i]);
    } else {
      add_edge(Edge{});
    }
  }
}

Tensor FunctionNode::recorded(Tensor output, const IntrusivePtr<FunctionNode>& self) {
  const bool without = contains(context_.without_grad_, output) || !is_inexact(output.dtype());
  if (contains(context_.dirty_, output) && !without) {
    check_in_place(output);
    output.impl()->bump_version();
    if (output.impl()->is_view && !outputs().empty()) {
      throw Error(ErrorCode::usage, name_ + ": a view that forward changed in place must be its first output");
    }
    if (output.impl()->is_view) {
      record_in_place(output, self);
    } else {
      record(output, self);
    }
    return output;
  }
  if (without) {
    add_output(output);
    return output;
  }
  // An input that is handed through is another tensor to the graph.
  if (contains(arguments_, output) || output.requires_grad() || output.impl()->view_origin != 0) {
    output = raw::alias(output);
  }
  record(output, self);
  return output;
}

void FunctionNode::finish(std::vector<Tensor>& outputs, const IntrusivePtr<FunctionNode>& self) {
  if (!any_history_) {
    arguments_.clear();
    return;
  }
  const std::vector<Tensor> returned = outputs;
  for (Tensor& output : outputs) output = recorded(output, self);
  for (const Tensor& kept : context_.to_save_) {
    const auto at = std::find_if(returned.begin(), returned.end(), [&](const Tensor& t) { return t.is_same(kept); });
    if (kept.defined() && at != returned.end() && !contains(arguments_, kept)) {
      save_output(outputs[static_cast<std::size_t>(at - returned.begin())]);
    } else {
      save(kept);
    }
  }
  saved_count_ = context_.to_save_.size();
  context_.node_ = this;
  context_.to_save_.clear();
  context_.dirty_.clear();
  context_.without_grad_.clear();
  arguments_.clear();
}

TensorList FunctionNode::apply(TensorList grads) {
  std::vector<Tensor> given(grads.begin(), grads.end());
  for (std::size_t i = 0; i < given.size() && context_.materialize_; ++i) {
    const OutputMeta& meta = outputs()[i];
    if (!given[i].defined()) given[i] = zeros(meta.sizes, {.dtype = meta.dtype, .device = meta.device});
  }
  std::vector<Tensor> results = backward_(context_, given);
  while (results.size() > is_tensor_.size() && !results.back().defined()) results.pop_back();
  if (results.size() != is_tensor_.size()) {
    throw Error(ErrorCode::runtime, "function " + name_ + " returned an incorrect number of gradients (expected " +
                                        std::to_string(is_tensor_.size()) + ", got " + std::to_string(results.size()) +
                                        ")");
  }
  TensorList list;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_tensor_[i]) {
      list.push_back(std::move(results[i]));
    } else if (results[i].defined()) {
      throw Error(ErrorCode::runtime, "function " + name_ + " returned a gradient different from None at position " +
                                          std::to_string(i + 1) +
                                          ", but the corresponding forward input was not a Variable");
    }
  }
  return list;
}

}  // namespace detail
}  // namespace core
