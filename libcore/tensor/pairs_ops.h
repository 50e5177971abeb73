#pragma once
// Distances within a set of points, and draws from categories, as torch.nn.functional. Thread safety: pdist is pure,
// gumbel_softmax draws from the default generator. Use: core::Tensor d = core::pdist(points);

#include <cstdint>

#include "libcore/tensor/ops.h"

namespace core {

/// The p-norm of the difference of every two rows: (n, d) to (n * (n - 1) / 2).
/// Errors(runtime): "pdist only supports 2D tensors, got: 1D", "pdist only supports non-negative p values".
Tensor pdist(const Tensor& x, double p = 2);

struct GumbelOptions {
  double tau = 1;
  bool hard = false;  ///< ones and zeros, with the gradient of the soft values
  std::int64_t dim = -1;
};
/// A draw from the categories that the logits along one dimension describe, as a softmax.
Tensor gumbel_softmax(const Tensor& logits, const GumbelOptions& options = {});

}  // namespace core
