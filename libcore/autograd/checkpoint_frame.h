#pragma once
// CheckpointFrame: stands in for the tensors that nodes save while a checkpointed function runs. Internal to autograd.
// While a frame is current, SavedTensor keeps a placeholder of it (TensorImpl::recomputed) instead of the tensor; the
// first look at one runs the function again and catches what its nodes save.
// Thread safety: the current frame is per thread; looking at placeholders is guarded.

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "libcore/autograd/autocast.h"
#include "libcore/autograd/node.h"

namespace core::detail {

class CheckpointFrame : public RefCounted {
 public:
  explicit CheckpointFrame(std::function<void()> run_again) : run_again_(std::move(run_again)) {}

  /// What a node keeps instead of `tensor`: in forward a placeholder, in the second run the tensor itself. One of its
  /// own outputs is kept without history, or the node would keep itself alive.
  Tensor pack(const Tensor& tensor, bool is_output);
  void end_forward() { in_forward_ = false; }
  /// The tensor of a slot, and the version that its memory must have.
  std::pair<Tensor, std::uint32_t> value(std::uint32_t slot);
  /// The slot's node is done with it.
  void forget(std::uint32_t slot);

 private:
  struct Slot {
    OutputMeta meta;
    Tensor value;
    std::uint32_t version = 0;
    bool wanted = true;
  };
  void run();
  void check_meta(std::size_t slot, const Tensor& again) const;

  std::function<void()> run_again_;
  const AutocastMode autocast_ = autocast_mode;  // of forward
  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;  // of the second run
  bool in_forward_ = true;
};

/// Null unless a checkpointed function runs in this thread.
extern thread_local constinit CheckpointFrame* current_frame;

/// Makes a frame current for a scope.
class FrameScope {
 public:
  explicit FrameScope(CheckpointFrame* frame) : previous_(std::exchange(current_frame, frame)) {}
  ~FrameScope() { current_frame = previous_; }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  CheckpointFrame* previous_;
};

/// Hangs on a placeholder.
struct PlaceholderMeta : AutogradMetaBase {
  IntrusivePtr<Node> grad_fn;  // of the tensor it stands for
  std::uint32_t output_nr = 0;

  virtual std::pair<Tensor, std::uint32_t> value() const = 0;
};
Tensor make_placeholder(PlaceholderMeta* meta);
/// What a placeholder stands for, with the history of the original; and the version its memory must have.
std::pair<Tensor, std::uint32_t> recomputed_value(const Tensor& placeholder);

}  // namespace core::detail
