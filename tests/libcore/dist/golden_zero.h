#pragma once
// The optimizer of a training case: an ordinary one, or one whose state is spread over the ranks. Use: see
// golden_training.

#include <functional>
#include <string>
#include <vector>

#include "libcore/tensor/tensor.h"
#include "tests/support/golden_json.h"

namespace test {

struct GoldenOptimizer {
  std::function<void()> step;
  std::function<void()> zero_grad;
  std::function<std::string(Json zero, const GoldenArrays& arrays)> zero_difference;
};

GoldenOptimizer make_zero_optimizer(const std::string& name, const std::vector<core::Tensor>& params, Json options);

}  // namespace test
