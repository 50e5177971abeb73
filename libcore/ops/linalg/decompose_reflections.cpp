#include "libcore/ops/linalg/decompose.h"

#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

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
    q = q - corner(tau.select(-1, i)) * matmul(v, matmul(turned(v), q));
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

}  // namespace

Tensor householder_product(const Tensor& reflectors, const Tensor& tau) {
  const core::detail::OpScope scope("linalg_householder_product", reflectors, tau);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&reflectors, &tau}); to)
    return householder_product(to(reflectors), to(tau));
  check_reflections(reflectors, tau);
  check_linalg_type(reflectors, "linalg.householder_product");
  const Tensor known = reflected_by_lapack(reflectors.detach(), tau);
  return composed("LinalgHouseholderProductBackward0", {reflectors, tau},
                  [known](const TensorList& in) { return is_grad_enabled() ? reflected(in[0], in[1]) : known; });
}

}  // namespace core::linalg

namespace core {
Tensor ormqr(const Tensor& reflectors, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
  if (reflectors.dim() < 2) detail::linalg_fail("torch.ormqr: input must have at least 2 dimensions.");
  const std::int64_t m = reflectors.size(-2), n = std::min(m, reflectors.size(-1));
  const Tensor known = reflectors.narrow(-1, 0, n);
  const Tensor beyond = zeros(detail::with_sizes(detail::batch_sizes(known), {m, m - n}),
                              {.dtype = known.dtype(), .device = known.device()});
  const Tensor q = linalg::householder_product(cat(std::vector<Tensor>{known, beyond}, -1), tau);
  const Tensor factor = transpose ? detail::turned(q) : q;
  return left ? matmul(factor, other) : matmul(other, factor);
}

Reflections geqrf(const Tensor& a) {
  const core::detail::OpScope scope("geqrf", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return geqrf(to(a));
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
