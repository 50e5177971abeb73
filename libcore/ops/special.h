#pragma once
// Special functions, as torch.special.X and, where PyTorch has them there too, torch.X: element by element, broadcast;
// integers give the default float type. Results and gradients are PyTorch's; 16 bits as f32, rounded once.
// Cost: computed on the host in float64, whatever the device. Thread safety: pure functions.
// Use: core::Tensor tail = 1 - core::special::gammainc(a, x);

#include <cstdint>

#include "libcore/ops/activation.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/synonyms.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// The modified Bessel function of order 0.
Tensor i0(const Tensor& x);

/// The incomplete gamma functions over gamma(a), the lower and the upper one.
/// Error(not_implemented), backward to `a`: "the derivative for 'igamma: input' is not implemented.".
Tensor igamma(const Tensor& a, const Tensor& x);
Tensor igammac(const Tensor& a, const Tensor& x);

/// The logarithm of the gamma function of p dimensions. Error(runtime) "p has to be greater than or equal to 1".
Tensor mvlgamma(const Tensor& x, std::int64_t p);

namespace special {

// What has a name in core too.
using core::digamma;
using core::erf;
using core::erfc;
using core::erfinv;
using core::exp2;
using core::expit;
using core::expm1;
using core::gammaln;
using core::i0;
using core::log1p;
using core::log_softmax;
using core::logit;
using core::logsumexp;
using core::polygamma;
using core::psi;
using core::round;
using core::sinc;
using core::softmax;
using core::xlogy;

/// -x log(x), 0 at 0 and -inf below.
Tensor entr(const Tensor& x);
/// exp(x^2) erfc(x).
Tensor erfcx(const Tensor& x);

/// The normal distribution: its integral from minus infinity, the logarithm of that, and the inverse.
Tensor ndtr(const Tensor& x);
Tensor log_ndtr(const Tensor& x);
Tensor ndtri(const Tensor& p);

/// x log1p(y), 0 where x is 0 and y no NaN.
Tensor xlog1py(const Tensor& x, const Tensor& y);
/// Hurwitz' zeta function: the sum of (q + k)^-x. Error(not_implemented), backward to x: as igamma().
Tensor zeta(const Tensor& x, const Tensor& q);

Tensor gammainc(const Tensor& a, const Tensor& x);
Tensor gammaincc(const Tensor& a, const Tensor& x);
Tensor multigammaln(const Tensor& x, std::int64_t p);

/// Modified Bessel functions; i0e and i1e times exp(-|x|).
Tensor i0e(const Tensor& x);
Tensor i1(const Tensor& x);
Tensor i1e(const Tensor& x);

/// Bessel functions of the first and second kind, modified ones (scaled: times exp(x)), and the spherical one of order
/// 0. The scaled and the spherical ones have no gradients, as PyTorch's.
Tensor bessel_j0(const Tensor& x);
Tensor bessel_j1(const Tensor& x);
Tensor bessel_y0(const Tensor& x);
Tensor bessel_y1(const Tensor& x);
Tensor modified_bessel_i0(const Tensor& x);
Tensor modified_bessel_i1(const Tensor& x);
Tensor modified_bessel_k0(const Tensor& x);
Tensor modified_bessel_k1(const Tensor& x);
Tensor scaled_modified_bessel_k0(const Tensor& x);
Tensor scaled_modified_bessel_k1(const Tensor& x);
Tensor spherical_bessel_j0(const Tensor& x);
/// Airy's function Ai. Has no gradient. PyTorch's values between -6 and -2.09 are wrong by up to 7e-7, these are not.
Tensor airy_ai(const Tensor& x);

// Orthogonal polynomials of degree n (cut to an integer; 0 below degree 0), by their recurrences in the dtype of the
// result, or where PyTorch does so by cosines. f32 and f64; no gradients, as PyTorch's. Hermite's are NaN from degree
// 128 (f32) or 512 (f64) on. Errors(not_implemented): "\"chebyshev_polynomial_t_cpu\" not implemented for 'Half'".
#define CORE_POLYNOMIAL(name)                    \
  Tensor name(const Tensor& x, const Tensor& n); \
  Tensor name(const Tensor& x, Scalar n);        \
  Tensor name(Scalar x, const Tensor& n);
CORE_POLYNOMIAL(chebyshev_polynomial_t)
CORE_POLYNOMIAL(chebyshev_polynomial_u)
CORE_POLYNOMIAL(chebyshev_polynomial_v)
CORE_POLYNOMIAL(chebyshev_polynomial_w)
CORE_POLYNOMIAL(shifted_chebyshev_polynomial_t)
CORE_POLYNOMIAL(shifted_chebyshev_polynomial_u)
CORE_POLYNOMIAL(shifted_chebyshev_polynomial_v)
CORE_POLYNOMIAL(shifted_chebyshev_polynomial_w)
CORE_POLYNOMIAL(hermite_polynomial_h)
CORE_POLYNOMIAL(hermite_polynomial_he)
CORE_POLYNOMIAL(laguerre_polynomial_l)
CORE_POLYNOMIAL(legendre_polynomial_p)
#undef CORE_POLYNOMIAL

}  // namespace special
}  // namespace core
