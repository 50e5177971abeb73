#pragma once
// The transforms of torch.distributions.transforms. Thread safety: values.
// Use: core::distributions::ComposeTransform f({core::distributions::AffineTransform(1.0, 2.0),
//                                               core::distributions::SigmoidTransform()});
//      core::Tensor z = f.inv()(f(x));

#include <memory>
#include <vector>

#include "libcore/distributions/distribution.h"
#include "libcore/distributions/transform.h"

namespace core::distributions {

struct ExpTransform : Transform {
  ExpTransform(const CacheOptions& options = {});
};
/// 1 / (1 + exp(-x)), kept inside of (0, 1).
struct SigmoidTransform : Transform {
  SigmoidTransform(const CacheOptions& options = {});
};
struct TanhTransform : Transform {
  TanhTransform(const CacheOptions& options = {});
};
struct SoftplusTransform : Transform {
  SoftplusTransform(const CacheOptions& options = {});
};
/// Not bijective: its inverse is what goes in.
struct AbsTransform : Transform {
  AbsTransform(const CacheOptions& options = {});
};
/// x^exponent, for positive numbers.
struct PowerTransform : Transform {
  explicit PowerTransform(const Argument& exponent, const CacheOptions& options = {});
};

struct AffineOptions {
  std::int64_t event_dim = 0;  ///< dimensions of one value
  int cache_size = 0;
};
/// loc + scale * x.
struct AffineTransform : Transform {
  AffineTransform(const Argument& loc, const Argument& scale, const AffineOptions& options = {});
};

/// exp(x), normalized; not bijective.
struct SoftmaxTransform : Transform {
  SoftmaxTransform(const CacheOptions& options = {});
};
/// From n numbers to n + 1 that are a distribution.
struct StickBreakingTransform : Transform {
  StickBreakingTransform(const CacheOptions& options = {});
};
/// The lower triangle with exp() on the diagonal.
struct LowerCholeskyTransform : Transform {
  LowerCholeskyTransform(const CacheOptions& options = {});
};
struct PositiveDefiniteTransform : Transform {
  PositiveDefiniteTransform(const CacheOptions& options = {});
};
/// From n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix: n rows of length 1. Error(value) "The
/// size of last dimension is 2 which cannot be expressed as the lower triangular part of a square D x D matrix.".
struct CorrCholeskyTransform : Transform {
  CorrCholeskyTransform(const CacheOptions& options = {});
};
struct ReshapeTransform : Transform {
  /// Error(value) "in_shape, out_shape have different numbers of elements".
  ReshapeTransform(const Shape& in_shape, const Shape& out_shape, const CacheOptions& options = {});
};
/// One after the other.
struct ComposeTransform : Transform {
  explicit ComposeTransform(const std::vector<Transform>& parts, const CacheOptions& options = {});
};
/// The last `count` dimensions belong to one value.
struct IndependentTransform : Transform {
  IndependentTransform(const Transform& base, std::int64_t count, const CacheOptions& options = {});
};
/// One for each slice along a dimension.
struct StackTransform : Transform {
  explicit StackTransform(const std::vector<Transform>& parts, std::int64_t dim = 0, const CacheOptions& options = {});
};
/// One for each part of `lengths` (1 each) along a dimension.
struct CatTransform : Transform {
  explicit CatTransform(const std::vector<Transform>& parts, std::int64_t dim = 0,
                        const std::vector<std::int64_t>& lengths = {}, const CacheOptions& options = {});
};
/// The distribution function of a distribution that has icdf() too.
struct CumulativeDistributionTransform : Transform {
  explicit CumulativeDistributionTransform(const Distribution& distribution, const CacheOptions& options = {});
};

/// ComposeTransform of nothing.
Transform identity_transform();

}  // namespace core::distributions
