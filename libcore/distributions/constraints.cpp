#include "libcore/distributions/constraints.h"

#include <algorithm>
#include <ostream>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/type_promotion.h"

namespace core::distributions {

Tensor Argument::tensor(const Tensor& like) const {
  if (!is_number()) return tensor_;
  if (!like.defined()) return full({}, number_, {.dtype = default_dtype()});
  return full({}, number_, {.dtype = like.dtype(), .device = like.device()});
}

std::string Argument::str() const {
  if (!is_number()) return formatted(tensor_);
  return is_integer_ ? std::to_string(static_cast<std::int64_t>(number_)) : python_float(number_);
}

std::vector<Tensor> broadcast_all(const std::vector<Argument>& arguments) {
  Tensor like;
  for (const Argument& argument : arguments) {
    if (!argument.is_number() && !like.defined()) like = argument.tensor();
  }
  std::vector<Tensor> tensors;
  for (const Argument& argument : arguments) tensors.push_back(argument.tensor(like));
  Shape sizes;
  for (const Tensor& tensor : tensors) sizes = broadcast_shapes(sizes, tensor.sizes());
  for (Tensor& tensor : tensors) {
    if (tensor.sizes() != sizes) tensor = tensor.expand(sizes);
  }
  return tensors;
}

std::string formatted(const Tensor& x) {
  if (x.dim() != 0) return to_string(x);
  const Scalar value = x.detach().item();
  if (value.is_bool()) return value.to_bool() ? "True" : "False";
  return value.is_float() ? python_float(value.to_double()) : std::to_string(value.to_int());
}

std::string Constraint::kind() const {
  const std::string text = str();
  return text.substr(0, text.find('('));
}

std::ostream& operator<<(std::ostream& out, const Constraint& constraint) {
  return out << constraint.str();
}

namespace constraints {
namespace {

std::function<std::string()> called(const char* name) {
  return [name] { return std::string(name) + "()"; };
}

std::function<std::string()> with_bound(const char* name, const char* bound, const Argument& value) {
  return [=] { return std::string(name) + "(" + bound + "=" + value.str() + ")"; };
}

std::function<std::string()> with_bounds(const char* name, const Argument& lower, const Argument& upper) {
  return [=] { return std::string(name) + "(lower_bound=" + lower.str() + ", upper_bound=" + upper.str() + ")"; };
}

/// A number stays one, so that integers are compared as they are.
Tensor at_least(const Tensor& x, const Argument& bound) {
  return bound.is_number() ? x >= bound.number() : x >= bound.tensor();
}
Tensor at_most(const Tensor& x, const Argument& bound) {
  return bound.is_number() ? x <= bound.number() : x <= bound.tensor();
}
Tensor above(const Tensor& x, const Argument& bound) {
  return bound.is_number() ? x > bound.number() : x > bound.tensor();
}
Tensor below(const Tensor& x, const Argument& bound) {
  return bound.is_number() ? x < bound.number() : x < bound.tensor();
}

Tensor is_whole(const Tensor& x) {
  if (!x.is_floating_point()) return ones_like(x, {.dtype = DType::boolean});
  return eq(x - x.floor(), 0);
}

Constraint integer_greater_than(std::int64_t lower) {
  return {[lower](const Tensor& x) { return is_whole(x) & (x >= lower); },
          with_bound("IntegerGreaterThan", "lower_bound", lower), true};
}

Tensor all_of_matrix(const Tensor& fits) {
  return fits.flatten(-2).all(-1);
}

Tensor is_square(const Tensor& x) {
  Shape batch = x.sizes();
  batch.resize(batch.size() - 2);
  return full(batch, x.size(-2) == x.size(-1), {.dtype = DType::boolean, .device = x.device()});
}

Tensor is_symmetric(const Tensor& x) {
  const Tensor fits = is_square(x);
  if (!fits.all().item<bool>()) return fits;
  return all_of_matrix(isclose(x, x.mT(), {.atol = 1e-6}));
}

/// `check` of matrices that are symmetric; the others do not fit.
std::function<Tensor(const Tensor&)> if_symmetric(Tensor (*check)(const Tensor&)) {
  return [check](const Tensor& x) {
    const Tensor fits = is_symmetric(x);
    return fits.all().item<bool>() ? check(x) : fits;
  };
}

Tensor is_lower_triangular(const Tensor& x) {
  return all_of_matrix(eq(tril(x), x));
}
Tensor is_lower_cholesky(const Tensor& x) {
  return is_lower_triangular(x) & (x.diagonal(0, -2, -1) > 0).all(-1);
}

void check_dim(const Tensor& x, std::int64_t dim) {
  if (dim >= -x.dim() && dim < x.dim()) return;
  throw Error(ErrorCode::assertion,
              "dim " + std::to_string(dim) + " out of range for value with " + std::to_string(x.dim()) + " dimensions");
}

/// What several have in common.
Constraint combined(const std::vector<Constraint>& each, const char* name, std::int64_t dim) {
  Constraint result{.check = {}, .str = called(name), .parts = each, .dim = dim};
  for (const Constraint& one : each) {
    result.is_discrete = result.is_discrete || one.is_discrete;
    result.event_dim = std::max(result.event_dim, one.event_dim);
  }
  return result;
}

}  // namespace

Constraint boolean() {
  return {[](const Tensor& x) { return eq(x, 0) | eq(x, 1); }, called("Boolean"), true};
}

Constraint one_hot() {
  return {[](const Tensor& x) { return (eq(x, 0) | eq(x, 1)).all(-1) & eq(x.sum(-1), 1); }, called("OneHot"), true, 1};
}

Constraint integer_interval(const Argument& lower, const Argument& upper) {
  return {[=](const Tensor& x) { return is_whole(x) & at_least(x, lower) & at_most(x, upper); },
          with_bounds("IntegerInterval", lower, upper), true};
}

Constraint nonnegative_integer() {
  return integer_greater_than(0);
}
Constraint positive_integer() {
  return integer_greater_than(1);
}

Constraint real() {
  return {[](const Tensor& x) { return eq(x, x); }, called("Real")};
}
Constraint real_vector() {
  return independent(real(), 1);
}

Constraint positive() {
  return greater_than(0.0);
}
Constraint nonnegative() {
  return greater_than_eq(0.0);
}

Constraint greater_than(const Argument& lower) {
  return {.check = [lower](const Tensor& x) { return above(x, lower); },
          .str = with_bound("GreaterThan", "lower_bound", lower),
          .bounds = {lower}};
}
Constraint greater_than_eq(const Argument& lower) {
  return {.check = [lower](const Tensor& x) { return at_least(x, lower); },
          .str = with_bound("GreaterThanEq", "lower_bound", lower),
          .bounds = {lower}};
}
Constraint less_than(const Argument& upper) {
  return {.check = [upper](const Tensor& x) { return below(x, upper); },
          .str = with_bound("LessThan", "upper_bound", upper),
          .bounds = {upper}};
}

Constraint unit_interval() {
  return interval(0.0, 1.0);
}
Constraint interval(const Argument& lower, const Argument& upper) {
  return {.check = [=](const Tensor& x) { return at_least(x, lower) & at_most(x, upper); },
          .str = with_bounds("Interval", lower, upper),
          .bounds = {lower, upper}};
}
Constraint half_open_interval(const Argument& lower, const Argument& upper) {
  return {.check = [=](const Tensor& x) { return at_least(x, lower) & below(x, upper); },
          .str = with_bounds("HalfOpenInterval", lower, upper),
          .bounds = {lower, upper}};
}

Constraint simplex() {
  return {[](const Tensor& x) { return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6); }, called("Simplex"), false,
          1};
}

Constraint multinomial(const Argument& most) {
  return {[most](const Tensor& x) { return (x >= 0).all(-1) & at_most(x.sum(-1), most); }, called("Multinomial"), true,
          1};
}

Constraint lower_triangular() {
  return {is_lower_triangular, called("LowerTriangular"), false, 2};
}
Constraint lower_cholesky() {
  return {is_lower_cholesky, called("LowerCholesky"), false, 2};
}
Constraint corr_cholesky() {
  const auto check = [](const Tensor& x) {
    const double room = finfo(x.dtype()).eps * static_cast<double>(x.size(-1)) * 10;
    const Tensor lengths = x.detach().norm(2, -1);
    return is_lower_cholesky(x) & ((lengths - 1.0).abs() <= room).all(-1);
  };
  return {check, called("CorrCholesky"), false, 2};
}
Constraint square() {
  return {is_square, called("Square"), false, 2};
}
Constraint symmetric() {
  return {is_symmetric, called("Symmetric"), false, 2};
}
Constraint positive_semidefinite() {
  return {if_symmetric([](const Tensor& x) { return linalg::eigvalsh(x).ge(0).all(-1); }),
          called("PositiveSemidefinite"), false, 2};
}
Constraint positive_definite() {
  return {if_symmetric([](const Tensor& x) { return eq(linalg::cholesky_ex(x).info, 0); }), called("PositiveDefinite"),
          false, 2};
}

Constraint independent(const Constraint& base, std::int64_t count) {
  const auto check = [base, count](const Tensor& x) {
    const Tensor fits = base.check(x);
    if (fits.dim() < count) {
      throw Error(ErrorCode::value, "Expected value.dim() >= " + std::to_string(base.event_dim + count) + " but got " +
                                        std::to_string(x.dim()));
    }
    return count == 0 ? fits : fits.flatten(-count).all(-1);
  };
  const auto str = [base, count] { return "IndependentConstraint(" + base.str() + ", " + std::to_string(count) + ")"; };
  return {check, str, base.is_discrete, base.event_dim + count, {}, {base}, count};
}

Constraint mixture_same_family(const Constraint& base) {
  const auto check = [base](const Tensor& x) {
    const Tensor fits = base.check(x.unsqueeze(-1 - base.event_dim));
    return fits.flatten(x.dim() - base.event_dim).all(-1);
  };
  const auto str = [base] { return "MixtureSameFamilyConstraint(" + base.str() + ")"; };
  return {check, str, base.is_discrete, base.event_dim, {}, {base}};
}

Constraint stack(const std::vector<Constraint>& each, std::int64_t dim) {
  Constraint result = combined(each, "Stack", dim);
  if (dim + result.event_dim < 0) ++result.event_dim;
  result.check = [each, dim](const Tensor& x) {
    check_dim(x, dim);
    const std::vector<Tensor> slices = x.unbind(dim);
    std::vector<Tensor> fits;
    for (std::size_t i = 0; i < std::min(each.size(), slices.size()); ++i) fits.push_back(each[i].check(slices[i]));
    return core::stack(fits, dim);
  };
  return result;
}

Constraint cat(const std::vector<Constraint>& each, std::int64_t dim, const std::vector<std::int64_t>& lengths) {
  Constraint result = combined(each, "Cat", dim);
  result.lengths = lengths;
  result.check = [each, dim, lengths](const Tensor& x) {
    check_dim(x, dim);
    std::vector<Tensor> fits;
    std::int64_t start = 0;
    for (std::size_t i = 0; i < each.size(); ++i) {
      const std::int64_t length = lengths.empty() ? 1 : lengths[i];
      fits.push_back(each[i].check(x.narrow(dim, start, length)));
      start += length;
    }
    return core::cat(fits, dim);
  };
  return result;
}

}  // namespace constraints
}  // namespace core::distributions
