#pragma once
// What autograd keeps about a tensor. Internal to autograd.
// Thread safety: as the tensor; only the pointer to it, the accumulator, adding a gradient and the node of a view are
// guarded, because threads may record operations on one leaf or view and run backward at the same time.

#include <atomic>
#include <vector>

#include "libcore/autograd/node.h"

namespace core {

class AccumulateGrad;

struct AutogradMeta final : AutogradMetaBase {
  static void* operator new(std::size_t bytes);
  static void operator delete(void* block, std::size_t bytes) noexcept;

  Tensor grad;
  IntrusivePtr<Node> grad_fn;  // null for leaves
  std::uint32_t output_nr = 0;
  std::shared_ptr<Tensor> retained;  // of a non-leaf that keeps its gradient; shared with the hook on its node

  Tensor base;                                 // of a view; undefined otherwise
  std::atomic<std::uint32_t> view_version{0};  // grad_fn of a view is valid for this version of the memory
  std::atomic<bool> view_lock{false};          // while grad_fn of a view is made again

  std::atomic<bool> grad_lock{false};  // while a gradient is added
  std::atomic<bool> accumulator_lock{false};
  AccumulateGrad* accumulator = nullptr;  // not owned: it owns the tensor
  std::vector<GradHook> leaf_hooks;
  std::vector<std::pair<std::int64_t, std::function<void(const Tensor&)>>> post_hooks;  // after accumulation
};

/// Null when nothing was recorded about `t`.
inline AutogradMeta* try_meta(const Tensor& t) {
  return static_cast<AutogradMeta*>(t.impl()->autograd.load(std::memory_order_acquire));
}
/// Made when there is none. Only where one thread uses `t`.
AutogradMeta& make_meta(const Tensor& t);
/// As make_meta(), where other threads may do the same at this moment.
AutogradMeta& make_shared_meta(const Tensor& t);

/// For the few instructions behind one of the flags above.
class SpinLock {
 public:
  explicit SpinLock(std::atomic<bool>& flag) : flag_(flag) {
    if (detail::is_only_thread() && !flag.load(std::memory_order_relaxed)) {
      flag.store(true, std::memory_order_relaxed);  // for the threads that may start meanwhile
      return;
    }
    while (flag.exchange(true, std::memory_order_acquire)) {
    }
  }
  ~SpinLock() { flag_.store(false, std::memory_order_release); }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

 private:
  std::atomic<bool>& flag_;
};

/// Adds gradients to a leaf.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  std::string_view name() const override { return "torch::autograd::AccumulateGrad"; }
  TensorList apply(TensorList grads) override;
  void release_saved() override {}
  bool is_accumulator() const override { return true; }
  /// First of all that are ready, so that gradients are not held longer than needed.
  std::uint64_t sequence_nr() const override { return UINT64_MAX; }
  /// What the leaf's hooks make of the gradient, and adding it; apply() is both.
  Tensor hooked(Tensor grad) const;
  void accumulate(Tensor grad) const;

 private:
  Tensor leaf_;
};

namespace detail {
/// Lets a hook look at `grad` and replace it. Error(runtime) "hook 'c++ hook' has changed the size of value".
void run_hook(const GradHook& hook, Tensor& grad);
}  // namespace detail

/// The leaf's accumulator, made when there is none.
IntrusivePtr<Node> accumulator_of(const Tensor& leaf);

}  // namespace core
