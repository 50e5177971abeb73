#pragma once
// Order and counting: running extremes, k-th values, modes, quantiles, distinct values, histograms, searching, as
// torch.X: results, errors, gradients and node names are PyTorch's. sort, topk, median and bincount are in ops.h and
// more_ops.h. Thread safety: pure functions. Cost: computed on the host.
// Use: auto [values, indices] = core::cummax(x, 0); core::Tensor q = core::quantile(x, 0.9);

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/tensor/ops.h"

namespace core {

/// The largest (smallest) so far, and where it last stood.
ValuesIndices cummax(const Tensor& x, std::int64_t dim);
ValuesIndices cummin(const Tensor& x, std::int64_t dim);
/// The k-th smallest. Error(runtime) "kthvalue(): selected number k out of range for dimension 1".
ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool keepdim = false);
/// The most frequent value (of several the smallest) and where it last stands.
ValuesIndices mode(const Tensor& x, std::int64_t dim = -1, bool keepdim = false);
Tensor nanmedian(const Tensor& x);
ValuesIndices nanmedian(const Tensor& x, std::int64_t dim, bool keepdim = false);
struct MinMax {
  Tensor min, max;
};
MinMax aminmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

struct QuantileOptions {
  std::optional<std::int64_t> dim = {};
  bool keepdim = false;
  std::string interpolation = "linear";  ///< lower, higher, midpoint, nearest
};
/// q: in [0, 1]; of a 1-d tensor of several the results are stacked in front. Errors(runtime): PyTorch's texts.
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
/// The same without the elements that are NaN.
Tensor nanquantile(const Tensor& x, double q, const QuantileOptions& options = {});
Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});

struct Unique {
  Tensor values;
  Tensor inverse;  ///< int64: which value each element of x is
  Tensor counts;   ///< int64
};
/// Distinct values in ascending order, or distinct slices along dim in lexicographic order. NaN differs from NaN.
Unique unique_with(const Tensor& x, std::optional<std::int64_t> dim = {});
/// Runs of equal neighbours count as one.
Unique unique_consecutive(const Tensor& x, std::optional<std::int64_t> dim = {});

/// Counts in equal bins between low and high (both 0: of x itself), in the dtype of x.
Tensor histc(const Tensor& x, std::int64_t bins = 100, double low = 0, double high = 0);

struct SearchOptions {
  bool right = false;  ///< behind equal boundaries instead of in front
  bool int32 = false;  ///< dtype of the result instead of int64
};
/// Where values would be put into sorted sequences: (..., n) for values (..., m), or one sequence for all.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options = {});
/// The same with the arguments in the other order and one sequence.
Tensor bucketize(const Tensor& values, const Tensor& boundaries, const SearchOptions& options = {});

}  // namespace core
