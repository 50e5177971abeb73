#pragma once
// Communication hooks of DistributedDataParallel: what is done with the gradients of a bucket in the place of the sum
// over the ranks, as torch.distributed.algorithms.ddp_comm_hooks. A hook gets the gradients of this rank, not divided
// by anything, starts what is to be done with them and returns at once; what it gives becomes the gradients. Thread
// safety: a hook is called by backward, for one bucket after the other, in the same order on every rank; it may start
// collectives of the group. Errors: what a hook or its future throws is thrown by backward. Use:
// DistributedDataParallel model(net); model.register_comm_hook(fp16_compress_hook());

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "libcore/dist/collectives.h"
#include "libcore/tensor/tensor.h"

namespace core::distributed {

class GradBucket {
 public:
  GradBucket(std::size_t index, std::size_t count, Tensor buffer, std::vector<Tensor> gradients,
             std::vector<Tensor> parameters)
      : index_(index),
        count_(count),
        buffer_(std::move(buffer)),
        gradients_(std::move(gradients)),
        parameters_(std::move(parameters)) {}

  std::size_t index() const { return index_; }
  bool is_last() const { return index_ + 1 == count_; }
  /// All gradients, one behind the other in one dimension.
  const Tensor& buffer() const { return buffer_; }
  /// One of as many elements, of any type; the gradients are views of it then.
  void set_buffer(Tensor buffer);
  /// Views of the buffer.
  const std::vector<Tensor>& gradients() const { return gradients_; }
  const std::vector<Tensor>& parameters() const { return parameters_; }

 private:
  std::size_t index_;
  std::size_t count_;
  Tensor buffer_;
  std::vector<Tensor> gradients_;
  std::vector<Tensor> parameters_;
};

/// A tensor that will be there. Copies stand for the same one.
class CommFuture {
 public:
  CommFuture(Tensor ready)  // NOLINT(google-explicit-constructor): a hook may be done at once
      : state_(std::make_shared<State>(State{nullptr, std::move(ready)})) {}
  /// `tensor`, when the work has ended.
  CommFuture(Work work, Tensor tensor)
      : CommFuture([work = std::move(work), tensor = std::move(tensor)] {
          work.wait();
          return tensor;
        }) {}
  /// What `make` makes of it, once; called by who waits first. REQUIRES: it keeps no reference to the bucket, which
  /// goes when the hook returns.
  CommFuture then(std::function<Tensor(const Tensor&)> make) const {
    return CommFuture([before = *this, make = std::move(make)] { return make(before.wait()); });
  }
  Tensor wait() const {
    if (state_->get) {
      state_->value = state_->get();
      state_->get = nullptr;
    }
    return state_->value;
  }

 private:
  struct State {
    std::function<Tensor()> get;  ///< until it was asked for
    Tensor value;
  };
  explicit CommFuture(std::function<Tensor()> get) : state_(std::make_shared<State>(State{std::move(get), {}})) {}
  std::shared_ptr<State> state_;
};

using CommHook = std::function<CommFuture(GradBucket& bucket)>;

// A group that is not given is the default one.

/// What happens without a hook, but for the rounding: divides by the number of ranks where that multiplies.
CommHook allreduce_hook(Group group = {});
/// The same in 16 bits: half the bytes between the ranks.
CommHook fp16_compress_hook(Group group = {});
CommHook bf16_compress_hook(Group group = {});
/// Casts the bucket for another hook, and what that gives back.
CommHook fp16_compress_wrapper(CommHook hook);
CommHook bf16_compress_wrapper(CommHook hook);
/// Every rank keeps its own gradients.
CommHook noop_hook();

}  // namespace core::distributed
