// LU factors, tensors as matrices, eigenvalues of any square matrix, products of reflections, the exponential.
#include <cmath>

#include "libcore/autograd/composed.h"
#include "libcore/autograd/linalg_common.h"
#include "libcore/tensor/more_ops.h"
#include "libcore/tensor/shape_ops.h"

namespace core {
namespace linalg {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the file's own helpers

void check_factorable(const Tensor& a, const char* name) {
  if (a.dim() < 2) {
    linalg_fail(std::string(name) + ": Expected tensor with 2 or more dimensions. Got size: " + to_list(a.sizes()) +
                " instead");
  }
  if (a.dtype() == DType::f32 || a.dtype() == DType::f64) return;
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

/// Which row of the identity stands in each row of P, for P of `rows` rows: int64.
Tensor row_order(const Tensor& pivots, std::int64_t rows) {
  const std::vector<std::int64_t> swaps = pivots.to_vector<std::int64_t>();
  const std::int64_t k = pivots.size(-1), count = k == 0 ? 1 : pivots.numel() / k;
  std::vector<std::int64_t> order;
  for (std::int64_t b = 0; b < count; ++b) {
    std::vector<std::int64_t> from(static_cast<std::size_t>(rows)), place(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int64_t>(i);
    for (std::int64_t i = 0; i < k; ++i) {
      std::swap(from[static_cast<std::size_t>(i)],
                from[static_cast<std::size_t>(swaps[static_cast<std::size_t>(b * k + i)] - 1)]);
    }
    for (std::size_t i = 0; i < from.size(); ++i)
      place[static_cast<std::size_t>(from[i])] = static_cast<std::int64_t>(i);
    order.insert(order.end(), place.begin(), place.end());
  }
  Shape sizes = pivots.sizes();
  sizes[sizes.size() - 1] = rows;
  return batch_tensor(order, sizes, pivots.device());
}

/// P of a = P L U, in the dtype of `like`.
Tensor permutation(const Tensor& pivots, std::int64_t rows, const Tensor& like) {
  return one_hot(row_order(pivots, rows), rows).to(like.dtype());
}

Tensor lower_factor(const Tensor& lu) {
  const std::int64_t k = std::min(lu.size(-1), lu.size(-2));
  const Tensor one = eye(lu.size(-2), k, {.dtype = lu.dtype(), .device = lu.device()});
  return tril(lu.narrow(-1, 0, k), -1) + one;
}
Tensor upper_factor(const Tensor& lu) {
  return triu(lu.narrow(-2, 0, std::min(lu.size(-1), lu.size(-2))));
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

void check_complex_result(const Tensor& a, const char* name) {
  if (!is_floating(a.dtype())) {
    linalg_fail(std::string("Unknown Complex ScalarType for ") + scalar_type_name(a.dtype()));
  }
  check_square(a, "linalg.eig");
  if (a.dtype() != DType::f32 && a.dtype() != DType::f64) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"linalg_eig_out_cpu\" not implemented for '") + scalar_type_name(a.dtype()) + "'");
  }
  if (!isfinite(a.detach()).all().item<bool>()) {
    linalg_fail("torch.linalg.eig: input tensor should not contain infs or NaNs.");
  }
  if (!needs_grad(a)) return;
  throw Error(ErrorCode::not_implemented,
              std::string("linalg.") + name +
                  ": eigenvalues of matrices that are not symmetric are complex, and complex tensors have no gradients "
                  "here; use eigh, or detach() the matrix");
}

/// Values, and vectors where wanted, as pairs of numbers: (..., n, 2) and (..., n, n, 2).
template <class T>
Eigen eigen_pairs(const Tensor& a, bool wants_vectors) {
  Columns<T> work(a), columns(wants_vectors ? a.sizes() : Shape{0, 0});
  const auto n = static_cast<std::size_t>(work.rows());
  std::vector<T> values, vectors(wants_vectors ? 2 * n * n * batch_count(a) : 0), real(n), imaginary(n);
  for (std::size_t b = 0; b < batch_count(a); ++b) {
    T* of_batch = wants_vectors ? columns.matrix(b) : nullptr;
    const int info = n == 0 ? 0 : lapack::eig(work.rows(), work.matrix(b), real.data(), imaginary.data(), of_batch);
    if (info != 0) {
      linalg_fail("linalg.eig" + batch_text(a, b) +
                  "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
                  "repeated eigenvalues (error code: " +
                  std::to_string(info) + ").");
    }
    for (std::size_t j = 0; j < n; ++j) values.insert(values.end(), {real[j], imaginary[j]});
    for (std::size_t j = 0; wants_vectors && j < n; ++j) {
      const bool first = imaginary[j] > 0, second = imaginary[j] < 0;
      for (std::size_t i = 0; i < n; ++i) {
        T* to = vectors.data() + 2 * ((b * n + i) * n + j);
        to[0] = of_batch[(second ? j - 1 : j) * n + i];
        to[1] = first ? of_batch[(j + 1) * n + i] : second ? -of_batch[j * n + i] : T(0);
      }
    }
  }
  const auto size = static_cast<std::int64_t>(n);
  const auto as_complex = [&](const std::vector<T>& pairs, const Shape& sizes) {
    constexpr DType kComplex = sizeof(T) == 8 ? DType::c128 : DType::c64;
    return from_bytes(std::as_bytes(std::span<const T>(pairs)), sizes, kComplex, {.device = a.device()});
  };
  return {as_complex(values, with_sizes(batch_sizes(a), {size})),
          wants_vectors ? as_complex(vectors, a.sizes()) : Tensor()};
}

Eigen eigen(const Tensor& a, bool wants_vectors) {
  if (a.dtype() == DType::f64) return eigen_pairs<double>(a, wants_vectors);
  return eigen_pairs<float>(a, wants_vectors);
}

Tensor reflected_by_lapack(const Tensor& reflectors, const Tensor& tau) {
  return in_linalg_type(reflectors, [&]<class T>() {
    Columns<T> q(reflectors);
    const std::vector<T> factors = tau.detach().to_vector<T>();
    const auto count = static_cast<std::size_t>(tau.size(-1));
    for (std::size_t b = 0; b < batch_count(reflectors); ++b) {
      lapack::make_q(q.rows(), q.columns(), static_cast<int>(count), q.matrix(b), factors.data() + b * count);
    }
    return q.tensor(reflectors.device());
  });
}

/// The same by operations that have derivatives.
Tensor reflected(const Tensor& reflectors, const Tensor& tau) {
  const std::int64_t m = reflectors.size(-2), n = reflectors.size(-1);
  const TensorOptions made{.dtype = reflectors.dtype(), .device = reflectors.device()};
  const Tensor vectors = tril(reflectors, -1) + eye(m, n, made);
  Tensor q = eye(m, n, made).expand(reflectors.sizes());
  for (std::int64_t i = tau.size(-1) - 1; i >= 0; --i) {
    const Tensor v = vectors.narrow(-1, i, 1);
    q = q - corner(tau.select(-1, i)) * matmul(v, matmul(v.mT(), q));
  }
  return q;
}

void check_reflections(const Tensor& reflectors, const Tensor& tau) {
  const std::string name = "torch.linalg.householder_product: ";
  if (reflectors.dim() < 2) linalg_fail(name + "input must have at least 2 dimensions.");
  if (reflectors.size(-2) < reflectors.size(-1)) {
    linalg_fail(name + "input.shape[-2] must be greater than or equal to input.shape[-1]");
  }
  if (reflectors.size(-1) < tau.size(-1)) {
    linalg_fail(name + "input.shape[-1] must be greater than or equal to tau.shape[-1]");
  }
  if (tau.dtype() == reflectors.dtype()) return;
  linalg_fail(name + "tau dtype " + scalar_type_name(tau.dtype()) + " does not match input dtype " +
              scalar_type_name(reflectors.dtype()));
}

/// sum of x^k / k! for k to 16, in six products: four terms at a time.
Tensor exponential_series(const Tensor& x) {
  const Tensor one = eye(x.size(-1), {}, {.dtype = x.dtype(), .device = x.device()}).expand(x.sizes());
  const Tensor x2 = matmul(x, x), x3 = matmul(x2, x), x4 = matmul(x2, x2);
  double factorial[17] = {1};
  for (int k = 1; k < 17; ++k) factorial[k] = factorial[k - 1] * k;
  Tensor result = x4 * (1 / factorial[16]);
  for (int k = 12; k >= 0; k -= 4) {
    result = result + one * (1 / factorial[k]) + x * (1 / factorial[k + 1]) + x2 * (1 / factorial[k + 2]) +
             x3 * (1 / factorial[k + 3]);
    if (k > 0) result = matmul(x4, result);
  }
  return result;
}

/// Halved until the series is exact (1-norms to 0.7 leave 0.7^17 / 17! out), then squared as often.
Tensor exponential(const Tensor& a) {
  if (a.numel() == 0) return a.clone();
  const double norm = a.detach().abs().sum(Shape{-2}).max().item<double>();
  int halvings = 0;
  if (std::isfinite(norm) && norm > 0.7) halvings = static_cast<int>(std::ceil(std::log2(norm / 0.7)));
  Tensor result = exponential_series(a * std::ldexp(1.0, -halvings));
  for (int i = 0; i < halvings; ++i) result = matmul(result, result);
  return result;
}

std::int64_t product(const Shape& sizes, std::size_t from, std::size_t to) {
  std::int64_t all = 1;
  for (std::size_t i = from; i < to; ++i) all *= sizes[i];
  return all;
}
Shape part(const Shape& sizes, std::size_t from, std::size_t to) {
  Shape some;
  for (std::size_t i = from; i < to; ++i) some.push_back(sizes[i]);
  return some;
}

}  // namespace

LU lu(const Tensor& a) {
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

Tensor lu_solve(const LUFactors& factors, const Tensor& b, const LuSolveOptions& o) {
  check_square(factors.lu, "torch.linalg.lu_solve");
  check_equation(factors.lu, b, "linalg.lu_solve", o.left);
  const Tensor p = permutation(factors.pivots, factors.lu.size(-2), factors.lu);
  return composed("LinalgLuSolveBackward0", {factors.lu, b}, [p, o](const TensorList& in) {
    const Tensor l = lower_factor(in[0]), u = upper_factor(in[0]), right = o.left ? in[1] : in[1].mT();
    const TriangularOptions lower{.upper = false, .unitriangular = true}, upper{.upper = true};
    const TriangularOptions lower_turned{.upper = true, .unitriangular = true}, upper_turned{.upper = false};
    const Tensor x =
        o.adjoint == o.left  // the equation as written, or both sides turned, with a^T
            ? matmul(p, solve_triangular(l.mT(), solve_triangular(u.mT(), right, upper_turned), lower_turned))
            : solve_triangular(u, solve_triangular(l, matmul(p.mT(), right), lower), upper);
    return o.left ? x : x.mT();
  });
}

Eigen eig(const Tensor& a) {
  check_matrix(a, "linalg.eig");
  check_complex_result(a, "eig");
  return eigen(a, true);
}

Tensor eigvals(const Tensor& a) {
  check_matrix(a, "linalg.eig");
  check_complex_result(a, "eigvals");
  return eigen(a, false).values;
}

Tensor householder_product(const Tensor& reflectors, const Tensor& tau) {
  check_reflections(reflectors, tau);
  check_linalg_type(reflectors, "linalg.householder_product");
  const Tensor known = reflected_by_lapack(reflectors.detach(), tau);
  return composed("LinalgHouseholderProductBackward0", {reflectors, tau},
                  [known](const TensorList& in) { return is_grad_enabled() ? reflected(in[0], in[1]) : known; });
}

Tensor matrix_exp(const Tensor& a) {
  check_square(a, "linalg.matrix_exp");
  check_linalg_type(a, "linalg.matrix_exp");
  return composed("LinalgMatrixExpBackward0", {a}, [](const TensorList& in) { return exponential(in[0]); });
}

Tensor tensorsolve(const Tensor& a, const Tensor& b, const Shape& dims) {
  Tensor turned = a;
  if (!dims.empty()) {
    Shape end;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      end.push_back(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(dims.size()));
    }
    turned = movedim(a, dims, end);
  }
  const Shape& sizes = turned.sizes();
  const auto known = std::min(static_cast<std::size_t>(b.dim()), sizes.size());
  const std::int64_t rows = product(sizes, 0, known), columns = product(sizes, known, sizes.size());
  if (rows != columns) {
    linalg_fail(
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
        "but got " +
        std::to_string(columns) + " != " + std::to_string(rows));
  }
  return solve(turned.reshape({rows, columns}), b.flatten()).reshape(part(sizes, known, sizes.size()));
}

Tensor tensorinv(const Tensor& a, std::int64_t ind) {
  if (ind <= 0) linalg_fail("Expected a strictly positive integer for 'ind', but got " + std::to_string(ind));
  const Shape& sizes = a.sizes();
  const auto known = std::min(static_cast<std::size_t>(ind), sizes.size());
  const std::int64_t rows = product(sizes, 0, known), columns = product(sizes, known, sizes.size());
  if (rows != columns) {
    linalg_fail("Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got " +
                std::to_string(columns) + " != " + std::to_string(rows));
  }
  Shape result = part(sizes, known, sizes.size());
  for (std::size_t i = 0; i < known; ++i) result.push_back(sizes[i]);
  return inv(a.reshape({rows, columns})).reshape(result);
}

}  // namespace linalg

Reflections geqrf(const Tensor& a) {
  if (a.dim() < 2) detail::linalg_fail("torch.geqrf: input must have at least 2 dimensions.");
  detail::check_linalg_type(a, "geqrf");
  return detail::in_linalg_type(a, [&]<class T>() {
    detail::Columns<T> work(a);
    const int m = work.rows(), n = work.columns();
    const auto k = static_cast<std::size_t>(std::min(m, n));
    std::vector<T> tau(k * detail::batch_count(a));
    for (std::size_t b = 0; b < detail::batch_count(a); ++b) lapack::qr(m, n, work.matrix(b), tau.data() + b * k);
    const Shape sizes = detail::with_sizes(detail::batch_sizes(a), {static_cast<std::int64_t>(k)});
    return Reflections{work.tensor(a.device()), detail::batch_tensor(tau, sizes, a.device())};
  });
}

}  // namespace core
