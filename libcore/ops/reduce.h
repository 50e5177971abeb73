#pragma once
// Reductions over all elements or some dimensions, statistics, quantiles and places of extremes, as torch.X: results,
// errors, gradients and node names are PyTorch's. Thread safety: pure functions. Cost: median, mode, kthvalue and
// quantiles are computed on the host. Use: core::Tensor rows = core::sum(x, {.dims = {1}}); auto [values, indices] =
// core::max(x, 0);

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "libcore/tensor/tensor.h"

namespace core {

struct ReduceOptions {
  Shape dims = {};
  bool keepdim = false;
  std::optional<DType> dtype = {};
};

Tensor sum(const Tensor& x, const ReduceOptions& options = {});
Tensor mean(const Tensor& x, const ReduceOptions& options = {});
Tensor prod(const Tensor& x, const ReduceOptions& options = {});

struct VarOptions {
  Shape dims = {};
  double correction = 1;
  bool keepdim = false;
};

Tensor var(const Tensor& x, const VarOptions& options = {});
Tensor std(const Tensor& x, const VarOptions& options = {});

/// The vector p-norm; p may be infinite or 0.
struct NormOptions {
  double p = 2;
  Shape dims = {};
  bool keepdim = false;
};

Tensor norm(const Tensor& x, const NormOptions& options = {});
Tensor logsumexp(const Tensor& x, const Shape& dims, bool keepdim = false);
Tensor amax(const Tensor& x, const ReduceOptions& options = {});
Tensor amin(const Tensor& x, const ReduceOptions& options = {});
Tensor max(const Tensor& x);
ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
Tensor min(const Tensor& x);
ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Tensor all(const Tensor& x, const ReduceOptions& options = {});
Tensor any(const Tensor& x, const ReduceOptions& options = {});

/// Sums `x` down to `sizes`, a shape that broadcasts to x's.
Tensor sum_to(const Tensor& x, const Shape& sizes);

struct VarMean {
  Tensor var, mean;
};
VarMean var_mean(const Tensor& x, const VarOptions& options = {});

struct StdMean {
  Tensor std, mean;
};
StdMean std_mean(const Tensor& x, const VarOptions& options = {});

/// Without the elements that are NaN.
Tensor nansum(const Tensor& x, const ReduceOptions& options = {});
Tensor nanmean(const Tensor& x, const ReduceOptions& options = {});

/// int64
Tensor count_nonzero(const Tensor& x, const Shape& dims = {});

/// The exclusive or of the elements' bits, by their own size (floats as f64, integers as int64): uint64.
Tensor hash_tensor(const Tensor& x, const Shape& dims = {}, bool keepdim = false);

/// The p-norm of a - b.
Tensor dist(const Tensor& a, const Tensor& b, double p = 2);

/// Rows are variables. x: (variables, observations) or (observations).
Tensor cov(const Tensor& x, std::int64_t correction = 1);
Tensor corrcoef(const Tensor& x);

/// The lower middle element.
Tensor median(const Tensor& x);
ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
Tensor nanmedian(const Tensor& x);
ValuesIndices nanmedian(const Tensor& x, std::int64_t dim, bool keepdim = false);

/// The k-th smallest. Error(runtime) "kthvalue(): selected number k out of range for dimension 1".
ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool keepdim = false);

/// The most frequent value (of several the smallest) and where it last stands.
ValuesIndices mode(const Tensor& x, std::int64_t dim = -1, bool keepdim = false);

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

// One dimension as a number, several in braces: sum(x, 1), mean(x, -1, true), amax(x, {0, 1}).
// clang-format off
#define CORE_ALONG_DIMS(name)                                                                                  \
  template <std::integral Dim>                                                                                 \
  requires(!std::same_as<Dim, bool>) Tensor name(const Tensor& x, Dim dim, bool keepdim = false) {             \
    return name(x, {.dims = Shape{static_cast<std::int64_t>(dim)}, .keepdim = keepdim});                       \
  }                                                                                                            \
  template <std::integral Dim>                                                                                 \
  requires(!std::same_as<Dim, bool>)                                                                           \
  Tensor name(const Tensor& x, std::initializer_list<Dim> dims, bool keepdim = false) {                        \
    Shape listed;                                                                                              \
    for (const Dim dim : dims) listed.push_back(static_cast<std::int64_t>(dim));                               \
    return name(x, {.dims = listed, .keepdim = keepdim});                                                      \
  }
CORE_ALONG_DIMS(sum)
CORE_ALONG_DIMS(mean)
CORE_ALONG_DIMS(prod)
CORE_ALONG_DIMS(var)
CORE_ALONG_DIMS(std)
CORE_ALONG_DIMS(amax)
CORE_ALONG_DIMS(amin)
CORE_ALONG_DIMS(all)
CORE_ALONG_DIMS(any)
CORE_ALONG_DIMS(nansum)
CORE_ALONG_DIMS(nanmean)
#undef CORE_ALONG_DIMS
// clang-format on

}  // namespace core
