// Rows of complex numbers: each function takes pairs of real numbers as complex ones, and its results come as pairs.
#include "libcore/ops/complex.h"

#include "libcore/ops/blas.h"
#include "libcore/ops/fft.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/stft.h"
#include "libcore/ops/window.h"
#include "tests/libcore/autograd/gradcheck_cases.h"

namespace test {
namespace {

using OfComplex = std::function<Tensor(const Tensor&)>;

Tensor pairs_of(const Tensor& z) {
  return core::is_complex(z) ? core::view_as_real(z) : z;
}

/// `sizes` ends in the 2 of the pairs.
void add_complex(GradCases& cases, const std::string& name, const Shape& sizes, const OfComplex& function) {
  cases.add(name, {irregular(sizes)}, [=](In in) { return pairs_of(function(core::view_as_complex(in[0]))); });
}
void add_real(GradCases& cases, const std::string& name, const Shape& sizes, const OfComplex& function) {
  cases.add(name, {irregular(sizes)}, [=](In in) { return pairs_of(function(in[0])); });
}

void add_arithmetic(GradCases& cases) {
  add_complex(cases, "view_as_complex", {3, 2}, [](const Tensor& z) { return z * z; });
  add_complex(cases, "view_as_real", {3, 2},
              [](const Tensor& z) { return core::view_as_real(z) * core::real(z * z).sum(); });
  add_complex(cases, "real", {3, 2}, [](const Tensor& z) { return core::real(z * z * z); });
  add_complex(cases, "imag", {3, 2}, [](const Tensor& z) { return core::imag(core::exp(z)); });
  add_complex(cases, "conj", {3, 2}, [](const Tensor& z) { return core::conj(z) * z * z; });
  add_complex(cases, "angle", {3, 2}, core::angle);
  add_complex(cases, "abs/complex", {3, 2}, [](const Tensor& z) { return core::abs(z); });
  add_complex(cases, "sgn/complex", {3, 2}, core::sgn);
  add_complex(cases, "div/complex", {3, 2}, [](const Tensor& z) { return z / (core::conj(z) + 3); });
  add_complex(cases, "pow/complex", {2, 2}, [](const Tensor& z) { return core::pow(z + 2, z); });
  add_complex(cases, "tanh/complex", {3, 2}, core::tanh);
  add_complex(cases, "prod/complex", {3, 2}, [](const Tensor& z) { return core::prod(z); });
  add_complex(cases, "var/complex", {4, 2}, [](const Tensor& z) { return core::var(z); });
  add_complex(cases, "norm/complex", {4, 2}, [](const Tensor& z) { return core::norm(z); });
  add_complex(cases, "cumprod/complex", {3, 2}, [](const Tensor& z) { return core::cumprod(z, 0); });
  add_complex(cases, "mm/complex", {2, 3, 2}, [](const Tensor& z) { return core::mm(z, core::conj(z.t()) * z.sum()); });
  cases.add("complex", {irregular({3}), irregular({2, 3})},
            [](In in) { return core::view_as_real(core::exp(core::complex(in[0], in[1]))); });
  cases.add("polar", {irregular({3}, 0.5, 2), irregular({3})},
            [](In in) { return core::view_as_real(core::square(core::polar(in[0], in[1]))); });
  cases.add("mul/real by complex", {irregular({3}), irregular({3, 2})},
            [](In in) { return core::view_as_real(in[0] * core::view_as_complex(in[1])); });
}

void add_transforms(GradCases& cases) {
  namespace fft = core::fft;
  for (const char* norm : {"backward", "ortho", "forward"}) {
    const std::string tail = std::string("/") + norm;
    const fft::Options one{.norm = norm}, longer{.n = 5, .norm = norm};
    add_complex(cases, "fft" + tail, {2, 3, 2}, [=](const Tensor& z) { return fft::fft(z, one); });
    add_complex(cases, "ifft" + tail, {2, 3, 2}, [=](const Tensor& z) { return fft::ifft(z, longer); });
    add_complex(cases, "irfft" + tail, {2, 3, 2}, [=](const Tensor& z) { return fft::irfft(z, longer); });
    add_complex(cases, "hfft" + tail, {2, 3, 2}, [=](const Tensor& z) { return fft::hfft(z, one); });
    add_real(cases, "fft/real" + tail, {2, 3}, [=](const Tensor& x) { return fft::fft(x, one); });
    add_real(cases, "rfft" + tail, {2, 4}, [=](const Tensor& x) { return fft::rfft(x, one); });
    add_real(cases, "ihfft" + tail, {2, 4}, [=](const Tensor& x) { return fft::ihfft(x, longer); });
    const fft::NdOptions all{.norm = norm};
    add_complex(cases, "fft2" + tail, {2, 3, 2}, [=](const Tensor& z) { return fft::fft2(z, all); });
    add_complex(cases, "ifft2" + tail, {2, 3, 2}, [=](const Tensor& z) { return fft::ifft2(z, all); });
    add_complex(cases, "fftn" + tail, {2, 2, 3, 2}, [=](const Tensor& z) { return fft::fftn(z, all); });
    add_complex(cases, "ifftn" + tail, {2, 2, 3, 2}, [=](const Tensor& z) { return fft::ifftn(z, all); });
    add_complex(cases, "irfft2" + tail, {2, 3, 2}, [=](const Tensor& z) { return fft::irfft2(z, all); });
    add_complex(cases, "irfftn" + tail, {2, 2, 2, 2}, [=](const Tensor& z) { return fft::irfftn(z, all); });
    add_complex(cases, "hfft2" + tail, {2, 3, 2}, [=](const Tensor& z) { return fft::hfft2(z, all); });
    add_complex(cases, "hfftn" + tail, {2, 2, 2, 2}, [=](const Tensor& z) { return fft::hfftn(z, all); });
    add_real(cases, "ihfft2" + tail, {3, 4}, [=](const Tensor& x) { return fft::ihfft2(x, all); });
    add_real(cases, "ihfftn" + tail, {2, 2, 3}, [=](const Tensor& x) { return fft::ihfftn(x, all); });
    add_real(cases, "rfft2" + tail, {3, 4}, [=](const Tensor& x) { return fft::rfft2(x, all); });
    add_real(cases, "rfftn" + tail, {2, 2, 3}, [=](const Tensor& x) { return fft::rfftn(x, all); });
  }
  add_real(cases, "fftshift", {2, 3}, [](const Tensor& x) { return fft::fftshift(x); });
  add_real(cases, "ifftshift", {2, 3}, [](const Tensor& x) { return fft::ifftshift(x, Shape{1}); });
}

/// Of vectors their sizes: they may turn by any phase.
void add_matrices(GradCases& cases) {
  namespace linalg = core::linalg;
  const auto square = [&](const std::string& name, const OfComplex& function) {
    const Tensor one = core::eye(3, {}, {.dtype = core::DType::c128}) * 2;
    add_complex(cases, name + "/complex", {3, 3, 2}, [=](const Tensor& z) { return function(z + one); });
  };
  const auto hermitian = [](const Tensor& z) { return z + core::adjoint(z); };
  const auto positive = [](const Tensor& z) { return core::matmul(z, core::adjoint(z)); };
  square("inv", [](const Tensor& z) { return linalg::inv(z); });
  square("det", [](const Tensor& z) { return linalg::det(z); });
  square("slogdet", [](const Tensor& z) {
    const auto [sign, log] = linalg::slogdet(z);
    return sign * log;
  });
  square("solve", [](const Tensor& z) { return linalg::solve(z, z * z); });
  square("solve_triangular", [](const Tensor& z) { return linalg::solve_triangular(z, z * z, {.upper = true}); });
  square("lu", [](const Tensor& z) {
    const auto [p, l, u] = linalg::lu(z);
    return l * u.sum();
  });
  square("lu_solve", [](const Tensor& z) { return linalg::lu_solve(linalg::lu_factor(z), z * z, {.adjoint = true}); });
  square("cholesky", [=](const Tensor& z) { return linalg::cholesky(positive(z)); });
  square("cholesky/upper", [=](const Tensor& z) { return linalg::cholesky(positive(z), true); });
  square("eigh", [=](const Tensor& z) {
    const auto [values, v] = linalg::eigh(hermitian(z));
    return core::abs(v) * values;
  });
  square("qr", [](const Tensor& z) {
    const auto [q, r] = linalg::qr(z);
    return q * r.sum();
  });
  const auto sizes_of_vectors = [](const Tensor& z) {
    const auto [u, s, vh] = linalg::svd(z, false);
    return core::matmul(core::abs(u) * s, core::abs(vh)) + core::abs(core::matmul(u, vh));
  };
  for (const auto& [name, sizes] : {std::pair{"tall", Shape{4, 2, 2}}, std::pair{"wide", Shape{2, 4, 2}}}) {
    const std::string tail = std::string("/complex ") + name;
    add_complex(cases, "svd" + tail, sizes, sizes_of_vectors);
    add_complex(cases, "pinv" + tail, sizes, [](const Tensor& z) { return linalg::pinv(z); });
    add_complex(cases, "qr" + tail, sizes, [](const Tensor& z) {
      const auto [q, r] = linalg::qr(z);
      return core::matmul(q * 2, r * r);
    });
  }
  add_complex(cases, "adjoint", {2, 3, 2}, [](const Tensor& z) { return core::adjoint(z) * z.t(); });
  add_complex(cases, "conj_physical", {3, 2}, [](const Tensor& z) { return core::conj_physical(z) * z * z; });
}

}  // namespace

void add_complex_cases(GradCases& cases) {
  add_arithmetic(cases);
  add_matrices(cases);
  add_transforms(cases);
  const Tensor window = core::hann_window(4, true, {.dtype = core::DType::f64}) + 0.1;
  add_real(cases, "stft", {12}, [=](const Tensor& x) { return core::stft(x, 4, {.hop_length = 2, .window = window}); });
  add_complex(cases, "istft", {3, 4, 2},
              [=](const Tensor& z) { return core::istft(z, 4, {.hop_length = 2, .window = window}); });
}

}  // namespace test
