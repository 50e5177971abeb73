#pragma once
// Distances and similarities of vectors, as torch.nn.functional. Thread safety: pure functions.
// Use: core::Tensor d = core::pdist(points);

#include <cstdint>

#include "libcore/tensor/tensor.h"

namespace core {

struct CosineOptions {
  std::int64_t dim = 1;
  double eps = 1e-8;
};
Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineOptions& options = {});

struct PairwiseOptions {
  double p = 2;
  double eps = 1e-6;
  bool keepdim = false;
};

/// The p-norm of a - b + eps along the last dimension.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseOptions& options = {});

/// The p-norm of every row of a minus every row of b: (..., n, d), (..., m, d) to (..., n, m).
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

/// The p-norm of the difference of every two rows: (n, d) to (n * (n - 1) / 2).
/// Errors(runtime): "pdist only supports 2D tensors, got: 1D", "pdist only supports non-negative p values".
Tensor pdist(const Tensor& x, double p = 2);

}  // namespace core
