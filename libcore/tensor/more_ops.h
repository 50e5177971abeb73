#pragma once
// Rarer operations on tensors, as torch.X: results, views, errors and gradients are PyTorch's. The common ones are in
// ops.h. Thread safety: pure functions. Use: core::Tensor y = core::einsum("bij,bkj->bik", {a, b});

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/tensor/ops.h"

namespace core {

/// x limited to [low, high] element by element; either may be undefined.
/// Error(runtime) "torch.clamp: At least one of 'min' or 'max' must not be None".
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);

struct VarMean {
  Tensor var, mean;
};
VarMean var_mean(const Tensor& x, const VarOptions& options = {});
/// log(cumsum(exp(x)))
Tensor logcumsumexp(const Tensor& x, std::int64_t dim);
/// The lower middle element.
Tensor median(const Tensor& x);
ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// How often each number from 0 occurs; int64. Error(runtime) for negative numbers.
Tensor bincount(const Tensor& x, std::int64_t minlength = 0);
/// The distinct values in ascending order.
Tensor unique(const Tensor& x);
/// A 1 at each index along a new last dimension; int64. classes: -1 takes the largest index + 1.
/// Errors(runtime): "Class values must be smaller than num_classes." and its siblings.
Tensor one_hot(const Tensor& index, std::int64_t classes = -1);

/// beta * c + alpha * a @ b, batch by batch.
Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
/// beta * c + alpha * matrix @ vector
Tensor addmv(const Tensor& c, const Tensor& matrix, const Tensor& vector, Scalar beta = 1, Scalar alpha = 1);
/// Sums of products in Einstein's notation: letters for dimensions, "..." for those that broadcast.
/// Errors(runtime): PyTorch's texts.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

/// Each element `repeats` times along dim, or along the flattened tensor.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> dim = {});
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
/// indexing: "ij" or "xy".
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, const std::string& indexing = "ij");
/// The diagonal of a matrix, or a matrix with that diagonal.
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace core
