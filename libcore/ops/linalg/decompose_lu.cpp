#include "libcore/ops/linalg/decompose.h"

#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/detail/lu_factors.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

void check_factorable(const Tensor& a, const char* name) {
  if (a.dim() < 2) {
    linalg_fail(std::string(name) + ": Expected tensor with 2 or more dimensions. Got size: " + to_list(a.sizes()) +
                " instead");
  }
  if (is_lapack_type(a.dtype())) return;
  throw Error(ErrorCode::not_implemented,
              std::string("\"lu_cpu\" not implemented for '") + scalar_type_name(a.dtype()) + "'");
}

LUFactorsInfo factors_of(const Tensor& a) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> work(a);
    const int m = work.rows(), n = work.columns(), k = std::min(m, n);
    std::vector<std::int32_t> pivots(static_cast<std::size_t>(k) * batch_count(a)), info;
    for (std::size_t b = 0; b < batch_count(a); ++b) {
      info.push_back(lapack::lu(m, n, work.matrix(b), pivots.data() + b * static_cast<std::size_t>(k)));
    }
    return LUFactorsInfo{work.tensor(a.device()), batch_tensor(pivots, with_sizes(batch_sizes(a), {k}), a.device()),
                         batch_tensor(info, batch_sizes(a), a.device())};
  });
}

/// The gradient of a = p @ l @ u, from those of l and u (either may be undefined). Of what is not square the square
/// part goes first, and what lies beyond it is l2 = a2 u^-1 (below) or u2 = l^-1 a2 (to the right).
Tensor lu_gradient(const Tensor& p, const LU& f, const Tensor& up_l, const Tensor& up_u) {
  const std::int64_t m = f.l.size(-2), n = f.u.size(-1), k = std::min(m, n);
  const Tensor l = f.l.narrow(-2, 0, k), u = f.u.narrow(-1, 0, k);
  const TriangularOptions over_u{.upper = false, .left = false}, under_l{.upper = true, .unitriangular = true};
  Tensor inner = zeros_like(l), beyond;
  if (up_l.defined()) inner = inner + tril(matmul(l.mT(), up_l.narrow(-2, 0, k)), -1);
  if (up_u.defined()) inner = inner + triu(matmul(up_u.narrow(-1, 0, k), u.mT()));
  if (m > k && up_l.defined()) {
    const Tensor up = up_l.narrow(-2, k, m - k);
    inner = inner - triu(matmul(f.l.narrow(-2, k, m - k).mT(), up));
    beyond = solve_triangular(u.mT(), up, over_u);
  }
  if (n > k && up_u.defined()) {
    const Tensor up = up_u.narrow(-1, k, n - k);
    inner = inner - tril(matmul(up, f.u.narrow(-1, k, n - k).mT()), -1);
    beyond = solve_triangular(l.mT(), up, under_l);
  }
  Tensor whole = solve_triangular(l.mT(), solve_triangular(u.mT(), inner, over_u), under_l);
  if (m != n) {
    const Shape rest = with_sizes(batch_sizes(whole), {m > n ? m - k : k, m > n ? k : n - k});
    if (!beyond.defined()) beyond = zeros(rest, {.dtype = whole.dtype(), .device = whole.device()});
    whole = cat(std::vector<Tensor>{whole, beyond}, m > n ? -2 : -1);
  }
  return matmul(p, whole);
}

struct LuBackward final : Node {
  std::string_view name() const override { return "LinalgLuBackward0"; }
  TensorList apply(TensorList g) override {
    return {lu_gradient(saved(0), {saved(0), saved(1), saved(2)}, g[0], g[1])};
  }
};

struct LuFactorBackward final : Node {
  std::string_view name() const override { return "LinalgLuFactorExBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor lu = saved(0), p = permutation(saved(1), lu.size(-2), lu);
    const std::int64_t k = std::min(lu.size(-1), lu.size(-2));
    return {lu_gradient(p, {p, lower_factor(lu), upper_factor(lu)}, tril(g[0].narrow(-1, 0, k), -1),
                        triu(g[0].narrow(-2, 0, k)))};
  }
};

}  // namespace

LU lu(const Tensor& a) {
  const core::detail::OpScope scope("linalg_lu", a);
  check_factorable(a, "linalg.lu");
  const LUFactorsInfo f = factors_of(a);
  LU result{permutation(f.pivots, a.size(-2), f.lu), lower_factor(f.lu), upper_factor(f.lu)};
  if (!needs_grad(a)) return result;
  auto node = make_node<LuBackward>(a);
  record(result.l, node);
  record(result.u, node);
  node->save(result.p);
  node->save_output(result.l);
  node->save_output(result.u);
  return result;
}

LUFactorsInfo lu_factor_ex(const Tensor& a) {
  const core::detail::OpScope scope("linalg_lu_factor_ex", a);
  check_factorable(a, "torch.lu_factor");
  LUFactorsInfo f = factors_of(a);
  if (!needs_grad(a)) return f;
  auto node = make_node<LuFactorBackward>(a);
  record(f.lu, node);
  node->save_output(f.lu);
  node->save(f.pivots);
  return f;
}

LUFactors lu_factor(const Tensor& a) {
  const LUFactorsInfo f = lu_factor_ex(a);
  const std::vector<std::int64_t> info = f.info.to_vector<std::int64_t>();
  for (std::size_t b = 0; b < info.size(); ++b) {
    if (info[b] == 0) continue;
    const std::string at = std::to_string(info[b]);
    linalg_fail("torch.linalg.lu_factor" + batch_text(a, b) + "U[" + at + "," + at +
                "] is zero and using it on lu_solve would result in a division by zero. If you still want to perform "
                "the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)");
  }
  return {f.lu, f.pivots};
}

}  // namespace core::linalg

namespace core {
namespace {

void check_unpack(const Tensor& lu, const Tensor& pivots) {
  if (lu.dim() < 2) {
    detail::linalg_fail("torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: " + to_list(lu.sizes()) +
                        " instead");
  }
  if (pivots.dtype() != DType::i32) {
    detail::linalg_fail(
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function "
        "is intended to be used with the output produced by torch.linalg.lu_factor");
  }
  const Shape wanted = detail::with_sizes(detail::batch_sizes(lu), {std::min(lu.size(-1), lu.size(-2))});
  if (pivots.sizes() != wanted) {
    throw Error(ErrorCode::value, "Expected LU_pivots to have shape " + to_list(wanted) + " but got " +
                                      to_list(pivots.sizes()) + " instead.");
  }
  for (const std::int64_t row : pivots.to_vector<std::int64_t>()) {
    if (row >= 1 && row <= lu.size(-2)) continue;
    detail::linalg_fail(
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of "
        "lu_factor?");
  }
}

}  // namespace

linalg::LU lu_unpack(const Tensor& lu, const Tensor& pivots, bool unpack_data, bool unpack_pivots) {
  if (unpack_pivots || unpack_data) check_unpack(lu, pivots);
  const Tensor none = empty({0}, {.dtype = lu.dtype(), .device = lu.device()});
  linalg::LU parts{none, none, none};
  if (unpack_pivots) parts.p = detail::permutation(pivots, lu.size(-2), lu);
  if (!unpack_data) return parts;
  const TensorList factors = composed_many("LuUnpackBackward0", {lu}, [](const TensorList& in) {
    return TensorList{detail::lower_factor(in[0]), detail::upper_factor(in[0])};
  });
  parts.l = factors[0];
  parts.u = factors[1];
  return parts;
}

}  // namespace core
