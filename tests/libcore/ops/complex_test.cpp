// Complex numbers where no golden case reaches: errors, promotion, views written in place, hooks, second derivatives.
#include "libcore/ops/complex.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/function.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/warning.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/fft.h"
#include "libcore/ops/index.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::Tensor;
using test::message_of;
using Number = std::complex<float>;

Tensor numbers(const std::vector<Number>& values) {
  return core::from_values(values);
}

TEST(Complex, CppValuesGoInAndOut) {
  const Tensor z = numbers({{1, 2}, {3, -4}});
  EXPECT_EQ(z.dtype(), core::DType::c64);
  EXPECT_EQ(z.data<Number>()[1], Number(3, -4));
  EXPECT_EQ((z * z).to_vector<Number>()[0], Number(-3, 4));
  EXPECT_EQ(core::complex_item(z[0]), std::complex<double>(1, 2));
  EXPECT_EQ(message_of([&] { core::complex_item(z); }), "a Tensor with 2 elements cannot be converted to Scalar");
  EXPECT_EQ(message_of([&] { z.to_vector<float>(); }),
            "to_vector() of complex numbers gives std::complex: to_vector<std::complex<float>>()");
  EXPECT_EQ(message_of([&] { z[0].item(); }), "value cannot be converted to type double without overflow");
  EXPECT_EQ(numbers({{2, 0}})[0].item<double>(), 2);
  EXPECT_TRUE(static_cast<bool>(numbers({{0, 1}})));
}

TEST(Complex, RealNumbersAmongThemAndPlacesOfThoseThatAreNot0) {
  const Tensor z = numbers({{1, 2}, {3, 0}, {0, 0}, {0, 1}});
  EXPECT_EQ(core::isreal(z).to_vector<bool>(), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(core::nonzero(z).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 3}));
}

TEST(Complex, PartsThatAreWrittenKeepTheirHistory) {
  const Tensor z = numbers({{1, 2}, {3, 4}}).requires_grad_();
  const Tensor twice = z * 2, part = core::imag(twice);
  part.mul_(3);
  part.sum().backward();
  EXPECT_EQ(z.grad().to_vector<Number>(), (std::vector<Number>{{0, 6}, {0, 6}}));
}

TEST(Complex, RealMemoryIsWrittenThroughAViewOfAnyShape) {
  const Tensor x = core::ones({4}).requires_grad_();
  const Tensor twice = x * 2, z = core::view_as_complex(twice.view({2, 2}));
  z.mul_(core::complex_number(0, 1));
  core::real(z).sum().backward();
  EXPECT_EQ(twice.to_vector<float>(), (std::vector<float>{-2, 2, -2, 2}));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, -2, 0, -2}));
}

TEST(Complex, PolarKeepsHalfPrecision) {
  const Tensor half = core::ones({2}, {.dtype = core::DType::f16});
  EXPECT_EQ(core::polar(half, half).dtype(), core::DType::c32);
}

TEST(Complex, NumbersAreWeakInPromotion) {
  const Tensor i = core::complex_number(0, 1);
  EXPECT_EQ((core::ones({2}) * i).dtype(), core::DType::c64);
  EXPECT_EQ((core::ones({2}, {.dtype = core::DType::f64}) * i).dtype(), core::DType::c128);
  EXPECT_EQ((core::ones({2}, {.dtype = core::DType::i64}) * i).dtype(), core::DType::c64);
  EXPECT_EQ((numbers({{1, 0}}) * i).dtype(), core::DType::c64);
}

TEST(Complex, RealTensorsTakeNoComplexResult) {
  const Tensor x = core::ones({2}), z = numbers({{1, 2}, {3, 4}});
  EXPECT_EQ(message_of([&] { x.add_(z); }), "result type ComplexFloat can't be cast to the desired output type Float");
  EXPECT_EQ(message_of([&] { x.mul_(core::complex_number(0, 1)); }),
            "result type ComplexFloat can't be cast to the desired output type Float");
}

TEST(Complex, CastsToRealSayWhatTheyLose) {
  std::vector<std::string> texts;
  const auto before = core::set_warning_handler([&](const std::string& text) { texts.push_back(text); });
  const Tensor x = numbers({{1, 2}}).to(core::DType::f32);
  numbers({{1, 2}}).to(core::DType::boolean);
  core::set_warning_handler(before);
  EXPECT_EQ(x.item<float>(), 1);
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0], "Casting complex values to real discards the imaginary part");
}

TEST(Complex, NothingDropsTheImaginaryPartInSilence) {
  std::vector<std::string> texts;
  const auto before = core::set_warning_handler([&](const std::string& text) { texts.push_back(text); });
  const Tensor z = numbers({{1, 2}});
  core::zeros({1}).copy_(z);
  core::set_warning_handler(before);
  EXPECT_EQ(texts.size(), 1U);
  EXPECT_EQ(message_of([&] { core::clamp(z, 0.5); }), "clamp is not supported for complex types");
  EXPECT_EQ(message_of([&] { core::mse_loss(z, z); }), "\"mse_cpu\" not implemented for 'ComplexFloat'");
  EXPECT_EQ(message_of([&] { core::SGD({z.clone().requires_grad_()}, 0.1); }),
            "can't optimize a complex Tensor: optimize the pairs of its parts, and use view_as_complex() of them");
  EXPECT_EQ(core::float_power(z, 2).dtype(), core::DType::c128);
}

TEST(Complex, BackwardStartsAtRealNumbers) {
  const Tensor z = numbers({{1, 2}}).requires_grad_();
  EXPECT_EQ(message_of([&] { (z * z).sum().backward(); }),
            "grad can be implicitly created only for real scalar outputs but got torch.complex64");
  core::abs(z).sum().backward();
  EXPECT_EQ(z.grad().dtype(), core::DType::c64);
}

/// A step against the gradient of |z - target|^2 leads to the target.
TEST(Complex, GradientsLeadDownhill) {
  Tensor z = numbers({{3, -2}, {0, 1}}).requires_grad_();
  const Tensor target = numbers({{-1, 0.5}, {2, 2}});
  for (int step = 0; step < 40; ++step) {
    const Tensor off = core::abs(z * core::complex_number(0, 1) - target);
    const Tensor slope = core::grad({(off * off).sum()}, {z})[0];
    z = (z.detach() - slope * 0.2).requires_grad_();
  }
  EXPECT_TRUE(core::allclose(z.detach() * core::complex_number(0, 1), target, {.atol = 1e-4}));
}

TEST(Complex, SecondDerivatives) {
  const Tensor z = core::complex(core::ones({1}), core::ones({1}) * 2).to(core::DType::c128).requires_grad_();
  // L = Re(z^3): the gradient is conj(3 z^2), and the gradient of its real part is conj(6 z).
  const Tensor slope = core::grad({core::real(core::pow(z, 3)).sum()}, {z}, {.create_graph = true})[0];
  EXPECT_TRUE(core::allclose(slope, core::conj(core::square(z) * 3)));
  const Tensor curve = core::grad({core::real(slope).sum()}, {z})[0];
  EXPECT_TRUE(core::allclose(curve, core::conj(z * 6)));
}

struct Twist : core::Function<Twist> {
  static Tensor forward(core::FunctionContext&, const Tensor& z) { return z * core::complex_number(0, 2); }
  static std::vector<Tensor> backward(core::FunctionContext&, const std::vector<Tensor>& g) {
    return {g[0] * core::complex_number(0, -2)};
  }
};

TEST(Complex, UsersFunctionsAndHooksSeePyTorchsGradients) {
  const Tensor z = numbers({{1, 2}}).requires_grad_(), up = numbers({{0.5, 3}});
  const Tensor plain = core::grad({z * core::complex_number(0, 2)}, {z}, {.grad_outputs = {up}})[0];
  EXPECT_TRUE(core::equal(core::grad({Twist::apply(z)}, {z}, {.grad_outputs = {up}})[0], plain));
  Tensor seen;
  const Tensor y = z * 1;
  y.register_hook([&](const Tensor& g) { return seen = g, Tensor(); });
  core::backward({y * core::complex_number(0, 2)}, {.grad_outputs = {up}});
  EXPECT_TRUE(core::equal(seen, plain));
}

TEST(Complex, RealViewsOfLeavesAreWrittenInPlace) {
  const Tensor z = numbers({{1, 2}, {3, 4}});
  core::imag(z).fill_(7);
  EXPECT_EQ(z.to_vector<Number>()[1], Number(3, 7));
  const Tensor x = core::ones({2, 2}).requires_grad_(), y = x * 1;
  core::view_as_complex(y).mul_(core::complex_number(0, 1));  // (1 + i) i
  core::backward({y}, {.grad_outputs = {core::tensor({{1.0, 0.0}, {0.0, 1.0}})}});
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, -1, 1, 0}));
}

TEST(Complex, ProductsOfTypesThatDifferSayWhich) {
  const Tensor z = core::zeros({2, 2}, {.dtype = core::DType::c64});
  EXPECT_EQ(message_of([&] {
              core::mm(core::ones({2, 2}), z);
            }),
            "expected m1 and m2 to have the same dtype, but got: float != c10::complex<float>");
}

TEST(Complex, NearnessIsOfBothParts) {
  const Tensor a = numbers({{1, 2}}), b = numbers({{1, 2.5}});
  EXPECT_FALSE(core::allclose(a, b));
  EXPECT_FALSE(core::isclose(a, b).item<bool>());
  EXPECT_TRUE(core::isclose(a, a + 1e-7).item<bool>());
}

/// The sum over all pairs, whatever the length: prime factors of KISS FFT's own, others, and those by a chirp.
TEST(Fft, EveryLengthIsTheSumOfItsDefinition) {
  for (const std::int64_t n : {1, 2, 6, 13, 49, 61, 64, 67, 101, 210, 2 * 71, 4 * 79}) {
    std::vector<std::complex<double>> x(static_cast<std::size_t>(n)), want(x.size());
    for (std::size_t j = 0; j < x.size(); ++j) x[j] = {std::sin(3.0 * j), std::cos(1.7 * j + 1)};
    for (std::size_t k = 0; k < x.size(); ++k) {
      for (std::size_t j = 0; j < x.size(); ++j) {
        want[k] += x[j] * std::polar(1.0, -2 * 3.14159265358979323846 * static_cast<double>(j * k % x.size()) / n);
      }
    }
    const Tensor given = core::from_values(x), got = core::fft::fft(given);
    EXPECT_TRUE(core::allclose(got, core::from_values(want), {.rtol = 1e-11, .atol = 1e-11})) << n;
    EXPECT_TRUE(core::allclose(core::fft::ifft(got), given, {.rtol = 1e-11, .atol = 1e-11})) << n;
  }
}

TEST(Fft, LongPrimeLengthsComeBack) {
  const Tensor x = core::arange(100003, {.dtype = core::DType::f64}) / 1000;
  const Tensor spectrum = core::fft::rfft(x);
  EXPECT_EQ(spectrum.size(0), 50002);
  EXPECT_TRUE(core::allclose(core::fft::irfft(spectrum, {.n = 100003}), x, {.rtol = 1e-9, .atol = 1e-9}));
}

/// Values of PyTorch 2.15.
TEST(Complex, VecdotTakesTheConjugateOfTheFirst) {
  const Tensor a = core::complex(core::tensor({1.0, 2.0}), core::tensor({3.0, -1.0})).requires_grad_();
  const Tensor b = core::complex(core::tensor({0.5, -1.0}), core::tensor({2.0, 4.0})).requires_grad_();
  const Tensor y = core::linalg::vecdot(a, b);
  EXPECT_EQ(core::real(y).item<double>(), 0.5);
  EXPECT_EQ(core::imag(y).item<double>(), 7.5);
  core::real(y).backward();
  EXPECT_TRUE(core::equal(a.grad(), b.detach()));
  EXPECT_TRUE(core::equal(b.grad(), a.detach()));
}

/// A column of the vectors may turn by any phase: its first number is no function of the matrix. PyTorch's texts.
TEST(Complex, ALossOfThePhasesOfVectorsIsRefused) {
  core::manual_seed(3);
  const Tensor a = core::complex(core::randn({3, 3}), core::randn({3, 3})).requires_grad_();
  const std::string middle =
      " in the complex case are specified up to multiplication by e^{i phi}. The specified loss function depends on "
      "this ";
  EXPECT_EQ(message_of([&] { core::imag(core::linalg::svd(a).u).sum().backward(); }),
            "svd_backward: The singular vectors" + middle + "phase term, making it ill-defined.");
  EXPECT_EQ(message_of([&] { core::imag(core::linalg::eigh(a + a.mH()).vectors).sum().backward(); }),
            "linalg_eigh_backward: The eigenvectors" + middle + "quantity, so it is ill-defined.");
}

}  // namespace
