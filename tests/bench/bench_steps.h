#pragma once
// The steps that runtime_bench times, each the twin of one that the peers run.
// Use: for (const bench::StepKind& kind : bench::steps()) { bench::Step step = kind.make(device); step(); }

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

std::span<const StepKind> steps();
/// ResNet-18 and a small GPT-2 (bench_conv.cpp).
std::span<const StepKind> conv_steps();

}  // namespace bench
