#pragma once
// OpBatch: hears of a thread's operations in the place of a trace (op_trace.h), through the same statements, so that
// it costs nothing more while there is none. For vmap, which runs them for all samples. Thread safety: each thread its
// own. Use: struct All : core::detail::OpBatch { ... }; const core::detail::OpBatchScope scope(&all);

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// An operation on its way.
struct TracedCall {
  std::string_view name;
  std::vector<Tensor> inputs;
  std::vector<TraceAttribute> attributes;
};

class OpBatch {
 public:
  OpBatch() = default;
  virtual ~OpBatch() = default;
  OpBatch(const OpBatch&) = delete;
  OpBatch& operator=(const OpBatch&) = delete;

  static OpBatch* of_thread();
  /// The statement of an operation, before and after it ran. Operations within it are not heard of.
  virtual void begins(TracedCall call) = 0;
  virtual void ran(const std::vector<Tensor>& outputs, bool in_place) = 0;
  /// A kernel, a view or a read, before it runs; `covered`: within an operation that was heard of.
  virtual void hears(std::string_view name, const Tensor* const* inputs, std::size_t count, bool covered) = 0;
  /// Before `changed` is written into by an operation in place that a user called.
  virtual void changes(const Tensor& changed) = 0;
  /// Before random numbers are drawn.
  virtual void draws() = 0;
  /// Before the engine runs, which must not on the first sample alone.
  virtual void runs_backward() = 0;
};

/// Whether the operations of this thread run for a batch.
inline bool runs_for_batch() {
  return tracing.load(std::memory_order_relaxed) != 0 && OpBatch::of_thread() != nullptr;
}

inline void note_random_draw() {
  if (runs_for_batch()) OpBatch::of_thread()->draws();
}

/// `batch` hears of this thread's operations for a scope; null: nobody does.
class OpBatchScope {
 public:
  explicit OpBatchScope(OpBatch* batch);
  ~OpBatchScope();
  OpBatchScope(const OpBatchScope&) = delete;
  OpBatchScope& operator=(const OpBatchScope&) = delete;

 private:
  OpBatch* batch_before_;
  OpTrace* trace_before_;
  std::unique_ptr<OpTrace> own_;
};

}  // namespace core::detail
