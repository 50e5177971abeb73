#pragma once
// Softmax and its kin, as torch.nn.functional. Thread safety: pure functions; gumbel_softmax draws from the default
// generator. Use: core::Tensor p = core::softmax(scores, -1);

#include <cstdint>

#include "libcore/tensor/tensor.h"

namespace core {

Tensor softmax(const Tensor& x, std::int64_t dim);

/// Along dimension 0 of 0, 1 and 3 dimensions, else 1; warns that the dimension should be said.
Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x, std::int64_t dim);
Tensor log_softmax(const Tensor& x);
Tensor softmin(const Tensor& x, std::int64_t dim);

/// As softmax without a dimension.
Tensor softmin(const Tensor& x);

struct GumbelOptions {
  double tau = 1;
  bool hard = false;  ///< ones and zeros, with the gradient of the soft values
  std::int64_t dim = -1;
};

/// A draw from the categories that the logits along one dimension describe, as a softmax.
Tensor gumbel_softmax(const Tensor& logits, const GumbelOptions& options = {});

}  // namespace core
