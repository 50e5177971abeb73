#include "libcore/ops/linalg/decompose.h"

#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

struct Factors {
  Tensor lower;
  std::vector<std::int32_t> info;
};

Factors cholesky_factors(const Tensor& a) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> factor(a);
    Factors result;
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      result.info.push_back(lapack::cholesky('L', factor.rows(), factor.matrix(k)));
    }
    result.lower = raw::alias(tril(factor.tensor(a.device())));
    return result;
  });
}

struct CholeskyBackward final : Node, FollowsConvention {
  bool upper = false;
  std::string_view name() const override { return "LinalgCholeskyExBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor factor = upper ? turned(saved(0)) : saved(0), up = upper ? turned(g[0]) : g[0];
    const Tensor lower = tril(matmul(turned(factor), up));
    const TriangularOptions above{.upper = true}, from_right{.upper = false, .left = false};
    const Tensor inner = (lower + turned(tril(lower, -1))) * 0.5;
    return {solve_triangular(factor, solve_triangular(turned(factor), inner, above), from_right)};
  }
};

}  // namespace

WithInfo cholesky_ex(const Tensor& a, bool upper) {
  const core::detail::OpScope scope("linalg_cholesky_ex", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return cholesky_ex(to(a), upper);
  check_square(a, "linalg.cholesky");
  check_linalg_type(a, "linalg.cholesky");
  const NoGradGuard no_copy_history;
  Factors found = cholesky_factors(upper ? turned(a) : a);
  return {upper ? turned(found.lower).contiguous() : found.lower, info_tensor(found.info, a)};
}

Tensor cholesky(const Tensor& a, bool upper) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return cholesky(to(a), upper);
  const WithInfo both = cholesky_ex(a, upper);
  const std::vector<std::int64_t> info = both.info.to_vector<std::int64_t>();
  for (std::size_t k = 0; k < info.size(); ++k) {
    if (info[k] == 0) continue;
    linalg_fail("linalg.cholesky" + batch_text(a, k) +
                "The factorization could not be completed because the input is not positive-definite (the leading "
                "minor of order " +
                std::to_string(info[k]) + " is not positive-definite).");
  }
  Tensor factor = both.result;
  if (!needs_grad(a)) return factor;
  auto node = make_node<CholeskyBackward>(a);
  node->upper = upper;
  record(factor, node);
  node->save_output(factor);
  return factor;
}

}  // namespace core::linalg
