#include "tests/zoo/formula.h"

namespace test {
namespace {

std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

std::uint32_t word(const Formula& formula, std::int64_t j) {
  std::uint32_t key = mix((formula.tensor + 1) * 0x9E3779B9U + formula.seed * 0x85EBCA6BU);
  return mix(static_cast<std::uint32_t>(j) * 0x9E3779B1U + key);
}

float value(const Formula& formula, std::int64_t j) {
  double base = (static_cast<std::int32_t>(word(formula, j) >> 8) - 8388608) / 8388608.0;
  return static_cast<float>(formula.add + formula.mul * base);
}

}  // namespace

void fill_by_formula(const core::Tensor& tensor, const Formula& formula) {
  for (std::int64_t j = 0; j < tensor.numel(); ++j) {
    if (tensor.dtype() == core::DType::f64) {
      tensor.mutable_data<double>()[j] = value(formula, j);
    } else {
      tensor.mutable_data<float>()[j] = value(formula, j);
    }
  }
}

void fill_tokens(const core::Tensor& tensor, const Formula& formula, std::int64_t vocabulary) {
  auto* tokens = tensor.mutable_data<std::int64_t>();
  for (std::int64_t j = 0; j < tensor.numel(); ++j)
    tokens[j] = static_cast<std::int64_t>(word(formula, j) >> 8) % vocabulary;
}

}  // namespace test
