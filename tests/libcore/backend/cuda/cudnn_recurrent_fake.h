#pragma once
// The part of cuDNN 9 that computes recurrent layers, simulated on host memory by the formulas and rules of its
// documentation: one direction of one layer, packed steps, weights in one buffer, and a reserve space that forward
// leaves, that the data's gradient changes and that the weights' gradient comes after. A rule that is broken fails the
// test. Thread safety: all functions; one lives at a time, and set it up before use.
// Use: test::FakeCudnnLayers cudnn; core::gpu::CudnnLayers layers(cudnn.api(), runtime, cudnn.handles());

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "libcore/backend/cuda/cudnn_recurrent.h"

namespace test {

class FakeCudnnLayers {
 public:
  /// `gap`: bytes between the weights of two gates, a multiple of 8.
  explicit FakeCudnnLayers(std::size_t gap = 0);
  ~FakeCudnnLayers();
  FakeCudnnLayers(const FakeCudnnLayers&) = delete;
  FakeCudnnLayers& operator=(const FakeCudnnLayers&) = delete;

  const core::gpu::CudnnLayerApi& api() const;
  /// Handles of their own.
  std::shared_ptr<core::gpu::CudnnHandles> handles(const core::gpu::CudaApi* runtime = nullptr) const;

  /// The call of this name ("forward") gives `status` from now on; 0: no more.
  void fail(const std::string& call, int status);
  int calls(const std::string& name) const;
  /// Starts what a call computes; at once where this is not set.
  void set_launch(std::function<void(void* stream, std::function<void()> work)> launch);

  /// How the last layer was described.
  struct Described {
    int algorithm, type, sum_type, math;
  };
  Described described() const;

 private:
  friend struct FakeCudnnCalls;
  const std::size_t gap_;
  mutable std::mutex mutex_;
  std::map<std::string, int> failures_;
  std::map<std::string, int> calls_;
  std::function<void(void*, std::function<void()>)> launch_;
  Described described_{};
};

}  // namespace test
