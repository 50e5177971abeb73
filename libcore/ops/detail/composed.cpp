#include "libcore/ops/detail/composed.h"

#include <string_view>
#include <utility>
#include <vector>

#include "libcore/autograd/autocast.h"
#include "libcore/autograd/autograd.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// The inputs as roots of a graph of their own, which hangs on the outer one when gradients are to have history.
TensorList roots_of(const TensorList& inputs, const std::vector<bool>& wanted, bool with_history) {
  TensorList result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    if (!x.defined()) {
      result.push_back(Tensor());
    } else if (with_history) {
      result.push_back(x.expand(x.sizes()));
    } else {
      Tensor leaf = x.detach();
      if (wanted[i]) leaf.requires_grad_();
      result.push_back(leaf);
    }
  }
  return result;
}

/// Saved: the inputs.
struct ComposedBackward final : Node, detail::FollowsConvention {
  const char* printed = "";
  ComposedMany function;
  std::size_t count = 0;

  std::string_view name() const override { return printed; }
  TensorList apply(TensorList grads) override {
    TensorList inputs;
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < count; ++i) {
      inputs.push_back(saved(i));
      wanted.push_back(wants(i));
    }
    return detail::differentiated(function, inputs, wanted, grads);
  }
};

bool any_needs_grad(const TensorList& inputs) {
  for (const Tensor& x : inputs) {
    if (needs_grad(x)) return true;
  }
  return false;
}

/// The results without history, in the types given; one that is an input or a view of it becomes a tensor of its own.
TensorList plain_results(const TensorList& inputs, const ComposedMany& function) {
  const NoGradGuard no_history;
  const detail::NoCasts one_kernel;
  TensorList plain;
  for (const Tensor& x : inputs) plain.push_back(x.defined() ? x.detach() : Tensor());
  TensorList results;
  for (const Tensor& y : function(plain)) {
    bool shares = false;
    for (const Tensor& x : plain)
      shares = shares || (x.defined() && x.storage().operator->() == y.storage().operator->());
    results.push_back(shares ? y.clone() : y.detach());
  }
  return results;
}

bool is_half(const Tensor& x) {
  return x.defined() && (x.dtype() == DType::f16 || x.dtype() == DType::bf16);
}

/// Where all numbers are of 16 bits: computed in f32 and rounded once, at the end, as PyTorch's one kernel does. So are
/// the gradients, which pass the same casts.
ComposedMany by_f32(const TensorList& inputs, ComposedMany function) {
  const Tensor* first = nullptr;
  for (const Tensor& x : inputs) {
    if (x.defined() && x.is_floating_point() && !is_half(x)) return function;
    if (first == nullptr && is_half(x)) first = &x;
  }
  if (first == nullptr) return function;
  return [function = std::move(function), dtype = first->dtype()](const TensorList& in) {
    TensorList wide;
    for (const Tensor& x : in) wide.push_back(is_half(x) ? x.to(DType::f32) : x);
    TensorList results = function(wide);
    for (Tensor& y : results) {
      if (y.dtype() == DType::f32) y = y.to(dtype);
    }
    return results;
  };
}

}  // namespace

TensorList detail::differentiated(const ComposedMany& function, const TensorList& inputs,
                                  const std::vector<bool>& wanted, const TensorList& output_grads) {
  const bool with_history = is_grad_enabled();
  const GradModeGuard record_again(true);
  const TensorList roots = roots_of(inputs, wanted, with_history);
  const TensorList outputs = function(roots);
  std::vector<Tensor> ends, upstream, starts;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!output_grads[i].defined() || !outputs[i].requires_grad()) continue;
    ends.push_back(outputs[i]);
    upstream.push_back(output_grads[i]);
  }
  TensorList result(inputs.size());
  if (ends.empty()) return result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (wanted[i]) starts.push_back(roots[i]);
  }
  std::vector<Tensor> found =
      grad(ends, starts, {.grad_outputs = upstream, .create_graph = with_history, .allow_unused = true});
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (wanted[i]) result[i] = std::move(found[next++]);
  }
  return result;
}

TensorList composed_many(const char* printed, const TensorList& inputs, ComposedMany step_by_step) {
  ComposedMany function = by_f32(inputs, std::move(step_by_step));
  if (detail::runs_for_batch()) return function(inputs);
  TensorList results = plain_results(inputs, function);
  if (!any_needs_grad(inputs)) return results;
  auto node = make_intrusive<ComposedBackward>();
  node->printed = printed;
  node->function = std::move(function);
  node->count = inputs.size();
  for (const Tensor& x : inputs) node->add_edge(x);
  for (const Tensor& x : inputs) node->save(x);
  for (Tensor& y : results) {
    if (is_inexact(y.dtype())) record(y, node);
  }
  return results;
}

Tensor composed(const char* printed, const TensorList& inputs, ComposedOne function) {
  return composed_many(printed, inputs,
                       [one = std::move(function)](const TensorList& in) { return TensorList{one(in)}; })[0];
}

}  // namespace core
