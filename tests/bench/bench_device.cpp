// Steps of devices: what moves tensors there, and how a training step is captured.

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/device_registry.h"
#include "libcore/tensor/foreach_copy.h"
#include "tests/bench/bench_steps.h"
#include "tests/bench/bench_training.h"

namespace bench {
namespace {

using core::Device;
using core::Tensor;

std::vector<Tensor> ten_thousand() {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 10000; ++i) tensors.push_back(core::randn({1024}));
  return tensors;
}

Step move_10k_tensors(Device d) {
  if (!d.is_cuda()) return {};
  return [d, tensors = ten_thousand()]() { return static_cast<double>(core::to_device(tensors, d).size()); };
}

Step move_10k_one_by_one(Device d) {
  if (!d.is_cuda()) return {};
  return [d, tensors = ten_thousand()]() {
    std::vector<Tensor> there;
    for (const Tensor& tensor : tensors) there.push_back(tensor.to(d));
    return static_cast<double>(there.size());
  };
}

Step fetch_10k_tensors(Device d) {
  if (!d.is_cuda()) return {};
  return [there = core::to_device(ten_thousand(), d)]() {
    return static_cast<double>(core::to_device(there, Device()).size());
  };
}

constexpr std::array kSteps = {
    StepKind{"move_10k_tensors", "10,000 tensors of 4 KiB moved to a device together (devices only)", move_10k_tensors},
    StepKind{"move_10k_one_by_one", "the same by Tensor::to, one after the other", move_10k_one_by_one},
    StepKind{"fetch_10k_tensors", "10,000 tensors of 4 KiB brought back to the host together", fetch_10k_tensors},
};

/// What graph_note() gives.
std::string note = "none";

/// A step that is run twice as it is, then recorded, then replayed.
class CapturedStep {
 public:
  CapturedStep(std::function<void()> work, Device device) : work_(std::move(work)), device_(device) {
    is_plain_ = core::backend_for(device).info().is_logical;
    note = is_plain_ ? "none on logical devices" : "not yet";
  }
  void run() {
    if (!is_plain_ && graph_ == nullptr && runs_++ == 2) capture();
    graph_ != nullptr ? graph_->replay() : work_();
  }

 private:
  void capture() {
    try {
      auto graph = std::make_unique<core::cuda::Graph>(device_);
      graph->capture(work_);
      graph_ = std::move(graph);
      note = "replayed";
    } catch (const core::Error& error) {
      note = error.message();
      is_plain_ = true;
    }
  }

  std::function<void()> work_;
  Device device_;
  std::unique_ptr<core::cuda::Graph> graph_;
  int runs_ = 0;
  bool is_plain_ = false;
};

}  // namespace

Step step_of(std::function<void()> work, std::shared_ptr<Tensor> loss, Device device) {
  if (!device.is_cuda()) {
    return [work = std::move(work), loss = std::move(loss)]() {
      work();
      const double value = loss->item<double>();
      *loss = Tensor();
      return value;
    };
  }
  auto step = std::make_shared<CapturedStep>(std::move(work), device);
  return [step, loss = std::move(loss)]() {
    step->run();
    return wants_value ? loss->item<double>() : 0;
  };
}

std::string graph_note() {
  return note;
}

StepTable device_steps() {
  return kSteps;
}

}  // namespace bench
