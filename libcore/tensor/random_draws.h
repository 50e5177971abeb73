#pragma once
// Draws whose count of random numbers depends on the numbers: torch.poisson, torch.binomial, and what the distributions
// Gamma, Beta and Dirichlet are made of. The CPU's bits are PyTorch's. For tensors on other devices the host draws,
// from the CPU's generator: not the numbers of torch.cuda. Thread safety: each call locks the generator. Use:
// core::Tensor counts = core::poisson(core::full({4}, 3.5));

#include <optional>

#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// How often what happens `rate` times on average happens. f32, f64. Error(runtime) "invalid Poisson rate, expected
/// rate to be non-negative".
Tensor poisson(const Tensor& rate, const std::optional<Generator>& generator = {});
/// Successes of `count` tries; shapes broadcast. The dtype of count, which is that of prob.
Tensor binomial(const Tensor& count, const Tensor& prob, const std::optional<Generator>& generator = {});
/// Gamma of rate 1, by Marsaglia and Tsang. Its gradient is that of a draw with the same probability below it.
Tensor standard_gamma(const Tensor& concentration, const std::optional<Generator>& generator = {});
/// Along the last dimension numbers above 0 whose sum is 1. The same gradient, once differentiable as PyTorch's.
Tensor sample_dirichlet(const Tensor& concentration, const std::optional<Generator>& generator = {});

}  // namespace core
