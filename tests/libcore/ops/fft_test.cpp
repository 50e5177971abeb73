// Fourier transforms of every small length and some large ones, of few and many rows, beside sums by the definition.
#include "libcore/ops/fft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "libcore/backend/fft.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace {

using core::DType;
using core::Tensor;
using Numbers = std::vector<std::complex<double>>;

std::complex<double> by_definition(const std::complex<double>* row, std::int64_t n, std::int64_t k) {
  std::complex<double> sum = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    sum += row[j] * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n));
  }
  return sum;
}

/// Some numbers of each row; those of long rows are sparse, as a sum costs as much as the row is long.
void expect_spectra(const Tensor& x, const Tensor& y, double room) {
  const Numbers in = x.to(DType::c128).to_vector<std::complex<double>>();
  const Numbers out = y.to(DType::c128).to_vector<std::complex<double>>();
  const std::int64_t n = x.size(1), results = y.size(1), step = std::max<std::int64_t>(1, results / 20);
  for (std::int64_t row = 0; row < x.size(0); ++row) {
    for (std::int64_t k = 0; k < results; k += step) {
      const std::complex<double> wanted = by_definition(in.data() + row * n, n, k);
      ASSERT_LT(std::abs(out[static_cast<std::size_t>(row * results + k)] - wanted), room * std::sqrt(n) + room)
          << "row " << row << " of " << x.size(0) << ", number " << k << " of " << n;
    }
  }
}

std::vector<std::int64_t> lengths() {
  std::vector<std::int64_t> all;
  for (std::int64_t n = 1; n <= 130; ++n) all.push_back(n);
  for (const std::int64_t n : {143, 256, 945, 1001, 1024, 1500, 2048, 15015, 16384}) all.push_back(n);
  return all;
}

TEST(Fft, HasTheNumbersOfTheDefinition) {
  core::manual_seed(4);
  for (const std::int64_t n : lengths()) {
    for (const std::int64_t rows : {1, 3, 19}) {
      if (rows * n > 60000) continue;
      const Tensor z =
          core::complex(core::randn({rows, n}, {.dtype = DType::f64}), core::randn({rows, n}, {.dtype = DType::f64}));
      expect_spectra(z, core::fft::fft(z), 1e-13 * std::log2(2 * n));
      const Tensor single = z.to(DType::c64);
      expect_spectra(single, core::fft::fft(single), 1e-6);
    }
  }
}

TEST(Fft, HalvesAreThoseOfRealNumbers) {
  core::manual_seed(5);
  for (const std::int64_t n : lengths()) {
    for (const std::int64_t rows : {1, 4, 19}) {
      if (rows * n > 60000) continue;
      const Tensor x = core::randn({rows, n}, {.dtype = DType::f64});
      expect_spectra(x, core::fft::rfft(x), 1e-13 * std::log2(2 * n));
    }
  }
}

/// Of the root of the mean square of the errors, by that of the numbers: PyTorch's, which computes in f32 too,
/// is 7.6e-8 for 64 numbers, 1.1e-7 for 1024 and 1.6e-7 for 65536.
TEST(Fft, PowersOfTwoInSinglesAreAsCloseAsSumsOfSinglesCanBe) {
  core::manual_seed(8);
  const auto distance = [](const Tensor& single, const Tensor& exact) {
    const Tensor error = core::abs(single.to(DType::c128) - exact), size = core::abs(exact);
    return std::sqrt((error * error).mean().item<double>() / (size * size).mean().item<double>());
  };
  for (const std::int64_t n : {64, 128, 256, 512, 1024, 2048, 4096, 65536}) {
    const Tensor x = core::randn({3, n}), exact = core::fft::fft(x.to(DType::f64));
    const double room = 1e-8 * std::log2(n) + 4e-8;
    EXPECT_LT(distance(core::fft::fft(x.to(DType::c64)), exact), room) << n;
    EXPECT_LT(distance(core::fft::rfft(x), core::fft::rfft(x.to(DType::f64))), room) << n;
    EXPECT_LT(distance(core::fft::irfft(core::fft::rfft(x)), x.to(DType::f64)), 2 * room) << n;
    const Tensor half = core::fft::rfft(x.to(DType::f64)), length = core::full({}, static_cast<double>(n));
    EXPECT_LT(distance(core::fft::ihfft(x), core::conj(half) / length), room) << n;
    EXPECT_LT(distance(core::fft::hfft(core::conj(half).to(DType::c64)), x.to(DType::f64) * length), 2 * room) << n;
  }
}

/// As the gradient of hfft() needs.
TEST(Fft, TheOtherSignOfAHalfIsItsConjugate) {
  core::manual_seed(9);
  for (const std::int64_t n : {9, 12, 128, 1024}) {
    const Tensor x = core::randn({2, n});
    Tensor turned = core::empty({2, n / 2 + 1}, {.dtype = DType::c64});
    core::fourier::to_half<float>({.count = 2, .length = n, .inverse = true, .scale = 1}, x.data<float>(),
                                  turned.mutable_data<std::complex<float>>());
    EXPECT_LT(core::abs(turned - core::conj(core::fft::rfft(x))).max().item<float>(), 1e-4F) << n;
  }
}

TEST(Fft, InversesGiveBackWhatWasThere) {
  core::manual_seed(6);
  for (const std::int64_t n : lengths()) {
    const Tensor z =
        core::complex(core::randn({5, n}, {.dtype = DType::f64}), core::randn({5, n}, {.dtype = DType::f64}));
    EXPECT_LT(core::abs(core::fft::ifft(core::fft::fft(z)) - z).max().item<double>(), 1e-13) << n;
    const Tensor x = core::randn({5, n}, {.dtype = DType::f64});
    EXPECT_LT(core::abs(core::fft::irfft(core::fft::rfft(x), {.n = n}) - x).max().item<double>(), 1e-13) << n;
  }
}

/// Rows of real numbers share transforms; none may show in another.
TEST(Fft, ARowIsItsOwnWhateverLiesBesideIt) {
  core::manual_seed(7);
  const std::vector<double> scales = {1, 0, 1, NAN, 1, HUGE_VAL, 1e12, 1e-12, 0, 1e200, 1};
  for (const std::int64_t n : {1, 16, 17, 131}) {  // by passes, by KISS FFT, by a chirp
    for (const DType dtype : {DType::f32, DType::f64}) {
      std::vector<Tensor> rows;
      for (const double scale : scales) rows.push_back(core::randn({n}, {.dtype = dtype}) * scale);
      const Tensor all = core::stack(rows), spectra = core::fft::rfft(all);
      const Tensor back = core::fft::irfft(spectra, {.n = n});
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!std::isfinite(core::abs(rows[i]).max().item<double>())) continue;
        const auto at = static_cast<std::int64_t>(i);
        const Tensor alone = core::fft::rfft(rows[i]);
        const double room = core::abs(alone).max().item<double>() * (dtype == DType::f32 ? 1e-6 : 1e-14);
        EXPECT_LE(core::abs(spectra[at] - alone).max().item<double>(), room) << "row " << i << " of length " << n;
        const Tensor restored = core::fft::irfft(alone, {.n = n});
        EXPECT_LE(core::abs(back[at] - restored).max().item<double>(), room) << "row " << i << " of length " << n;
      }
    }
  }
}

}  // namespace
