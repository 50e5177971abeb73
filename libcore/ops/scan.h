#pragma once
// Running sums, products and extremes, differences and areas along a dimension, as torch.X: results, errors, gradients
// and node names are PyTorch's. Thread safety: pure functions; those in place (name_) write their first argument. Use:
// auto [values, indices] = core::cummax(x, 0); core::Tensor d = core::diff(x, {.dim = 0});

#include <cstdint>
#include <optional>

#include "libcore/tensor/tensor.h"

namespace core {

Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});
Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});

/// The largest (smallest) so far, and where it last stood.
ValuesIndices cummax(const Tensor& x, std::int64_t dim);
ValuesIndices cummin(const Tensor& x, std::int64_t dim);

/// log(cumsum(exp(x)))
Tensor logcumsumexp(const Tensor& x, std::int64_t dim);

struct DiffOptions {
  std::int64_t n = 1;
  std::int64_t dim = -1;
  Tensor prepend = {}, append = {};
};

/// Differences of neighbours, n times; of bool: whether they differ.
Tensor diff(const Tensor& x, const DiffOptions& options = {});

struct TrapezoidOptions {
  Tensor x = {};  ///< positions of the samples; else they are dx apart
  double dx = 1;
  std::int64_t dim = -1;
};

Tensor trapezoid(const Tensor& y, const TrapezoidOptions& options = {});
Tensor cumulative_trapezoid(const Tensor& y, const TrapezoidOptions& options = {});
inline Tensor trapz(const Tensor& y, const TrapezoidOptions& options = {}) {
  return trapezoid(y, options);
}
const Tensor& cumsum_(const Tensor& x, std::int64_t dim);
const Tensor& cumprod_(const Tensor& x, std::int64_t dim);

}  // namespace core
