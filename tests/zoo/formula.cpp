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

std::uint32_t key_of(const Formula& formula) {
  return mix((formula.tensor + 1) * 0x9E3779B9U + formula.seed * 0x85EBCA6BU);
}

std::uint32_t word(std::uint32_t key, std::int64_t j) {
  return mix(static_cast<std::uint32_t>(j) * 0x9E3779B1U + key);
}

template <class T>
void fill(const core::Tensor& tensor, const Formula& formula) {
  auto* values = tensor.mutable_data<T>();
  const std::uint32_t key = key_of(formula);
  const std::int64_t count = tensor.numel();
  for (std::int64_t j = 0; j < count; ++j) {
    const double base = (static_cast<std::int32_t>(word(key, j) >> 8) - 8388608) / 8388608.0;
    values[j] = static_cast<float>(formula.add + formula.mul * base);
  }
}

}  // namespace

void fill_by_formula(const core::Tensor& tensor, const Formula& formula) {
  if (tensor.dtype() == core::DType::f64) {
    fill<double>(tensor, formula);
  } else {
    fill<float>(tensor, formula);
  }
}

void fill_tokens(const core::Tensor& tensor, const Formula& formula, std::int64_t vocabulary) {
  auto* tokens = tensor.mutable_data<std::int64_t>();
  const std::uint32_t key = key_of(formula);
  for (std::int64_t j = 0; j < tensor.numel(); ++j)
    tokens[j] = static_cast<std::int64_t>(word(key, j) >> 8) % vocabulary;
}

}  // namespace test
