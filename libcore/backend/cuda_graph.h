#pragma once
// CUDA graphs, as torch.cuda.CUDAGraph: the work of a function is recorded once and started again as a whole, so that a
// training step of a thousand small kernels costs one call. While it is recorded nothing is computed; memory comes from
// a pool of the graph's own, so a replay writes to the same tensors. Not recorded: what the host computes, decides or
// prints, and random numbers, which every replay gets again. Devices in host memory have no graphs.
// Thread safety: none; one thread captures at a time.
// Use: core::cuda::Graph step; step.capture([&] { loss = train_step(input); }); input.copy_(next); step.replay();

#include <cstdint>
#include <functional>

#include "libcore/backend/streams.h"

namespace core::cuda {

class Graph {
 public:
  /// Error(unsupported) for a device in host memory.
  explicit Graph(Device device = DeviceType::cuda);
  /// Memory that tensors of the capture still use goes back with them.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Runs `work` once with a side stream current, and keeps what it starts there instead of starting it. Run it once
  /// before, so that libraries and caches are set up. Errors: what `work` throws (the graph stays empty then); a
  /// synchronisation in `work` is "CUDA error: operation not permitted when stream is capturing".
  void capture(const std::function<void()>& work);
  /// Starts the work on the current stream. Error(runtime) "Called CUDAGraph::replay without a preceding successful
  /// capture."
  void replay();
  /// Forgets the capture.
  void reset();
  bool is_captured() const { return exec_ != nullptr; }

 private:
  void finish_capture(void* stream, bool keeps);

  Device device_;
  std::uint64_t pool_ = 0;
  void* exec_ = nullptr;
};

}  // namespace core::cuda
