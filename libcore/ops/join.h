#pragma once
// Joining tensors, as torch.X: results, errors and gradients are PyTorch's. Thread safety: pure functions.
// Use: core::Tensor y = core::cat({a, b}, 1); core::Tensor z = core::hstack({a, b});

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

Tensor cat(const std::vector<Tensor>& parts, std::int64_t dim = 0);
Tensor stack(const std::vector<Tensor>& parts, std::int64_t dim = 0);
Tensor hstack(const std::vector<Tensor>& parts);
Tensor vstack(const std::vector<Tensor>& parts);
Tensor dstack(const std::vector<Tensor>& parts);
Tensor column_stack(const std::vector<Tensor>& parts);

/// Along a diagonal, zeros elsewhere.
Tensor block_diag(const std::vector<Tensor>& parts);

/// Every combination of one element each, a row a combination.
Tensor cartesian_prod(const std::vector<Tensor>& lists);

/// Every choice of r elements of a list, a row a choice.
Tensor combinations(const Tensor& list, std::int64_t r = 2, bool with_replacement = false);

/// indexing: "ij" or "xy".
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, const std::string& indexing = "ij");

// Tensors one by one: cat(a, b). A dimension needs the braces: cat({a, b}, 1).
template <std::derived_from<Tensor>... Parts>
requires(sizeof...(Parts) > 1) Tensor cat(const Parts&... parts) {
  return cat(std::vector<Tensor>{parts...});
}
template <std::derived_from<Tensor>... Parts>
requires(sizeof...(Parts) > 1) Tensor stack(const Parts&... parts) {
  return stack(std::vector<Tensor>{parts...});
}
template <std::derived_from<Tensor>... Parts>
requires(sizeof...(Parts) > 1) Tensor hstack(const Parts&... parts) {
  return hstack(std::vector<Tensor>{parts...});
}
template <std::derived_from<Tensor>... Parts>
requires(sizeof...(Parts) > 1) Tensor vstack(const Parts&... parts) {
  return vstack(std::vector<Tensor>{parts...});
}
template <std::derived_from<Tensor>... Parts>
requires(sizeof...(Parts) > 1) std::vector<Tensor> meshgrid(const Parts&... parts) {
  return meshgrid(std::vector<Tensor>{parts...});
}

}  // namespace core
