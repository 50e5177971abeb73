#include "libcore/autograd/autograd_meta.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// A gradient that nobody else holds, laid out as the leaf, can become the leaf's own; others are copied.
bool can_take(const Tensor& t, const Tensor& leaf) {
  const bool rows = t.is_contiguous() && leaf.is_contiguous();
  const bool last = t.strides() == leaf.strides() && t.is_contiguous(MemoryFormat::channels_last);
  if (!rows && !last) return false;
  return t.impl()->use_count() == 1 && t.storage().id()->use_count() == 1;
}

}  // namespace

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : leaf_(leaf) {
  add_output(leaf);
  set_findable();  // by the leaf
}

AccumulateGrad::~AccumulateGrad() {
  AutogradMeta& meta = *try_meta(leaf_);
  SpinLock lock(meta.accumulator_lock);
  if (meta.accumulator == this) meta.accumulator = nullptr;
}

Tensor AccumulateGrad::hooked(Tensor grad) const {
  for (const GradHook& hook : std::vector<GradHook>(try_meta(leaf_)->leaf_hooks)) detail::run_hook(hook, grad);
  return grad;
}

TensorList AccumulateGrad::apply(TensorList grads) {
  Tensor grad = std::move(grads[0]);
  grads.clear();
  if (!grad.defined()) return {};
  if (!try_meta(leaf_)->leaf_hooks.empty()) grad = hooked(std::move(grad));
  accumulate(std::move(grad));
  return {};
}

namespace {

/// Sparse gradients stay sparse until a dense one is added.
void add_sparse(AutogradMeta& meta, Tensor grad) {
  if (!meta.grad.defined()) {
    const bool ours = grad.impl()->use_count() == 1 && grad.storage().id()->use_count() == 1;
    meta.grad = ours ? std::move(grad) : grad.clone();
  } else if (meta.grad.is_sparse() != grad.is_sparse() && meta.grad.is_sparse()) {
    meta.grad = grad + meta.grad;
  } else if (is_grad_enabled()) {
    meta.grad = meta.grad + grad;
  } else {
    meta.grad.add_(grad);
  }
}

void add_gradient(AutogradMeta& meta, const Tensor& leaf, Tensor grad) {
  SpinLock lock(meta.grad_lock);
  if (grad.is_sparse() || (meta.grad.defined() && meta.grad.is_sparse())) {
    add_sparse(meta, std::move(grad));
  } else if (!meta.grad.defined()) {
    if (is_grad_enabled()) {
      meta.grad = grad.clone();
    } else if (can_take(grad, leaf)) {
      meta.grad = std::move(grad);
    } else {
      meta.grad = raw::make_like(leaf, grad.dtype());
      raw::copy_into(meta.grad, grad);
    }
  } else if (is_grad_enabled()) {
    meta.grad = meta.grad + grad;
  } else {
    meta.grad.add_(grad);
  }
}

}  // namespace

void AccumulateGrad::accumulate(Tensor grad) const {
  AutogradMeta& meta = *try_meta(leaf_);
  add_gradient(meta, leaf_, std::move(grad));
  const auto hooks = meta.post_hooks;  // a hook may remove itself
  for (const auto& [id, call] : hooks) call(leaf_);
}

IntrusivePtr<Node> accumulator_of(const Tensor& leaf) {
  AutogradMeta& meta = make_shared_meta(leaf);
  SpinLock lock(meta.accumulator_lock);
  if (meta.accumulator != nullptr && meta.accumulator->try_retain()) return IntrusivePtr<Node>::adopt(meta.accumulator);
  auto made = make_intrusive<AccumulateGrad>(leaf);
  meta.accumulator = made.get();
  return made;
}

}  // namespace core
