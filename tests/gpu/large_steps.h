// Steps of the runtime that are large enough to fill a GPU, each under the name that gpu_peer.py uses for the same step
// in PyTorch. Not thread-safe: one program times one step after the other.
//   for (const auto& [name, add] : bench::large_step_groups()) { LargeSteps steps(device, 1.0, time); add(steps); }
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"

namespace bench {

/// Hands each step to `run` as soon as its tensors are made; they go when the step is done.
class LargeSteps {
 public:
  using Run = std::function<void(const std::string& name, const std::function<void()>& step)>;

  /// `scale` shortens the long side of every tensor (1 = what is measured; small ones for sanitizers and emulation).
  LargeSteps(core::Device device, double scale, Run run) : device_(device), scale_(scale), run_(std::move(run)) {}

  void add(const std::string& name, const std::function<void()>& step) const { run_(name, step); }

  /// `n` times the scale, a multiple of 8 and at least 8.
  std::int64_t sized(std::int64_t n) const;
  core::Tensor randn(const core::Shape& shape, core::DType dtype = core::DType::f32) const;
  core::Device device() const { return device_; }

 private:
  core::Device device_;
  double scale_;
  Run run_;
};

using AddLargeSteps = void (*)(const LargeSteps&);

/// What is bound by memory, products, attention, convolutions, indexing, training, transfers. Last: a bias at an odd
/// address (the slice of a buffer), which a library that trusts its alignment faults on, and the device is lost.
std::vector<std::pair<std::string, AddLargeSteps>> large_step_groups();

}  // namespace bench
