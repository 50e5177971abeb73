// Inverses, determinants, systems of equations, Cholesky's factorisation.
#include <cmath>

#include "libcore/autograd/linalg_common.h"
#include "libcore/tensor/math_ops.h"
#include "libcore/tensor/more_ops.h"
#include "libcore/tensor/shape_ops.h"

namespace core {
namespace detail {

void check_matrix(const Tensor& a, const char* name) {
  if (a.dim() < 2) linalg_fail(std::string(name) + ": The input tensor A must have at least 2 dimensions.");
}

void check_square(const Tensor& a, const char* name) {
  check_matrix(a, name);
  if (a.size(-1) == a.size(-2)) return;
  linalg_fail(std::string(name) + ": A must be batches of square matrices, but they are " + std::to_string(a.size(-2)) +
              " by " + std::to_string(a.size(-1)) + " matrices");
}

void check_linalg_type(const Tensor& a, const char* name, bool allow_low) {
  if (a.dtype() == DType::f32 || a.dtype() == DType::f64) return;
  const bool low = is_floating(a.dtype());
  if (low && allow_low) return;
  const std::string type = scalar_type_name(a.dtype());
  if (is_complex(a.dtype())) {
    throw Error(ErrorCode::not_implemented, "\"" + std::string(name) + "\" not implemented for '" + type + "'");
  }
  throw Error(ErrorCode::not_implemented, std::string(name) +
                                              (low ? ": Low precision dtypes not supported. Got "
                                                   : ": Expected a floating point or complex tensor as input. Got ") +
                                              type);
}

void check_equation(const Tensor& a, const Tensor& b, const char* name, bool left) {
  if (a.dtype() != b.dtype()) {
    linalg_fail(std::string(name) + ": Expected A and B to have the same dtype, but found A of type " +
                scalar_type_name(a.dtype()) + " and B of type " + scalar_type_name(b.dtype()) + " instead");
  }
  if (a.size(-1) == b.size(left ? -2 : -1)) return;
  const auto by = [](const Tensor& x) { return std::to_string(x.size(-2)) + "x" + std::to_string(x.size(-1)); };
  linalg_fail(std::string(name) + ": Incompatible shapes of A and B for the equation " + (left ? "AX = B" : "XA = B") +
              " (" + by(a) + " and " + by(b) + ")");
}

std::string batch_text(const Tensor& a, std::size_t index) {
  return a.dim() > 2 ? ": (Batch element " + std::to_string(index) + "): " : ": ";
}

Tensor half_lower(const Tensor& x) {
  const Tensor lower = tril(x);
  return lower - diag_embed(lower.diagonal(0, -2, -1)) * 0.5;
}

}  // namespace detail

namespace linalg {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the file's own helpers

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
    const Tensor turned = saved(0).mT();
    return {-matmul(turned, matmul(g[0], turned))};
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
    std::vector<T> sign, log;
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      lapack::lu(n, n, lu.matrix(k), pivots.data());
      T s = 1, l = 0;
      for (int i = 0; i < n; ++i) {
        const T u = lu.at(k, i, i);
        if ((u < 0) != (pivots[static_cast<std::size_t>(i)] != i + 1)) s = -s;
        if (u == 0) s = 0;
        l += std::log(std::abs(u));
      }
      sign.push_back(std::isnan(l) ? l : s);
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
  return matmul(f.u * row(others), f.vh) * orientation;
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

struct SlogdetBackward final : Node {
  std::string_view name() const override { return "LinalgSlogdetBackward0"; }
  TensorList apply(TensorList g) override {
    if (!g[1].defined()) return {zeros_like(saved(0))};
    return {corner(g[1]) * inv_ex(saved(0)).result.mT()};
  }
};

/// b as matrices: one more dimension for vectors.
bool is_vector_case(const Tensor& a, const Tensor& b) {
  if (b.dim() == 1) return true;
  if (b.dim() + 1 != a.dim()) return false;
  for (std::int64_t d = 0; d < b.dim(); ++d) {
    if (a.size(d) != b.size(d)) return false;
  }
  return true;
}

/// Both with the same batches.
std::pair<Tensor, Tensor> broadcast_batches(const Tensor& a, const Tensor& b) {
  const Shape batch = broadcast_shapes(batch_sizes(a), batch_sizes(b));
  return {a.expand(with_sizes(batch, {a.size(-2), a.size(-1)})), b.expand(with_sizes(batch, {b.size(-2), b.size(-1)}))};
}

struct Solved {
  Tensor x;
  std::vector<std::int32_t> info;
};

Solved solved(const Tensor& a, const Tensor& b) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> left(a), right(b);
    Solved result;
    const int n = left.rows();
    std::vector<int> pivots(static_cast<std::size_t>(n));
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      result.info.push_back(lapack::lu(n, n, left.matrix(k), pivots.data()));
      lapack::lu_solve(n, right.columns(), left.matrix(k), pivots.data(), right.matrix(k));
    }
    result.x = right.tensor(b.device());
    return result;
  });
}

struct SolveBackward final : Node {
  bool vectors = false;
  std::string_view name() const override { return "LinalgSolveExBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor a = saved(0), x = saved(1);
    const Tensor up = solve(a.mT(), vectors ? column(g[0]) : g[0]);
    TensorList result{Tensor(), vectors ? up.squeeze(-1) : up};
    if (wants(0)) result[0] = -matmul(up, (vectors ? column(x) : x).mT());
    return result;
  }
};

Tensor triangular_solved(const Tensor& a, const Tensor& b, const TriangularOptions& o) {
  return in_linalg_type(a, [&]<class T>() {
    // x a = b is a^T x^T = b^T, and a column-major copy of a^T is upper where a is lower.
    Columns<T> left(a), right(o.left ? b : b.mT());
    const lapack::Triangle triangle{o.upper ? 'U' : 'L', o.left ? 'N' : 'T', o.unitriangular ? 'U' : 'N'};
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      lapack::triangular_solve(triangle, left.rows(), right.columns(), left.matrix(k), right.matrix(k));
    }
    const Tensor x = right.tensor(b.device());
    return o.left ? x : x.mT().contiguous();
  });
}

struct SolveTriangularBackward final : Node {
  TriangularOptions how;
  std::string_view name() const override { return "LinalgSolveTriangularBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor a = saved(0), x = saved(1);
    TriangularOptions turned = how;
    turned.upper = !how.upper;
    const Tensor up = solve_triangular(a.mT(), g[0], turned);
    TensorList result{Tensor(), up};
    if (!wants(0)) return result;
    const Tensor whole = how.left ? -matmul(up, x.mT()) : -matmul(x.mT(), up);
    const std::int64_t inside = how.unitriangular ? 1 : 0;
    result[0] = how.upper ? triu(whole, inside) : tril(whole, -inside);
    return result;
  }
};

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

struct CholeskyBackward final : Node {
  bool upper = false;
  std::string_view name() const override { return "LinalgCholeskyExBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor factor = upper ? saved(0).mT() : saved(0), up = upper ? g[0].mT() : g[0];
    const Tensor half = half_lower(matmul(factor.mT(), up));
    const TriangularOptions turned{.upper = true}, from_right{.upper = false, .left = false};
    const Tensor inner = (half + half.mT()) * 0.5;
    return {solve_triangular(factor, solve_triangular(factor.mT(), inner, turned), from_right)};
  }
};

Tensor info_tensor(const std::vector<std::int32_t>& info, const Tensor& a) {
  return batch_tensor(info, batch_sizes(a), a.device());
}

}  // namespace

WithInfo inv_ex(const Tensor& a) {
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
  return {found.sign, found.log};
}

WithInfo solve_ex(const Tensor& a, const Tensor& b) {
  check_square(a, "linalg.solve");
  check_linalg_type(a, "linalg.solve");
  const bool vectors = is_vector_case(a, b);
  const Tensor right = vectors ? column(b) : b;
  check_equation(a, right, "linalg.solve", true);
  const auto [left, sides] = broadcast_batches(a.detach(), right.detach());
  Solved found = solved(left, sides);
  Tensor x = vectors ? found.x.squeeze(-1) : found.x;
  const Tensor info = info_tensor(found.info, left);
  if (!needs_grad(a, b)) return {x, info};
  auto node = make_node<SolveBackward>(a, b);
  node->vectors = vectors;
  node->save(a);
  record(x, node);
  node->save_output(x);
  return {x, info};
}

Tensor solve(const Tensor& a, const Tensor& b) {
  const WithInfo both = solve_ex(a, b);
  const std::vector<std::int64_t> info = both.info.to_vector<std::int64_t>();
  const auto failed = std::find_if(info.begin(), info.end(), [](std::int64_t code) { return code != 0; });
  if (failed == info.end()) return both.result;
  linalg_fail("torch.linalg.solve" + batch_text(a, static_cast<std::size_t>(failed - info.begin())) +
              "The solver failed because the input matrix is singular.");
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& o) {
  check_square(a, "linalg.solve_triangular");
  check_linalg_type(a, "linalg.solve_triangular");
  check_matrix(b, "linalg.solve_triangular");
  check_equation(a, b, "linalg.solve_triangular", o.left);
  const auto [left, sides] = broadcast_batches(a.detach(), b.detach());
  Tensor x = triangular_solved(left, sides, o);
  if (!needs_grad(a, b)) return x;
  auto node = make_node<SolveTriangularBackward>(a, b);
  node->how = o;
  node->save(a);
  record(x, node);
  node->save_output(x);
  return x;
}

WithInfo cholesky_ex(const Tensor& a, bool upper) {
  check_square(a, "linalg.cholesky");
  check_linalg_type(a, "linalg.cholesky");
  const NoGradGuard no_copy_history;
  Factors found = cholesky_factors(upper ? a.mT() : a);
  return {upper ? found.lower.mT().contiguous() : found.lower, info_tensor(found.info, a)};
}

Tensor cholesky(const Tensor& a, bool upper) {
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

Tensor matrix_power(const Tensor& a, std::int64_t n) {
  check_square(a, "linalg.matrix_power");
  return n < 0 ? core::matrix_power(inv(a), -n) : core::matrix_power(a, n);
}

namespace {

void check_chain(const std::vector<Tensor>& tensors) {
  const auto fail = [](const std::string& text) { linalg_fail("multi_dot(): " + text); };
  if (tensors.size() < 2) fail("expected at least 2 tensors but got " + std::to_string(tensors.size()));
  const auto dims = [](const Tensor& t) { return std::to_string(t.dim()) + "D"; };
  const auto is_end = [](const Tensor& t) { return t.dim() == 1 || t.dim() == 2; };
  if (!is_end(tensors.front())) fail("the first tensor must be 1D or 2D but got " + dims(tensors.front()));
  if (!is_end(tensors.back())) fail("the last tensor must be 1D or 2D but got " + dims(tensors.back()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool inside = i > 0 && i + 1 < tensors.size();
    if (inside && tensors[i].dim() != 2) {
      fail("tensor " + std::to_string(i) + " must be 2D but got " + dims(tensors[i]));
    }
    if (i == 0 || tensors[i - 1].size(-1) == tensors[i].size(0)) continue;
    fail("tensors " + std::to_string(i - 1) + " and " + std::to_string(i) + " with shapes " +
         to_list(tensors[i - 1].sizes()) + " and " + to_list(tensors[i].sizes()) + " cannot be multiplied");
  }
}

}  // namespace

Tensor multi_dot(const std::vector<Tensor>& tensors) {
  check_chain(tensors);
  std::vector<Tensor> chain = tensors;
  const bool from_vector = chain.front().dim() == 1, to_vector = chain.back().dim() == 1;
  if (from_vector) chain.front() = chain.front().unsqueeze(0);
  if (to_vector) chain.back() = chain.back().unsqueeze(-1);
  Tensor result = chain_matmul(chain);
  if (from_vector) result = result.squeeze(0);
  return to_vector ? result.squeeze(-1) : result;
}

Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t dim) {
  return (a * b).sum(Shape{dim});
}

Tensor diagonal(const Tensor& a, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  return a.diagonal(offset, dim1, dim2);
}

}  // namespace linalg

Tensor logdet(const Tensor& x) {
  detail::check_square(x, "logdet");
  detail::check_linalg_type(x, "logdet");
  const auto [sign, log] = linalg::slogdet(x);
  const Tensor nothing = full({}, std::nan(""), {.dtype = x.dtype(), .device = x.device()});
  return where(sign.detach().eq(-1), nothing, log);
}

Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper) {
  detail::check_square(factor, "cholesky_solve");
  if (b.size(-2) != factor.size(-2)) {
    const auto by = [](const Tensor& t) { return std::to_string(t.size(-2)) + " by " + std::to_string(t.size(-1)); };
    detail::linalg_fail("Incompatible matrix sizes for cholesky_solve: each A matrix is " + by(factor) +
                        " but each b matrix is " + by(b));
  }
  const Tensor lower = upper ? factor.mT() : factor;
  return linalg::solve_triangular(lower.mT(), linalg::solve_triangular(lower, b, {.upper = false}), {.upper = true});
}

Tensor cholesky_inverse(const Tensor& factor, bool upper) {
  detail::check_square(factor, "cholesky_inverse");
  const Tensor one = eye(factor.size(-1), {}, {.dtype = factor.dtype(), .device = factor.device()});
  return cholesky_solve(one.expand(factor.sizes()), factor, upper);
}

}  // namespace core
