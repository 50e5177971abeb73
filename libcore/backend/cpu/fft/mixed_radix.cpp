#include "libcore/backend/cpu/fft/mixed_radix.h"

#include <cstdint>

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

/// One pass: `parts` groups of `kRadix` inputs that lie `parts * step` apart, `step` numbers each.
struct Pass {
  std::int64_t parts, step, stride;  ///< stride: of the table, for this pass's share of the length
  std::int64_t length;
  const double *cosines, *sines;
  double sign;
  const double *from_re, *from_im;
  double *to_re, *to_im;
};

/// x[i] = sum over j of x[j] * exp(sign 2 pi i j k / kRadix), for odd radices by the sums and differences of x[j] and
/// x[kRadix - j].
template <int kRadix>
struct Butterfly {
  static constexpr int kHalf = kRadix / 2;
  double cosine[kHalf + 1][kHalf + 1] = {}, sine[kHalf + 1][kHalf + 1] = {};

  explicit Butterfly(const Pass& pass) {
    for (int i = 1; i <= kHalf; ++i) {
      for (int j = 1; j <= kHalf; ++j) {
        const std::int64_t at = i * j % kRadix * (pass.length / kRadix);
        cosine[i][j] = pass.cosines[at];
        sine[i][j] = pass.sign * pass.sines[at];
      }
    }
  }
  void operator()(double* re, double* im) const {
    double sum_re[kHalf + 1], sum_im[kHalf + 1], off_re[kHalf + 1], off_im[kHalf + 1];
    double all_re = re[0], all_im = im[0];
#pragma GCC unroll 16
    for (int j = 1; j <= kHalf; ++j) {
      sum_re[j] = re[j] + re[kRadix - j], sum_im[j] = im[j] + im[kRadix - j];
      off_re[j] = re[j] - re[kRadix - j], off_im[j] = im[j] - im[kRadix - j];
      all_re += sum_re[j], all_im += sum_im[j];
    }
#pragma GCC unroll 16
    for (int i = 1; i <= kHalf; ++i) {
      double even_re = re[0], even_im = im[0], odd_re = 0, odd_im = 0;
#pragma GCC unroll 16
      for (int j = 1; j <= kHalf; ++j) {
        even_re += cosine[i][j] * sum_re[j], even_im += cosine[i][j] * sum_im[j];
        odd_re += sine[i][j] * off_re[j], odd_im += sine[i][j] * off_im[j];
      }
      re[i] = even_re - odd_im, im[i] = even_im + odd_re;
      re[kRadix - i] = even_re + odd_im, im[kRadix - i] = even_im - odd_re;
    }
    re[0] = all_re, im[0] = all_im;
  }
};

template <>
struct Butterfly<2> {
  explicit Butterfly(const Pass&) {}
  void operator()(double* re, double* im) const {
    const double a = re[0], b = im[0];
    re[0] = a + re[1], im[0] = b + im[1];
    re[1] = a - re[1], im[1] = b - im[1];
  }
};

template <>
struct Butterfly<4> {
  double sign;
  explicit Butterfly(const Pass& pass) : sign(pass.sign) {}
  void operator()(double* re, double* im) const {
    const double a_re = re[0] + re[2], a_im = im[0] + im[2], b_re = re[0] - re[2], b_im = im[0] - im[2];
    const double c_re = re[1] + re[3], c_im = im[1] + im[3];
    const double d_re = sign * (re[1] - re[3]), d_im = sign * (im[1] - im[3]);
    re[0] = a_re + c_re, im[0] = a_im + c_im;
    re[1] = b_re - d_im, im[1] = b_im + d_re;
    re[2] = a_re - c_re, im[2] = a_im - c_im;
    re[3] = b_re + d_im, im[3] = b_im - d_re;
  }
};

template <int kRadix>
void run(const Pass& pass) {
  const Butterfly<kRadix> butterfly(pass);
  const std::int64_t step = pass.step, apart = pass.parts * step;
  for (std::int64_t part = 0; part < pass.parts; ++part) {
    double cosine[kRadix], sine[kRadix];
    for (int i = 0; i < kRadix; ++i) {
      cosine[i] = pass.cosines[part * i * pass.stride];
      sine[i] = pass.sign * pass.sines[part * i * pass.stride];
    }
    const double* __restrict from_re = pass.from_re + part * step;
    const double* __restrict from_im = pass.from_im + part * step;
    double* __restrict to_re = pass.to_re + part * kRadix * step;
    double* __restrict to_im = pass.to_im + part * kRadix * step;
    for (std::int64_t q = 0; q < step; ++q) {
      double re[kRadix], im[kRadix];
#pragma GCC unroll 16
      for (int j = 0; j < kRadix; ++j) re[j] = from_re[j * apart + q], im[j] = from_im[j * apart + q];
      butterfly(re, im);
      to_re[q] = re[0], to_im[q] = im[0];
#pragma GCC unroll 16
      for (int i = 1; i < kRadix; ++i) {
        to_re[i * step + q] = re[i] * cosine[i] - im[i] * sine[i];
        to_im[i * step + q] = re[i] * sine[i] + im[i] * cosine[i];
      }
    }
  }
}

void run_radix(std::int64_t radix, const Pass& pass) {
  switch (radix) {
    case 2:
      return run<2>(pass);
    case 3:
      return run<3>(pass);
    case 4:
      return run<4>(pass);
    case 5:
      return run<5>(pass);
    case 7:
      return run<7>(pass);
    case 11:
      return run<11>(pass);
    default:
      return run<13>(pass);
  }
}

}  // namespace

bool mixed_radix(const MixedRadix& t) {
  std::int64_t length = 1;
  for (std::int64_t i = 0; i < t.factor_count; ++i) length *= t.factors[i];
  double *re = t.re, *im = t.im, *to_re = t.work_re, *to_im = t.work_im;
  std::int64_t rest = length, step = t.columns;
  for (std::int64_t i = 0; i < t.factor_count; ++i) {
    const std::int64_t factor = t.factors[i];
    rest /= factor;
    run_radix(factor, {rest, step, step / t.columns, length, t.cosines, t.sines, t.sign, re, im, to_re, to_im});
    double *was_re = re, *was_im = im;
    re = to_re, im = to_im;
    to_re = was_re, to_im = was_im;
    step *= factor;
  }
  return re == t.work_re;
}

}  // namespace core::cpu::CORE_CPU_VARIANT
