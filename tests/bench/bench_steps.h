#pragma once
// The steps that runtime_bench times, each the twin of one that the peers run (same batch, same optimizer, same loss).
// Steps live in tables, one a file; to add a file, give it a table function and put its name into all_tables.
// Use: for (const bench::StepKind& kind : table()) { bench::Step step = kind.make(device); step(); }

#include <array>
#include <functional>
#include <span>
#include <string_view>

#include "libcore/base/device.h"

namespace bench {

/// One step; returns a number that depends on its result.
using Step = std::function<double()>;

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

/// Every table there is.
inline constexpr std::array all_tables = {small_steps, image_steps, recurrent_steps, matmul_steps, conv_steps};

}  // namespace bench
