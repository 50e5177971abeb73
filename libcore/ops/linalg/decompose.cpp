#include "libcore/ops/linalg/decompose.h"

#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/linalg_checks.h"
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

enum class QrMode { reduced, complete, r };

QrMode qr_mode(const std::string& mode) {
  if (mode == "reduced") return QrMode::reduced;
  if (mode == "complete") return QrMode::complete;
  if (mode == "r") return QrMode::r;
  linalg_fail("qr received unrecognized mode '" + mode +
              "' but expected one of 'reduced' (default), 'r', or 'complete'");
}

QR qr_factors(const Tensor& a, QrMode mode) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> work(a);
    const int m = work.rows(), n = work.columns(), k = std::min(m, n), wide = mode == QrMode::complete ? m : k;
    Columns<T> q(with_sizes(batch_sizes(a), {m, wide})), r(with_sizes(batch_sizes(a), {wide, n}));
    std::vector<T> tau(static_cast<std::size_t>(std::max(1, k)));
    for (std::size_t b = 0; b < batch_count(a); ++b) {
      lapack::qr(m, n, work.matrix(b), tau.data());
      for (int j = 0; j < n; ++j) {
        for (int i = 0; i <= std::min(j, wide - 1); ++i) r.at(b, i, j) = work.at(b, i, j);
      }
      for (int j = 0; j < std::min(n, wide); ++j) {
        for (int i = 0; i < m; ++i) q.at(b, i, j) = work.at(b, i, j);
      }
      lapack::make_q(m, wide, k, q.matrix(b), tau.data());
    }
    const Tensor none = empty({0}, {.dtype = a.dtype(), .device = a.device()});
    return QR{mode == QrMode::r ? none : q.tensor(a.device()), r.tensor(a.device())};
  });
}

/// x + x^H with the diagonal, of which only real parts count, once.
Tensor symmetric_once(const Tensor& x) {
  return x + turned(x) - diag_embed(real(x.diagonal(0, -2, -1)));
}

struct QrBackward final : Node, FollowsConvention {
  QrMode mode = QrMode::reduced;
  std::string_view name() const override { return "LinalgQrBackward0"; }
  TensorList apply(TensorList g) override {
    if (mode == QrMode::r) {
      linalg_fail(
          "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
          "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.");
    }
    const Tensor q = saved(0), r = saved(1);
    const std::int64_t m = q.size(-2), n = r.size(-1);
    if (mode == QrMode::complete && m > n) {
      linalg_fail("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.");
    }
    Tensor up_q = g[0].defined() ? g[0] : zeros_like(q), up_r = g[1].defined() ? g[1] : zeros_like(r);
    if (m >= n) return {tall(q, r, up_q, up_r)};
    // a = (x | y) with x square: y = q v.
    const Tensor u = r.narrow(-1, 0, m), v = r.narrow(-1, m, n - m), up_v = up_r.narrow(-1, m, n - m);
    const Tensor y = matmul(q, v);
    const Tensor up_x = tall(q, u, up_q + matmul(y, turned(up_v)), up_r.narrow(-1, 0, m));
    return {cat(std::vector<Tensor>{up_x, matmul(q, up_v)}, -1)};
  }

 private:
  static Tensor tall(const Tensor& q, const Tensor& r, const Tensor& up_q, const Tensor& up_r) {
    const Tensor middle = triu(matmul(up_r, turned(r)) - matmul(turned(q), up_q));
    return solve_triangular(turned(r), up_q + matmul(q, symmetric_once(middle)), {.upper = false, .left = false});
  }
};

SVD svd_factors(const Tensor& a, char job) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> work(a);
    const int m = work.rows(), n = work.columns(), k = std::min(m, n);
    const int u_columns = job == 'A' ? m : job == 'S' ? k : 0, vh_rows = job == 'A' ? n : job == 'S' ? k : 0;
    const Shape batch = batch_sizes(a);
    Columns<T> u(with_sizes(batch, {m, u_columns})), vh(with_sizes(batch, {vh_rows, n}));
    std::vector<lapack::Real<T>> s(static_cast<std::size_t>(k) * batch_count(a));
    for (std::size_t b = 0; b < batch_count(a); ++b) {
      auto* values = s.data() + b * static_cast<std::size_t>(k);
      if (k == 0) {  // LAPACK leaves these alone
        for (int i = 0; i < std::min(u_columns, m); ++i) u.at(b, i, i) = 1;
        for (int i = 0; i < std::min(vh_rows, n); ++i) vh.at(b, i, i) = 1;
        continue;
      }
      const bool finite = isfinite(a.detach()).all().template item<bool>();
      if (!finite || lapack::svd<T>(job, m, n, {work.matrix(b), values, u.matrix(b), vh.matrix(b), vh_rows}) != 0) {
        linalg_fail("linalg.svd" + batch_text(a, b) +
                    (finite
                         ? "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
                           "many repeated singular values (error code: 1)."
                         : "The algorithm failed to converge because the input matrix contained non-finite values."));
      }
    }
    return SVD{u.tensor(a.device()), batch_tensor(s, with_sizes(batch, {k}), a.device()), vh.tensor(a.device())};
  });
}

struct SvdBackward final : Node, FollowsConvention {
  bool values_alone = false;
  std::string_view name() const override { return "LinalgSvdBackward0"; }
  TensorList apply(TensorList g) override {
    if (values_alone) {
      const SVD f = svd(saved(0), false);
      return {matmul(f.u * row(g[0]), f.vh)};
    }
    const Tensor s = saved(1);
    const std::int64_t k = s.size(-1);
    const Tensor u = saved(0).narrow(-1, 0, k), v = turned(saved(2).narrow(-2, 0, k));
    if (!g[0].defined() && !g[2].defined()) return {matmul(u * row(g[1]), turned(v))};
    Tensor inner = g[1].defined() ? diag_embed(g[1]) : zeros(with_sizes(batch_of(s), {k, k}), like(s));
    check_phases(u, v, g);
    const Tensor gaps = differences(s * s);
    const Tensor of_u = g[0].defined() ? skew(matmul(turned(u), g[0].narrow(-1, 0, k))) : Tensor();
    if (of_u.defined()) inner = inner + of_u / gaps * row(s);
    const Tensor up_v = g[2].defined() ? turned(g[2].narrow(-2, 0, k)) : Tensor();
    if (up_v.defined()) inner = inner + column(s) * (skew(matmul(turned(v), up_v)) / gaps);
    if (of_u.defined() && up_v.defined() && is_complex(u)) {  // both turn by one phase
      inner = inner + diag_embed(of_u.diagonal(0, -2, -1) / (s * 2));
    }
    Tensor result = matmul(matmul(u, inner), turned(v));
    if (g[0].defined() && u.size(-2) > k) {
      const Tensor up = g[0].narrow(-1, 0, k) / row(s);
      result = result + matmul(up - matmul(u, matmul(turned(u), up)), turned(v));
    }
    if (up_v.defined() && v.size(-2) > k) {
      const Tensor up = up_v / row(s);
      result = result + matmul(u, turned(up - matmul(v, matmul(turned(v), up))));
    }
    return {result};
  }

 private:
  static Tensor skew(const Tensor& x) { return x - turned(x); }
  /// The factor e^i of a column of u and v is anything: a loss must not depend on it.
  static void check_phases(const Tensor& u, const Tensor& v, const TensorList& g) {
    if (!is_complex(u)) return;
    const std::int64_t k = u.size(-1);
    Tensor all = zeros({}, like(u));
    if (g[0].defined()) all = all + matmul(turned(u), g[0].narrow(-1, 0, k));
    if (g[2].defined()) all = all + matmul(turned(v), turned(g[2].narrow(-2, 0, k)));
    check_phase(all, "svd_backward: The singular vectors", "phase term, making it ill-defined.");
  }
  static TensorOptions like(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }
  static Shape batch_of(const Tensor& s) {
    Shape sizes;
    for (std::int64_t d = 0; d + 1 < s.dim(); ++d) sizes.push_back(s.size(d));
    return sizes;
  }
};

Eigen eigen_factors(const Tensor& a, const std::string& uplo) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> vectors(a);
    const int n = vectors.rows();
    std::vector<lapack::Real<T>> values(static_cast<std::size_t>(n) * batch_count(a));
    for (std::size_t b = 0; b < batch_count(a); ++b) {
      const int info =
          n == 0 ? 0
                 : lapack::eigh('V', uplo[0], n, vectors.matrix(b), values.data() + b * static_cast<std::size_t>(n));
      if (info == 0) continue;
      linalg_fail("linalg.eigh" + batch_text(a, b) +
                  "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
                  "repeated eigenvalues (error code: " +
                  std::to_string(info) + ").");
    }
    return Eigen{batch_tensor(values, with_sizes(batch_sizes(a), {n}), a.device()), vectors.tensor(a.device())};
  });
}

struct EighBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "LinalgEighBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor values = saved(0), v = saved(1);
    if (!g[1].defined()) return {matmul(v * row(g[0]), turned(v))};
    const Tensor seen = matmul(turned(v), g[1]);
    if (is_complex(v)) {
      check_phase(seen, "linalg_eigh_backward: The eigenvectors", "quantity, so it is ill-defined.");
    }
    const Tensor turning = (seen - turned(seen)) * 0.5;  // vectors stay at right angles
    Tensor inner = (turning - diag_embed(turning.diagonal(0, -2, -1))) / differences(values);
    if (g[0].defined()) inner = inner + diag_embed(g[0]);
    return {matmul(v, matmul(inner, turned(v)))};
  }
};

std::string checked_uplo(const std::string& uplo) {
  if (uplo == "L" || uplo == "l") return "L";
  if (uplo == "U" || uplo == "u") return "U";
  linalg_fail("Expected UPLO argument to be 'L' or 'U', but got " + uplo);
}

}  // namespace

QR qr(const Tensor& a, const std::string& mode) {
  const core::detail::OpScope scope("linalg_qr", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return qr(to(a), mode);
  const QrMode how = qr_mode(mode);
  check_matrix(a, "linalg.qr");
  check_linalg_type(a, "linalg.qr");
  QR f = qr_factors(a, how);
  if (!needs_grad(a)) return f;
  auto node = make_node<QrBackward>(a);
  node->mode = how;
  record(f.q, node);
  record(f.r, node);
  node->save_output(f.q);
  node->save_output(f.r);
  return f;
}

SVD svd(const Tensor& a, bool full_matrices) {
  const core::detail::OpScope scope("linalg_svd", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return svd(to(a), full_matrices);
  check_matrix(a, "linalg.svd");
  check_linalg_type(a, "linalg.svd");
  SVD f = svd_factors(a, full_matrices ? 'A' : 'S');
  if (!needs_grad(a)) return f;
  auto node = make_node<SvdBackward>(a);
  for (Tensor* part : {&f.u, &f.s, &f.vh}) record(*part, node);
  for (const Tensor* part : {&f.u, &f.s, &f.vh}) node->save_output(*part);
  return f;
}

Tensor svdvals(const Tensor& a) {
  const core::detail::OpScope scope("linalg_svdvals", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return svdvals(to(a));
  check_matrix(a, "linalg.svd");
  check_linalg_type(a, "linalg.svd");
  Tensor s = svd_factors(a, 'N').s;
  if (!needs_grad(a)) return s;
  auto node = make_node<SvdBackward>(a);
  node->values_alone = true;
  node->save(a);
  record(s, node);
  return s;
}

Eigen eigh(const Tensor& a, const std::string& uplo) {
  const core::detail::OpScope scope("linalg_eigh", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return eigh(to(a), uplo);
  check_square(a, "linalg.eigh");
  const std::string triangle = checked_uplo(uplo);
  if (!is_floating(a.dtype()) && !is_lapack_type(a.dtype())) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"linalg_eigh_cpu\" not implemented for '") + scalar_type_name(a.dtype()) + "'");
  }
  Eigen f = eigen_factors(a, triangle);
  if (!needs_grad(a)) return f;
  auto node = make_node<EighBackward>(a);
  record(f.values, node);
  record(f.vectors, node);
  node->save_output(f.values);
  node->save_output(f.vectors);
  return f;
}

Tensor eigvalsh(const Tensor& a, const std::string& uplo) {
  const core::detail::OpScope scope("linalg_eigvalsh", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return eigvalsh(to(a), uplo);
  return eigh(a, uplo).values;
}

}  // namespace core::linalg
