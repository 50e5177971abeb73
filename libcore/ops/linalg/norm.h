#pragma once
// Norms of vectors and matrices, as torch.linalg: results, errors and gradients are PyTorch's. Thread safety: pure
// functions. Cost: the spectral and nuclear norms are made of singular values, on the host. Use: core::Tensor n =
// core::linalg::vector_norm(x, {.dims = {1}});

#include <optional>
#include <string>

#include "libcore/tensor/tensor.h"

namespace core::linalg {

struct VectorNormOptions {
  double ord = 2;
  Shape dims = {};  ///< none: all
  bool keepdim = false;
};

Tensor vector_norm(const Tensor& x, const VectorNormOptions& options = {});

/// The order of a matrix norm: "fro", "nuc", or 1, -1, 2, -2, infinity, -infinity.
struct MatrixOrder {
  MatrixOrder(const char* name) : text(name) {}  // NOLINT(google-explicit-constructor)
  MatrixOrder(double value) : number(value) {}   // NOLINT(google-explicit-constructor)
  std::string text = {};
  double number = 0;
};

struct MatrixNormOptions {
  MatrixOrder ord = "fro";
  Shape dims = {-2, -1};
  bool keepdim = false;
};

Tensor matrix_norm(const Tensor& a, const MatrixNormOptions& options = {});

struct NormOptions {
  std::optional<MatrixOrder> ord = {};  ///< none: the root of the sum of squares
  Shape dims = {};                      ///< one: vectors, two: matrices; none: the tensor is one of them
  bool keepdim = false;
};

Tensor norm(const Tensor& x, const NormOptions& options = {});

/// The norm times that of the inverse; without ord by singular values.
Tensor cond(const Tensor& a, const std::optional<MatrixOrder>& ord = {});

}  // namespace core::linalg

namespace core {

/// Of vectors along one dimension or of matrices in two. Errors(runtime): PyTorch's texts for other numbers of them.
Tensor frobenius_norm(const Tensor& x, const Shape& dims, bool keepdim = false);
/// The sum of singular values of a matrix, or of the matrices in two dimensions.
Tensor nuclear_norm(const Tensor& x, bool keepdim = false);
Tensor nuclear_norm(const Tensor& x, const Shape& dims, bool keepdim = false);

}  // namespace core
