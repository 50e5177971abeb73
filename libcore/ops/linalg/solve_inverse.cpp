#include "libcore/ops/linalg/solve.h"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

struct Inverses {
  Tensor inverse;
  std::vector<std::int32_t> info;
};

Inverses inverses(const Tensor& a) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> left(a), right(a.sizes());
    Inverses result;
    const int n = left.rows();
    std::vector<int> pivots(static_cast<std::size_t>(n));
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      result.info.push_back(lapack::lu(n, n, left.matrix(k), pivots.data()));
      for (int i = 0; i < n; ++i) right.at(k, i, i) = 1;
      lapack::lu_solve(n, n, left.matrix(k), pivots.data(), right.matrix(k));
    }
    result.inverse = right.tensor(a.device());
    return result;
  });
}

struct InvBackward final : Node {
  std::string_view name() const override { return "LinalgInvExBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor transposed = saved(0).mT();
    return {-matmul(transposed, matmul(g[0], transposed))};
  }
};

/// The determinant's sign and the logarithm of its size, of each matrix.
struct Determinants {
  Tensor sign, log;
};

Determinants determinants(const Tensor& a) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> lu(a);
    const int n = lu.rows();
    std::vector<int> pivots(static_cast<std::size_t>(n));
    std::vector<T> sign;
    std::vector<lapack::Real<T>> log;
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      lapack::lu(n, n, lu.matrix(k), pivots.data());
      T s = 1;
      lapack::Real<T> l = 0;
      for (int i = 0; i < n; ++i) {
        const T u = lu.at(k, i, i);
        const lapack::Real<T> size = std::abs(u);
        s *= size == 0 ? T(0) : pivots[static_cast<std::size_t>(i)] != i + 1 ? -u / size : u / size;
        l += std::log(size);
      }
      sign.push_back(std::isnan(l) ? T(l) : s);
      log.push_back(l);
    }
    return Determinants{batch_tensor(sign, batch_sizes(a), a.device()), batch_tensor(log, batch_sizes(a), a.device())};
  });
}

Tensor plain_det(const Tensor& a) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> lu(a);
    const int n = lu.rows();
    std::vector<int> pivots(static_cast<std::size_t>(n));
    std::vector<T> all;
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      lapack::lu(n, n, lu.matrix(k), pivots.data());
      T value = 1;
      for (int i = 0; i < n; ++i) {
        value *= pivots[static_cast<std::size_t>(i)] != i + 1 ? -lu.at(k, i, i) : lu.at(k, i, i);
      }
      all.push_back(value);
    }
    return batch_tensor(all, batch_sizes(a), a.device());
  });
}

/// The cofactors, whatever the rank, by singular values.
Tensor cofactors(const Tensor& a) {
  const SVD f = svd(a, false);
  const Tensor side = row(f.s).expand(a.sizes());
  const Tensor eye_mask = eye(a.size(-1), {}, {.dtype = DType::boolean, .device = a.device()});
  const Tensor others = prod(masked_fill(side, eye_mask, 1), {.dims = {-1}});
  const Tensor orientation = corner(det(f.u) * det(f.vh));
  return matmul(conj(f.u) * row(others), conj(f.vh)) * orientation;
}

struct DetBackward final : Node {
  std::string_view name() const override { return "LinalgDetBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor a = saved(0), value = saved(1), singular = value.eq(0);
    if (!singular.any().item<bool>()) return {corner(g[0] * value) * inv(a).mT()};
    if (a.size(-1) == 1) return {corner(g[0]).expand(a.sizes())};
    if (is_grad_enabled()) return {corner(g[0]) * cofactors(a)};
    const Tensor one = eye(a.size(-1), {}, {.dtype = a.dtype(), .device = a.device()});
    return {corner(g[0] * value) * inv(where(corner(singular), one, a)).mT()};
  }
};

/// Of complex numbers the sign turns too: by i times the imaginary part of the trace of inv(a) times the change.
struct SlogdetBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "LinalgSlogdetBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor a = saved(0), sign = saved(1);
    const bool turns = is_complex(a) && g[0].defined();
    if (!g[1].defined() && !turns) return {zeros_like(a)};
    Tensor factor = g[1];
    if (turns) {
      const Tensor turning = imag(conj(g[0]) * sign) * complex_number(0, -1);
      factor = factor.defined() ? factor + turning : turning;
    }
    return {corner(factor) * turned(inv_ex(a).result)};
  }
};

}  // namespace

WithInfo inv_ex(const Tensor& a) {
  const core::detail::OpScope scope("linalg_inv_ex", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return inv_ex(to(a));
  check_square(a, "linalg.inv");
  check_linalg_type(a, "linalg.inv");
  Inverses found = inverses(a);
  if (needs_grad(a)) {
    auto node = make_node<InvBackward>(a);
    record(found.inverse, node);
    node->save_output(found.inverse);
  }
  return {found.inverse, info_tensor(found.info, a)};
}

Tensor inv(const Tensor& a) {
  const core::detail::OpScope scope("linalg_inv", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return inv(to(a));
  const WithInfo both = inv_ex(a);
  const std::vector<std::int64_t> info = both.info.to_vector<std::int64_t>();
  for (std::size_t k = 0; k < info.size(); ++k) {
    if (info[k] == 0) continue;
    linalg_fail("linalg.inv" + batch_text(a, k) + "The diagonal element " + std::to_string(info[k]) +
                " is zero, the inversion could not be completed because the input matrix is singular.");
  }
  return both.result;
}

Tensor det(const Tensor& a) {
  check_square(a, "linalg.det");
  check_linalg_type(a, "linalg.det");
  Tensor value = plain_det(a);
  if (!needs_grad(a)) return value;
  auto node = make_node<DetBackward>(a);
  node->save(a);
  record(value, node);
  node->save_output(value);
  return value;
}

SignAndLog slogdet(const Tensor& a) {
  check_square(a, "linalg.slogdet");
  check_linalg_type(a, "linalg.slogdet");
  Determinants found = determinants(a);
  if (!needs_grad(a)) return {found.sign, found.log};
  auto node = make_node<SlogdetBackward>(a);
  node->save(a);
  record(found.sign, node);
  record(found.log, node);
  node->save_output(found.sign);
  return {found.sign, found.log};
}

}  // namespace core::linalg

namespace core {
Tensor logdet(const Tensor& x) {
  detail::check_square(x, "logdet");
  detail::check_linalg_type(x, "logdet");
  const auto [sign, log] = linalg::slogdet(x);
  if (is_complex(x)) return core::log(sign) + log;
  const Tensor nothing = full({}, std::nan(""), {.dtype = x.dtype(), .device = x.device()});
  return where(sign.detach().eq(-1), nothing, log);
}

}  // namespace core
