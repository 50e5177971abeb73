#pragma once
// LU factors as LAPACK packs them, taken apart. Internal to ops.

#include <cstdint>
#include <utility>
#include <vector>

#include "libcore/ops/copy.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Which row of the identity stands in each row of P, for P of `rows` rows: int64.
inline Tensor row_order(const Tensor& pivots, std::int64_t rows) {
  const std::vector<std::int64_t> swaps = pivots.to_vector<std::int64_t>();
  const std::int64_t k = pivots.size(-1);
  std::int64_t count = 1;
  for (std::int64_t d = 0; d + 1 < pivots.dim(); ++d) count *= pivots.size(d);
  std::vector<std::int64_t> order;
  for (std::int64_t b = 0; b < count; ++b) {
    std::vector<std::int64_t> from(static_cast<std::size_t>(rows)), place(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int64_t>(i);
    for (std::int64_t i = 0; i < k; ++i) {
      std::swap(from[static_cast<std::size_t>(i)],
                from[static_cast<std::size_t>(swaps[static_cast<std::size_t>(b * k + i)] - 1)]);
    }
    for (std::size_t i = 0; i < from.size(); ++i)
      place[static_cast<std::size_t>(from[i])] = static_cast<std::int64_t>(i);
    order.insert(order.end(), place.begin(), place.end());
  }
  Shape sizes = pivots.sizes();
  sizes[sizes.size() - 1] = rows;
  return batch_tensor(order, sizes, pivots.device());
}

/// P of a = P L U, in the dtype of `like`.
inline Tensor permutation(const Tensor& pivots, std::int64_t rows, const Tensor& like) {
  const Tensor order = row_order(pivots, rows);
  if (order.numel() > 0) return one_hot(order, rows).to(like.dtype());
  Shape sizes = order.sizes();
  sizes.push_back(rows);
  return zeros(sizes, {.dtype = like.dtype(), .device = like.device()});
}

inline Tensor lower_factor(const Tensor& lu) {
  const std::int64_t k = std::min(lu.size(-1), lu.size(-2));
  const Tensor one = eye(lu.size(-2), k, {.dtype = lu.dtype(), .device = lu.device()});
  return tril(lu.narrow(-1, 0, k), -1) + one;
}

inline Tensor upper_factor(const Tensor& lu) {
  return triu(lu.narrow(-2, 0, std::min(lu.size(-1), lu.size(-2))));
}

}  // namespace core::detail
