#pragma once
// CUDA graphs, as torch.cuda.CUDAGraph: the work of a function is recorded once and started again as a whole, so that a
// training step of a thousand small kernels costs one call. While it is recorded nothing is computed; memory comes from
// a pool of the graph's own, so a replay writes to the same tensors, and nobody else gets that memory while the graph
// lives. Random numbers go on from replay to replay, as the same calls without a graph would draw them. Not recorded:
// what the host computes, decides or prints; numbers are those of the capture. Replays follow the learning rates of
// SGD, and of Adam and AdamW, which count steps and so need `capturable`. GraphedStep (optim/graphed_step.h) does all
// of this for a training step. Other threads may go on using the device, but not wait for all of it, while one
// captures. Real GPUs have graphs; opaque devices (CORE_LOGICAL_DEVICES=opaque:N) simulate them; other logical devices
// and the CPU have none. Thread safety: none; one thread captures on a device at a time. Use: core::cuda::Graph step;
// step.capture([&] { loss = train_step(input); }); input.copy_(next); step.replay();

#include <functional>
#include <memory>

#include "libcore/backend/streams.h"

namespace core {

class GraphCapture;

namespace cuda {

class Graph {
 public:
  /// Error(unsupported) for a device without graphs.
  explicit Graph(Device device = DeviceType::cuda);
  /// The memory of the capture goes back to the device; what tensors of it still use, after them.
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  /// Runs `work` once with a side stream current, and keeps what it starts there, and on streams that it has wait for
  /// that one, instead of starting it. Run it once before, so that libraries and caches are set up. A second capture
  /// replaces the first and goes on with its memory. Errors: what `work` throws (the graph stays empty then); a
  /// synchronisation in `work` is "CUDA error: operation not permitted when stream is capturing", work of another
  /// stream that this one does not wait for "CUDA error: capturing stream has unjoined work", a copy from or to host
  /// memory that is not pinned "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU
  /// tensor is pinned. ...". Pinned memory of a recorded copy has to outlive the graph.
  void capture(const std::function<void()>& work);
  /// The same on a stream of the caller's. Error(runtime) "CUDA graphs must be captured on a non-default stream. ..."
  void capture(const Stream& stream, const std::function<void()>& work);
  /// Starts the work on the current stream. Error(runtime) "Called CUDAGraph::replay without a preceding successful
  /// capture."
  void replay();
  /// Forgets the capture.
  void reset();
  bool is_captured() const { return recording_ != nullptr; }

 private:
  Device device_;
  std::unique_ptr<GraphCapture> recording_;
};

/// Whether the device ("cuda": the current one) has graphs.
bool has_graphs(Device device = DeviceType::cuda);
/// As torch.cuda.is_current_stream_capturing().
bool is_current_stream_capturing();
bool is_current_stream_capturing(Device device);

}  // namespace cuda
}  // namespace core
