#pragma once
// Products of matrices without history. Thread safety: pure functions. Errors: PyTorch's texts.

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

/// a (m, k) @ b (k, n), or batches of them with equal leading sizes. `name` stands in messages.
struct ProductOptions {
  Scalar beta = 0;
  Scalar alpha = 1;
  Tensor start = {};  ///< broadcast to the result, times beta
};

Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options = {});

/// a (k, m)^T @ b (k, n), with the bits of product() of a view of a.
Tensor turned_product(const Tensor& a, const Tensor& b);

/// x (m, k) @ weight (n, k)^T + bias (n) in one kernel; undefined when types, sizes or layouts ask for the general way,
/// which then has the errors. `again`: the weight will be asked for again, as it is (turned_weights.h).
Tensor try_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool again = false);

}  // namespace core::raw
