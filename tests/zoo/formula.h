#pragma once
// The weight formula of the zoo's golden data: values from a hash of the tensor's place and the element's index.
// Use: test::fill_by_formula(tensor, {.tensor = 3, .add = 0, .mul = 0.125});

#include <cstdint>

#include "libcore/tensor/tensor.h"

namespace test {

struct Formula {
  std::uint32_t tensor = 0;
  std::uint32_t seed = 0;
  double add = 0;
  double mul = 1;
};

/// REQUIRES: a contiguous f32 or f64 tensor on the CPU. f64 holds the f32 values, widened.
void fill_by_formula(const core::Tensor& tensor, const Formula& formula);
/// Integers below `vocabulary` into a contiguous i64 tensor on the CPU.
void fill_tokens(const core::Tensor& tensor, const Formula& formula, std::int64_t vocabulary);

}  // namespace test
