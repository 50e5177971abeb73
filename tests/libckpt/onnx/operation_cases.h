#pragma once
// Operations that no model of the zoo has, each as a model of its own, with one size that may differ. Thread safety:
// constant. Use: for (const OperationCase& each : operation_cases()) each.run(each.inputs(5));

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "model_values.h"

struct OperationCase {
  std::string_view name;
  std::function<Tensors(std::int64_t size)> inputs;  ///< of one size that may differ
  std::function<Tensors(const Tensors& inputs)> run;
  /// Which axis of each input has that size; -1: none.
  std::vector<std::int64_t> axes = {0};
  std::int64_t opset = 17;  ///< the first one that has its operators
};

std::vector<OperationCase> operation_cases();
