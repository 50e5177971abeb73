// Orthogonal parameters: three maps from matrices without constraints to orthogonal ones.
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/module/parametrize_list.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

enum class OrthogonalMap { matrix_exp, cayley, householder };

OrthogonalMap map_named(const std::string& name, const Tensor& weight) {
  const bool is_square = weight.size(-1) == weight.size(-2);
  if (name == "matrix_exp" || (name.empty() && is_square)) return OrthogonalMap::matrix_exp;
  if (name == "householder" || name.empty()) return OrthogonalMap::householder;
  if (name == "cayley") return OrthogonalMap::cayley;
  fail_value("orthogonal_map has to be one of \"matrix_exp\", \"cayley\", \"householder\". Got: " + name);
}

TensorOptions like(const Tensor& x) {
  return {.dtype = x.dtype(), .device = x.device()};
}
Tensor diagonal_of(const Tensor& x) {
  return x.diagonal(0, -2, -1);
}
/// (..., rows, columns) of the batches of `x`.
Shape sizes_like(const Tensor& x, std::int64_t rows, std::int64_t columns) {
  Shape sizes = x.sizes();
  sizes[sizes.size() - 2] = rows;
  sizes[sizes.size() - 1] = columns;
  return sizes;
}

bool is_orthogonal(const Tensor& q) {
  const double eps = q.dtype() == DType::f64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  const Tensor one = eye(q.size(-1), {}, like(q));
  return allclose(matmul(q.mT(), q), one.expand(sizes_like(q, q.size(-1), q.size(-1))),
                  {.atol = 10.0 * static_cast<double>(q.size(-2)) * eps});
}

/// Q of the factors of a tall matrix, with the signs that make R's diagonal positive.
Tensor made_orthogonal(const Tensor& a) {
  const Reflections f = geqrf(a);
  return linalg::householder_product(f.a, f.tau) * sgn(diagonal_of(f.a)).unsqueeze(-2);
}

struct OrthogonalStep : ModuleOf<OrthogonalStep> {
  OrthogonalMap map;
  bool has_base;
  Tensor base;  ///< (..., n, n) or (..., n, k); undefined until the initial value is known

  OrthogonalStep(OrthogonalMap which, bool use_trivialization) : map(which), has_base(use_trivialization) {}
  void members(Members& m) override {
    if (has_base) m.buffer("base", base);
  }
  std::string class_name() const override { return "_Orthogonal"; }

  Tensor forward(const Tensor& given) const {
    const bool turned = given.size(-2) < given.size(-1);
    const Tensor x = turned ? given.mT() : given;
    Tensor q = map == OrthogonalMap::householder ? reflected(x) : mapped(x);
    if (has_base) q = matmul(base, q);
    return turned ? q.mT() : q;
  }

  /// What gives `value`, or one near to it.
  Tensor right_inverse(const Tensor& value) {
    const bool turned = value.size(-2) < value.size(-1);
    const Tensor q = turned ? value.mT() : value;
    if (has_base) return with_base(value, q);
    if (map != OrthogonalMap::householder) return value;  // their inverse is not known
    const Reflections f = geqrf(q);
    const Tensor corner = sgn(diagonal_of(f.a));
    diagonal_of(f.a).copy_(where(f.tau.eq(0), -corner, corner));
    return turned ? f.a.mT() : f.a;
  }

 private:
  Tensor with_base(const Tensor& value, const Tensor& q) {
    const std::int64_t n = q.size(-2), k = q.size(-1);
    if (n == k) {
      base = is_orthogonal(q) ? q.clone() : made_orthogonal(q);
    } else {
      const Tensor more = empty(sizes_like(q, n, n - k), like(q));
      normal_(more);
      base = made_orthogonal(cat(std::vector<Tensor>{q, more}, -1));
    }
    const Tensor minus_one = zeros_like(value);  // where both maps and reflections give the identity
    diagonal_of(minus_one).fill_(-1);
    return minus_one;
  }

  /// Of a skew-symmetric matrix, k columns of the result.
  Tensor mapped(const Tensor& x) const {
    const std::int64_t n = x.size(-2), k = x.size(-1);
    Tensor lower = tril(x);
    if (n != k) lower = cat(std::vector<Tensor>{lower, zeros(sizes_like(x, n, n - k), like(x))}, -1);
    const Tensor a = lower - lower.mT();
    Tensor q;
    if (map == OrthogonalMap::matrix_exp) {
      q = linalg::matrix_exp(a);
    } else {
      const Tensor one = eye(n, {}, like(a));
      q = linalg::solve(one.add(a, -0.5), one.add(a, 0.5));
    }
    return n == k ? q : q.narrow(-1, 0, k);
  }

  static Tensor reflected(const Tensor& x) {
    const Tensor a = tril(x, -1), tau = (a * a).sum(Shape{-2}).add(1).pow(-1) * 2;
    return linalg::householder_product(a, tau) * diagonal_of(x.detach()).to_int().unsqueeze(-2);
  }
};

}  // namespace

void orthogonal(Module& module, const std::string& name, const OrthogonalOptions& options) {
  const Tensor* weight = written_member(module, name);
  if (weight == nullptr || !weight->defined()) {
    fail_value("Module '" + module.str() + "' has no parameter or buffer with name '" + name + "'");
  }
  if (weight->dim() < 2) {
    fail_value("Expected a matrix or batch of matrices. Got a tensor of " + std::to_string(weight->dim()) +
               " dimensions.");
  }
  auto step = std::make_shared<OrthogonalStep>(map_named(options.orthogonal_map, *weight), options.use_trivialization);
  register_parametrization(module, name,
                           {step, [](Module& own, const std::vector<Tensor>& in) { return own.call(in[0]); },
                            [](Module& own, const Tensor& value) {
                              return std::vector<Tensor>{static_cast<OrthogonalStep&>(own).right_inverse(value)};
                            }});
}

}  // namespace core::detail
