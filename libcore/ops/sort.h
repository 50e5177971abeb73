#pragma once
// Sorting, distinct values, counting and searching, as torch.X: results, errors and gradients are PyTorch's.
// Thread safety: pure functions. Cost: all but sort, argsort and topk are computed on the host.
// Use: auto [values, indices] = core::topk(x, 5); core::Tensor counts = core::bincount(labels);

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

ValuesIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);

/// The distinct values in ascending order.
Tensor unique(const Tensor& x);

struct Unique {
  Tensor values;
  Tensor inverse;  ///< int64: which value each element of x is
  Tensor counts;   ///< int64
};

/// Distinct values in ascending order, or distinct slices along dim in lexicographic order. NaN differs from NaN.
Unique unique_with(const Tensor& x, std::optional<std::int64_t> dim = {});

/// unique_with() of slices.
inline Unique unique_dim(const Tensor& x, std::int64_t dim) {
  return unique_with(x, dim);
}

/// Runs of equal neighbours count as one.
Unique unique_consecutive(const Tensor& x, std::optional<std::int64_t> dim = {});

/// How often each number from 0 occurs; int64. Error(runtime) for negative numbers.
Tensor bincount(const Tensor& x, std::int64_t minlength = 0);

/// Counts in equal bins between low and high (both 0: of x itself), in the dtype of x.
Tensor histc(const Tensor& x, std::int64_t bins = 100, double low = 0, double high = 0);

struct Histogram {
  Tensor hist;
  Tensor bin_edges;  ///< one more than bins, ascending
};
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = {};  ///< of equal bins; else that of x
  Tensor weight = {};                                   ///< what each element counts, of the shape of x
  bool density = false;                                 ///< so that the area under the bins is 1
};

/// Counts of x's elements in `bins` equal bins, or between `edges`; the last bin has its right edge too. In the dtype
/// of x. Errors(runtime): PyTorch's for no bins, a range that is none, a weight of another shape, edges of another
/// dtype.
Histogram histogram(const Tensor& x, std::int64_t bins = 100, const HistogramOptions& options = {});
Histogram histogram(const Tensor& x, const Tensor& edges, const HistogramOptions& options = {});

struct HistogramDd {
  Tensor hist;
  std::vector<Tensor> bin_edges;  ///< one a dimension
};
struct HistogramDdOptions {
  std::vector<double> range = {};  ///< low and high of each dimension one after another; else those of x
  Tensor weight = {};
  bool density = false;
};

/// Counts of points, the last dimension of x (..., dimensions), in boxes: as histogram() with `bins` equal bins (one
/// number for all dimensions or one each), or between the edges of each dimension.
HistogramDd histogramdd(const Tensor& x, const Shape& bins, const HistogramDdOptions& options = {});
HistogramDd histogramdd(const Tensor& x, const std::vector<Tensor>& edges, const HistogramDdOptions& options = {});

struct SearchOptions {
  bool right = false;  ///< behind equal boundaries instead of in front
  bool int32 = false;  ///< dtype of the result instead of int64
};

/// Where values would be put into sorted sequences: (..., n) for values (..., m), or one sequence for all.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& options = {});

/// The same with the arguments in the other order and one sequence.
Tensor bucketize(const Tensor& values, const Tensor& boundaries, const SearchOptions& options = {});

/// Which elements occur among `values`.
Tensor isin(const Tensor& x, const Tensor& values, bool invert = false);

}  // namespace core
