#include "libcore/distributions/transforms.h"

#include <cmath>

#include "libcore/base/error.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/type_promotion.h"

namespace core::distributions {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::value, message);
}

Tensor clipped_sigmoid(const Tensor& x) {
  const finfo limits(x.dtype());
  return sigmoid(x).clamp(limits.tiny, 1.0 - limits.eps);
}

/// A rule with nothing to it but its class, of growing functions of one variable.
template <class D>
struct PlainRule : TransformRule {
  explicit PlainRule(const char* printed) : name(printed) {}
  Constraint domain() const override { return constraints::real(); }
  Argument sign() const override { return 1; }
  bool equals(const TransformRule& other) const override { return dynamic_cast<const D*>(&other) != nullptr; }
  std::string str() const override { return std::string(name) + "()"; }
  const char* name;
};

struct ExpRule final : PlainRule<ExpRule> {
  ExpRule() : PlainRule("ExpTransform") {}
  Constraint codomain() const override { return constraints::positive(); }
  Tensor forward(const Tensor& x) const override { return x.exp(); }
  Tensor inverse(const Tensor& y) const override { return y.log(); }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor&) const override { return x; }
};

struct SigmoidRule final : PlainRule<SigmoidRule> {
  SigmoidRule() : PlainRule("SigmoidTransform") {}
  Constraint codomain() const override { return constraints::unit_interval(); }
  Tensor forward(const Tensor& x) const override { return clipped_sigmoid(x); }
  Tensor inverse(const Tensor& given) const override {
    const finfo limits(given.dtype());
    const Tensor y = given.clamp(limits.tiny, 1.0 - limits.eps);
    return y.log() - (-y).log1p();
  }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor&) const override { return -softplus(-x) - softplus(x); }
};

struct TanhRule final : PlainRule<TanhRule> {
  TanhRule() : PlainRule("TanhTransform") {}
  Constraint codomain() const override { return constraints::interval(-1.0, 1.0); }
  Tensor forward(const Tensor& x) const override { return x.tanh(); }
  Tensor inverse(const Tensor& y) const override { return y.atanh(); }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor&) const override {
    return (std::log(2.0) - x - softplus(x * -2.0)) * 2.0;
  }
};

struct SoftplusRule final : PlainRule<SoftplusRule> {
  SoftplusRule() : PlainRule("SoftplusTransform") {}
  Constraint codomain() const override { return constraints::positive(); }
  Tensor forward(const Tensor& x) const override { return softplus(x); }
  Tensor inverse(const Tensor& y) const override { return (-y).expm1().neg().log() + y; }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor&) const override { return -softplus(-x); }
};

struct AbsRule final : PlainRule<AbsRule> {
  AbsRule() : PlainRule("AbsTransform") {}
  Constraint codomain() const override { return constraints::positive(); }
  bool is_bijective() const override { return false; }
  Argument sign() const override { return TransformRule::sign(); }
  Tensor forward(const Tensor& x) const override { return x.abs(); }
  Tensor inverse(const Tensor& y) const override { return y; }
};

struct PowerRule final : TransformRule {
  explicit PowerRule(const Argument& given) : exponent(given.tensor()) {}
  Constraint domain() const override { return constraints::positive(); }
  Constraint codomain() const override { return constraints::positive(); }
  Argument sign() const override { return exponent.sign(); }
  Tensor forward(const Tensor& x) const override { return x.pow(exponent); }
  Tensor inverse(const Tensor& y) const override { return y.pow(1 / exponent); }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override {
    return (exponent * y / x).abs().log();
  }
  Shape forward_shape(const Shape& sizes) const override { return broadcast_shapes(sizes, exponent.sizes()); }
  Shape inverse_shape(const Shape& sizes) const override { return forward_shape(sizes); }
  bool equals(const TransformRule& other) const override {
    const auto* power = dynamic_cast<const PowerRule*>(&other);
    return power != nullptr && eq(exponent, power->exponent).all().item<bool>();
  }
  std::string str() const override { return "PowerTransform()"; }
  Tensor exponent;
};

bool same_argument(const Argument& a, const Argument& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  const std::vector<Tensor> both = broadcast_all({a, b});
  return eq(both[0], both[1]).all().item<bool>();
}

struct AffineRule final : TransformRule {
  AffineRule(const Argument& place, const Argument& width, std::int64_t dims)
      : loc(place), scale(width), event_dim(dims) {}
  Constraint domain() const override {
    return event_dim == 0 ? constraints::real() : constraints::independent(constraints::real(), event_dim);
  }
  Constraint codomain() const override { return domain(); }
  Argument sign() const override {
    if (!scale.is_number()) return scale.tensor().sign();
    return scale.number() > 0 ? 1 : scale.number() < 0 ? -1 : 0;
  }
  Tensor forward(const Tensor& x) const override {
    const Tensor scaled = scale.is_number() ? x * scale.number() : scale.tensor() * x;
    return loc.is_number() ? scaled + loc.number() : loc.tensor() + scaled;
  }
  Tensor inverse(const Tensor& y) const override {
    const Tensor moved = loc.is_number() ? y - loc.number() : y - loc.tensor();
    return scale.is_number() ? moved / scale.number() : moved / scale.tensor();
  }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor&) const override {
    Tensor each = scale.is_number() ? full_like(x, std::log(std::abs(scale.number()))) : scale.tensor().abs().log();
    if (event_dim == 0) return each.expand(x.sizes());
    return sum_rightmost(each, event_dim)
        .expand(first_dims(x.sizes(), x.sizes().size() - static_cast<std::size_t>(event_dim)));
  }
  Shape forward_shape(const Shape& sizes) const override {
    return broadcast_shapes(broadcast_shapes(sizes, loc.sizes()), scale.sizes());
  }
  Shape inverse_shape(const Shape& sizes) const override { return forward_shape(sizes); }
  bool equals(const TransformRule& other) const override {
    const auto* affine = dynamic_cast<const AffineRule*>(&other);
    return affine != nullptr && same_argument(loc, affine->loc) && same_argument(scale, affine->scale);
  }
  std::string str() const override { return "AffineTransform()"; }
  Argument loc, scale;
  std::int64_t event_dim;
};

void need_dims(const Shape& sizes, std::size_t count) {
  if (sizes.size() < count) refuse("Too few dimensions on input");
}

struct SoftmaxRule final : PlainRule<SoftmaxRule> {
  SoftmaxRule() : PlainRule("SoftmaxTransform") {}
  Constraint domain() const override { return constraints::real_vector(); }
  Constraint codomain() const override { return constraints::simplex(); }
  bool is_bijective() const override { return false; }
  Argument sign() const override { return TransformRule::sign(); }
  Tensor forward(const Tensor& x) const override {
    const Tensor probs = (x - x.max(-1, true).values).exp();
    return probs / probs.sum(-1, true);
  }
  Tensor inverse(const Tensor& y) const override { return y.log(); }
  Shape forward_shape(const Shape& sizes) const override { return need_dims(sizes, 1), sizes; }
  Shape inverse_shape(const Shape& sizes) const override { return need_dims(sizes, 1), sizes; }
};

struct StickBreakingRule final : PlainRule<StickBreakingRule> {
  StickBreakingRule() : PlainRule("StickBreakingTransform") {}
  Constraint domain() const override { return constraints::real_vector(); }
  Constraint codomain() const override { return constraints::simplex(); }
  Argument sign() const override { return TransformRule::sign(); }
  /// n, n - 1, ..., 1.
  static Tensor left(std::int64_t n, const Tensor& like) {
    return arange(n, 0, -1, {.dtype = like.dtype(), .device = like.device()});
  }
  Tensor forward(const Tensor& x) const override {
    need_dims(x.sizes(), 1);
    const Tensor z = clipped_sigmoid(x - left(x.size(-1), x).log());
    return pad(z, {0, 1}, PaddingMode::zeros, 1) * pad(cumprod(1 - z, -1), {1, 0}, PaddingMode::zeros, 1);
  }
  Tensor inverse(const Tensor& y) const override {
    const Tensor first = y.narrow(-1, 0, y.size(-1) - 1);
    const Tensor rest = (1 - first.cumsum(-1)).clamp(finfo(y.dtype()).tiny);
    return first.log() - rest.log() + left(first.size(-1), y).log();
  }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override {
    const Tensor moved = x - left(x.size(-1), x).log();
    return (log_sigmoid(moved) - moved + y.narrow(-1, 0, y.size(-1) - 1).log()).sum(-1);
  }
  Shape forward_shape(const Shape& sizes) const override { return longer(sizes, 1); }
  Shape inverse_shape(const Shape& sizes) const override { return longer(sizes, -1); }
  static Shape longer(Shape sizes, std::int64_t by) {
    need_dims(sizes, 1);
    sizes[sizes.size() - 1] += by;
    return sizes;
  }
};

Tensor diagonal_of(const Tensor& x) {
  return x.diagonal(0, -2, -1);
}

struct LowerCholeskyRule final : PlainRule<LowerCholeskyRule> {
  LowerCholeskyRule() : PlainRule("LowerCholeskyTransform") {}
  Constraint domain() const override { return constraints::independent(constraints::real(), 2); }
  Constraint codomain() const override { return constraints::lower_cholesky(); }
  bool is_bijective() const override { return false; }
  Argument sign() const override { return TransformRule::sign(); }
  static Tensor factor(const Tensor& x) { return tril(x, -1) + diag_embed(diagonal_of(x).exp()); }
  static Tensor free_numbers(const Tensor& y) { return tril(y, -1) + diag_embed(diagonal_of(y).log()); }
  Tensor forward(const Tensor& x) const override { return factor(x); }
  Tensor inverse(const Tensor& y) const override { return free_numbers(y); }
};

struct PositiveDefiniteRule final : PlainRule<PositiveDefiniteRule> {
  PositiveDefiniteRule() : PlainRule("PositiveDefiniteTransform") {}
  Constraint domain() const override { return constraints::independent(constraints::real(), 2); }
  Constraint codomain() const override { return constraints::positive_definite(); }
  bool is_bijective() const override { return false; }
  Argument sign() const override { return TransformRule::sign(); }
  Tensor forward(const Tensor& x) const override {
    const Tensor factor = LowerCholeskyRule::factor(x);
    return matmul(factor, factor.mT());
  }
  Tensor inverse(const Tensor& y) const override { return LowerCholeskyRule::free_numbers(linalg::cholesky(y)); }
};

/// What lies below the diagonal (from `diagonal` on), row by row.
Tensor below_diagonal(const Tensor& matrix, std::int64_t diagonal) {
  const std::int64_t n = matrix.size(-1);
  const Tensor places = tril_indices(n, n, diagonal);
  return index(matrix, {Ellipsis(), places[0], places[1]});
}

/// The matrix of these numbers below its diagonal and zeros elsewhere.
Tensor filled_below_diagonal(const Tensor& numbers) {
  const double root = (1 + std::sqrt(1 + 8 * static_cast<double>(numbers.size(-1)))) / 2;
  const double n = std::nearbyint(root);
  if (n - root > finfo(numbers.dtype()).eps) {
    refuse("The size of last dimension is " + std::to_string(numbers.size(-1)) +
           " which cannot be expressed as the lower triangular part of a square D x D matrix.");
  }
  const auto rows = static_cast<std::int64_t>(n);
  const Shape sizes = joined(first_dims(numbers.sizes(), numbers.sizes().size() - 1), {rows, rows});
  const Tensor places = tril_indices(rows, rows, -1);
  const Tensor empty_matrix = zeros(sizes, {.dtype = numbers.dtype(), .device = numbers.device()});
  return index_put(empty_matrix, {Ellipsis(), places[0], places[1]}, numbers);
}

/// Ones and then all but the last of the last dimension.
Tensor shifted(const Tensor& x) {
  return pad(x.narrow(-1, 0, x.size(-1) - 1), {1, 0}, PaddingMode::zeros, 1);
}

struct CorrCholeskyRule final : TransformRule {
  Constraint domain() const override { return constraints::real_vector(); }
  Constraint codomain() const override { return constraints::corr_cholesky(); }
  Tensor forward(const Tensor& given) const override {
    need_dims(given.sizes(), 1);
    const double eps = finfo(given.dtype()).eps;
    const Tensor r = filled_below_diagonal(given.tanh().clamp(-1 + eps, 1 - eps));
    const Tensor left = cumprod((1 - r.pow(2)).sqrt(), -1);
    const Tensor ones = eye(r.size(-1), {}, {.dtype = r.dtype(), .device = r.device()});
    return (r + ones) * shifted(left);
  }
  Tensor inverse(const Tensor& y) const override {
    const Tensor left = 1 - (y * y).cumsum(-1);
    const Tensor t = below_diagonal(y, -1) / below_diagonal(shifted(left), -1).sqrt();
    return (t.log1p() - (-t).log1p()) / 2;
  }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override {
    const Tensor left = below_diagonal(1 - (y * y).cumsum(-1), -2);
    const Tensor of_tanh = (x + softplus(x * -2) - std::log(2.0)).sum(-1) * -2;
    return left.log().sum(-1) * 0.5 + of_tanh;
  }
  Shape forward_shape(const Shape& sizes) const override {
    need_dims(sizes, 1);
    const std::int64_t count = sizes.back();
    const auto n = static_cast<std::int64_t>(std::nearbyint(std::sqrt(0.25 + 2 * static_cast<double>(count)) + 0.5));
    if (n * (n - 1) / 2 != count) refuse("Input is not a flattened lower-diagonal number");
    return joined(first_dims(sizes, sizes.size() - 1), {n, n});
  }
  Shape inverse_shape(const Shape& sizes) const override {
    need_dims(sizes, 2);
    const std::int64_t n = sizes.back();
    if (sizes[sizes.size() - 2] != n) refuse("Input is not square");
    return joined(first_dims(sizes, sizes.size() - 2), {n * (n - 1) / 2});
  }
  std::string str() const override { return "CorrCholeskyTransform()"; }
};

std::string size_tuple(const Shape& sizes) {
  return "torch.Size(" + to_list(sizes) + ")";
}

struct ReshapeRule final : TransformRule {
  ReshapeRule(const Shape& from, const Shape& to) : in(from), out(to) {
    if (in.numel() != out.numel()) refuse("in_shape, out_shape have different numbers of elements");
  }
  Constraint domain() const override {
    return constraints::independent(constraints::real(), static_cast<std::int64_t>(in.size()));
  }
  Constraint codomain() const override {
    return constraints::independent(constraints::real(), static_cast<std::int64_t>(out.size()));
  }
  static Shape batch(const Tensor& x, const Shape& event) {
    return first_dims(x.sizes(), x.sizes().size() - event.size());
  }
  Tensor forward(const Tensor& x) const override { return x.reshape(joined(batch(x, in), out)); }
  Tensor inverse(const Tensor& y) const override { return y.reshape(joined(batch(y, out), in)); }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor&) const override {
    return zeros(batch(x, in), {.dtype = x.dtype(), .device = x.device()});
  }
  static Shape replaced(const Shape& sizes, const Shape& from, const Shape& to) {
    need_dims(sizes, from.size());
    const std::size_t cut = sizes.size() - from.size();
    const Shape tail(sizes.span().last(from.size()));
    if (tail != from) refuse("Shape mismatch: expected " + size_tuple(tail) + " but got " + size_tuple(from));
    return joined(first_dims(sizes, cut), to);
  }
  Shape forward_shape(const Shape& sizes) const override { return replaced(sizes, in, out); }
  Shape inverse_shape(const Shape& sizes) const override { return replaced(sizes, out, in); }
  std::string str() const override { return "ReshapeTransform()"; }
  Shape in, out;
};

struct CumulativeDistributionRule final : PlainRule<CumulativeDistributionRule> {
  explicit CumulativeDistributionRule(const Distribution& d)
      : PlainRule("CumulativeDistributionTransform"), distribution(d.copy()) {}
  Constraint domain() const override { return distribution->support(); }
  Constraint codomain() const override { return constraints::unit_interval(); }
  bool equals(const TransformRule& other) const override { return this == &other; }
  Tensor forward(const Tensor& x) const override { return distribution->cdf(x); }
  Tensor inverse(const Tensor& y) const override { return distribution->icdf(y); }
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor&) const override { return distribution->log_prob(x); }
  std::shared_ptr<const Distribution> distribution;
};

}  // namespace

ExpTransform::ExpTransform(const CacheOptions& options) : Transform(std::make_shared<ExpRule>(), options) {}
SigmoidTransform::SigmoidTransform(const CacheOptions& options) : Transform(std::make_shared<SigmoidRule>(), options) {}
TanhTransform::TanhTransform(const CacheOptions& options) : Transform(std::make_shared<TanhRule>(), options) {}
SoftplusTransform::SoftplusTransform(const CacheOptions& options)
    : Transform(std::make_shared<SoftplusRule>(), options) {}
AbsTransform::AbsTransform(const CacheOptions& options) : Transform(std::make_shared<AbsRule>(), options) {}
PowerTransform::PowerTransform(const Argument& exponent, const CacheOptions& options)
    : Transform(std::make_shared<PowerRule>(exponent), options) {}
AffineTransform::AffineTransform(const Argument& loc, const Argument& scale, const AffineOptions& options)
    : Transform(std::make_shared<AffineRule>(loc, scale, options.event_dim), {.cache_size = options.cache_size}) {}
SoftmaxTransform::SoftmaxTransform(const CacheOptions& options) : Transform(std::make_shared<SoftmaxRule>(), options) {}
StickBreakingTransform::StickBreakingTransform(const CacheOptions& options)
    : Transform(std::make_shared<StickBreakingRule>(), options) {}
LowerCholeskyTransform::LowerCholeskyTransform(const CacheOptions& options)
    : Transform(std::make_shared<LowerCholeskyRule>(), options) {}
PositiveDefiniteTransform::PositiveDefiniteTransform(const CacheOptions& options)
    : Transform(std::make_shared<PositiveDefiniteRule>(), options) {}
CorrCholeskyTransform::CorrCholeskyTransform(const CacheOptions& options)
    : Transform(std::make_shared<CorrCholeskyRule>(), options) {}
ReshapeTransform::ReshapeTransform(const Shape& in_shape, const Shape& out_shape, const CacheOptions& options)
    : Transform(std::make_shared<ReshapeRule>(in_shape, out_shape), options) {}
CumulativeDistributionTransform::CumulativeDistributionTransform(const Distribution& distribution,
                                                                 const CacheOptions& options)
    : Transform(std::make_shared<CumulativeDistributionRule>(distribution), options) {}

}  // namespace core::distributions
