#pragma once
// The steps that runtime_bench times, each the twin of one that the peers run (same batch, same optimizer, same loss).
// Steps live in tables, one a file; to add a file, give it a table function and put its name into all_tables.
// Use: for (const bench::StepKind& kind : table()) { bench::Step step = kind.make(device); step(); }

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "libcore/base/device.h"
#include "libcore/tensor/tensor.h"

namespace bench {

/// One step; returns a number that depends on its result. Empty: the step needs a GPU.
using Step = std::function<double()>;

/// False while steps are timed on a device: they return 0 then and do not wait for their result.
inline bool wants_value = true;
/// Whether the last step that was made is replayed as a graph: "replayed", why not, or "none" where it has no training.
std::string graph_note();

/// `work`, which leaves its loss in *loss, as a step; on a GPU captured as one CUDA graph after two runs.
Step step_of(std::function<void()> work, std::shared_ptr<core::Tensor> loss, core::Device device);

struct StepKind {
  std::string_view name;
  std::string_view about;
  Step (*make)(core::Device device);
};

using StepTable = std::span<const StepKind>;

StepTable small_steps();      // bench_small.cpp: single operations, Linear, MLP, regression, data, printing
StepTable image_steps();      // bench_image.cpp: LeNet and the like
StepTable recurrent_steps();  // bench_recurrent.cpp: LSTM, GRU
StepTable matmul_steps();     // bench_matmul.cpp: f32 matrix products
StepTable conv_steps();       // bench_conv.cpp: ResNet-18 and a small GPT-2
StepTable parallel_steps();   // bench_parallel.cpp: DataParallel on logical devices
StepTable device_steps();     // bench_device.cpp: moving tensors to a device
StepTable peak_steps();       // bench_peak.cpp: what a core multiplies at most

/// Every table there is.
inline constexpr std::array all_tables = {small_steps, image_steps,    recurrent_steps, matmul_steps,
                                          conv_steps,  parallel_steps, device_steps,    peak_steps};

}  // namespace bench
