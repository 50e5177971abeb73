#include "libcore/backend/cpu/fft/power_of_two.h"

#include <cstdint>
#include <numbers>
#include <utility>

#include "libcore/backend/cpu/vector.h"

namespace core::cpu::CORE_CPU_VARIANT {
namespace {

/// As many as AVX2's registers hold: with those of AVX-512 the turned squares would be larger than radix 8.
template <class T>
constexpr int kRowLanes = 32 / static_cast<int>(sizeof(T));
template <class T>
using Lanes = Vector<T, kRowLanes<T>>;
template <class T>
using LaneBits = BitsOf<Lanes<T>>;

/// The even (kOdd = 0) or odd elements of two vectors.
template <class T, int kOdd>
CORE_INLINE LaneBits<T> every_second() {
  LaneBits<T> index{};
  for (int i = 0; i < kRowLanes<T>; ++i) index[i] = 2 * i + kOdd;
  return index;
}
/// Elements of two vectors in turn: those of their first halves, or of their second ones (kHalf = 1).
template <class T, int kHalf>
CORE_INLINE LaneBits<T> in_turn() {
  constexpr int kCount = kRowLanes<T>;
  LaneBits<T> index{};
  for (int i = 0; i < kCount; ++i) index[i] = kHalf * kCount / 2 + i / 2 + i % 2 * kCount;
  return index;
}
template <class T>
CORE_INLINE LaneBits<T> backwards() {
  LaneBits<T> index{};
  for (int i = 0; i < kRowLanes<T>; ++i) index[i] = kRowLanes<T> - 1 - i;
  return index;
}
template <class T>
struct Complex {
  Lanes<T> re, im;
};
template <class T>
CORE_INLINE Complex<T> operator+(const Complex<T>& a, const Complex<T>& b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
CORE_INLINE Complex<T> operator-(const Complex<T>& a, const Complex<T>& b) {
  return {a.re - b.re, a.im - b.im};
}
/// a * -i
template <class T>
CORE_INLINE Complex<T> quarter_turn(const Complex<T>& a) {
  return {a.im, -a.re};
}

template <class T>
CORE_INLINE Complex<T> load_pairs(const T* from) {
  const auto a = load<Lanes<T>>(from), b = load<Lanes<T>>(from + kRowLanes<T>);
  return {__builtin_shuffle(a, b, every_second<T, 0>()), __builtin_shuffle(a, b, every_second<T, 1>())};
}
template <class T>
CORE_INLINE void store_pairs(T* to, const Complex<T>& x) {
  store(to, __builtin_shuffle(x.re, x.im, in_turn<T, 0>()));
  store(to + kRowLanes<T>, __builtin_shuffle(x.re, x.im, in_turn<T, 1>()));
}

template <class T>
CORE_INLINE void butterfly(Complex<T> (&x)[2]) {
  const Complex<T> sum = x[0] + x[1];
  x[1] = x[0] - x[1];
  x[0] = sum;
}
template <class T>
CORE_INLINE void butterfly(Complex<T> (&x)[4]) {
  const Complex<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = quarter_turn(x[1] - x[3]);
  x[0] = a + c, x[1] = b + d, x[2] = a - c, x[3] = b - d;
}
template <class T>
CORE_INLINE void butterfly(Complex<T> (&x)[8]) {
  constexpr T kHalfRoot = static_cast<T>(std::numbers::sqrt2 / 2);
  Complex<T> even[4], odd[4];
  for (int i = 0; i < 4; ++i) even[i] = x[i] + x[i + 4], odd[i] = x[i] - x[i + 4];
  odd[1] = {(odd[1].re + odd[1].im) * kHalfRoot, (odd[1].im - odd[1].re) * kHalfRoot};
  odd[2] = quarter_turn(odd[2]);
  odd[3] = {(odd[3].im - odd[3].re) * kHalfRoot, (odd[3].re + odd[3].im) * -kHalfRoot};
  butterfly(even);
  butterfly(odd);
  for (int i = 0; i < 4; ++i) x[2 * i] = even[i], x[2 * i + 1] = odd[i];
}

/// Real and imaginary parts in arrays of their own.
template <class T>
struct Parts {
  T *re, *im;
};

/// By 8, each vector with the numbers of several parts: results of a part lie side by side.
template <class T>
void first_pass(const PowerRow<T>& row, const Parts<T>& to) {
  constexpr int kCount = kRowLanes<T>;
  const std::int64_t parts = row.length / 8;
  for (std::int64_t part = 0; part < parts; part += kCount) {
    Complex<T> x[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      x[j] = load_pairs(row.in + 2 * (j * parts + part));
      if (row.inverse) std::swap(x[j].re, x[j].im);
    }
    butterfly(x);
#pragma GCC unroll 8
    for (int i = 1; i < 8; ++i) {
      const T* at = row.twiddles + 2 * (i - 1) * parts + part;
      const auto re = load<Lanes<T>>(at), im = load<Lanes<T>>(at + parts);
      x[i] = {x[i].re * re - x[i].im * im, x[i].re * im + x[i].im * re};
    }
#pragma GCC unroll 2
    for (int square = 0; square < 8; square += kCount) {
      Lanes<T> re[kCount], im[kCount];
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) re[i] = x[square + i].re, im[i] = x[square + i].im;
      transpose<T, kCount>(re);
      transpose<T, kCount>(im);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        store(to.re + (part + i) * 8 + square, re[i]);
        store(to.im + (part + i) * 8 + square, im[i]);
      }
    }
  }
}

template <class T>
struct Step {
  std::int64_t parts, step;
  const T* twiddles;
  Parts<T> from, to;
};

template <class T, int kRadix>
CORE_INLINE void load_all(const Step<T>& pass, std::int64_t at, Complex<T> (&x)[kRadix]) {
  const std::int64_t apart = pass.parts * pass.step;
#pragma GCC unroll 8
  for (int j = 0; j < kRadix; ++j) {
    x[j] = {load<Lanes<T>>(pass.from.re + j * apart + at), load<Lanes<T>>(pass.from.im + j * apart + at)};
  }
}

template <int kRadix, class T>
void middle_pass(const Step<T>& pass) {
  const T* w = pass.twiddles;
  for (std::int64_t part = 0; part < pass.parts; ++part, w += 2 * (kRadix - 1)) {
    for (std::int64_t q = 0; q < pass.step; q += kRowLanes<T>) {
      Complex<T> x[kRadix];
      load_all(pass, part * pass.step + q, x);
      butterfly(x);
      const std::int64_t to = part * kRadix * pass.step + q;
      store(pass.to.re + to, x[0].re);
      store(pass.to.im + to, x[0].im);
#pragma GCC unroll 8
      for (int i = 1; i < kRadix; ++i) {
        const T re = w[2 * i - 2], im = w[2 * i - 1];
        store(pass.to.re + to + i * pass.step, x[i].re * re - x[i].im * im);
        store(pass.to.im + to + i * pass.step, x[i].re * im + x[i].im * re);
      }
    }
  }
}

template <int kRadix, class T>
void last_pass(const Step<T>& pass, const PowerRow<T>& row) {
  for (std::int64_t q = 0; q < pass.step; q += kRowLanes<T>) {
    Complex<T> x[kRadix];
    load_all(pass, q, x);
    butterfly(x);
#pragma GCC unroll 8
    for (int i = 0; i < kRadix; ++i) {
      if (row.inverse) std::swap(x[i].re, x[i].im);
      store_pairs<T>(row.out + 2 * (i * pass.step + q), {x[i].re * row.scale, x[i].im * row.scale});
    }
  }
}

template <int kRadix, class T>
void run(const Step<T>& pass, const PowerRow<T>& row) {
  pass.parts == 1 ? last_pass<kRadix>(pass, row) : middle_pass<kRadix>(pass);
}

template <class T>
void transform(const PowerRow<T>& row) {
  const std::int64_t size = row.length + kPowerApart;
  Parts<T> from{row.work, row.work + size}, to{row.work + 2 * size, row.work + 3 * size};
  first_pass(row, from);
  const T* twiddles = row.twiddles + 2 * 7 * (row.length / 8);
  std::int64_t parts = row.length / 8;
  for (std::size_t i = 1; i < row.passes->count; ++i) {
    const std::int64_t factor = row.passes->factors[i], step = row.length / parts;
    parts /= factor;
    const Step<T> pass{parts, step, twiddles, from, to};
    factor == 8 ? run<8>(pass, row) : factor == 4 ? run<4>(pass, row) : run<2>(pass, row);
    twiddles += 2 * (factor - 1) * parts;
    std::swap(from, to);
  }
}

/// Of z[k] = x[2 k] + i x[2 k + 1], whose transform is Z: number k of the spectrum is E + w^k O, where E and O are the
/// transforms of the even and the odd x: (Z[k] + conj(Z[half - k])) / 2 and (Z[k] - conj(Z[half - k])) / 2 i.
template <class T>
void to_half(const PowerHalf<T>& row) {
  const std::int64_t half = row.pairs.length;
  PowerRow<T> pairs = row.pairs;
  pairs.in = row.in, pairs.out = row.spectrum, pairs.inverse = false, pairs.scale = 1;
  transform(pairs);
  const T* z = row.spectrum;
  const T scale = row.scale / 2, scale_im = row.inverse ? -scale : scale;
  row.out[0] = (z[0] + z[1]) * row.scale, row.out[1] = 0;
  row.out[2 * half] = (z[0] - z[1]) * row.scale, row.out[2 * half + 1] = 0;
  const auto one = [&](std::int64_t k) {
    const T* const a = z + 2 * k;
    const T* const b = z + 2 * (half - k);
    const T even_re = a[0] + b[0], even_im = a[1] - b[1], odd_re = a[0] - b[0], odd_im = a[1] + b[1];
    row.out[2 * k] = (even_re + row.cosines[k] * odd_im - row.sines[k] * odd_re) * scale;
    row.out[2 * k + 1] = (even_im - row.cosines[k] * odd_re - row.sines[k] * odd_im) * scale_im;
  };
  std::int64_t k = 1;
  for (; k + kRowLanes<T> <= half; k += kRowLanes<T>) {
    const Complex<T> a = load_pairs(z + 2 * k);
    Complex<T> b = load_pairs(z + 2 * (half - k - kRowLanes<T> + 1));
    b = {__builtin_shuffle(b.re, backwards<T>()), __builtin_shuffle(b.im, backwards<T>())};
    const auto cosine = load<Lanes<T>>(row.cosines + k), sine = load<Lanes<T>>(row.sines + k);
    const Lanes<T> even_re = a.re + b.re, even_im = a.im - b.im, odd_re = a.re - b.re, odd_im = a.im + b.im;
    store_pairs<T>(row.out + 2 * k, {(even_re + cosine * odd_im - sine * odd_re) * scale,
                                     (even_im - cosine * odd_re - sine * odd_im) * scale_im});
  }
  for (; k < half; ++k) one(k);
}

/// The other way round.
template <class T>
void from_half(const PowerHalf<T>& row) {
  const std::int64_t half = row.pairs.length;
  const T sign = row.inverse ? 1 : -1;
  const T* x = row.in;
  T* z = row.spectrum;
  z[0] = x[0] + x[2 * half], z[1] = x[0] - x[2 * half];
  const auto one = [&](std::int64_t k) {
    const T* const a = x + 2 * k;
    const T* const b = x + 2 * (half - k);
    const T even_re = a[0] + b[0], even_im = sign * (a[1] - b[1]), odd_re = a[0] - b[0], odd_im = sign * (a[1] + b[1]);
    z[2 * k] = even_re - row.cosines[k] * odd_im - row.sines[k] * odd_re;
    z[2 * k + 1] = even_im + row.cosines[k] * odd_re - row.sines[k] * odd_im;
  };
  std::int64_t k = 1;
  for (; k + kRowLanes<T> <= half; k += kRowLanes<T>) {
    const Complex<T> a = load_pairs(x + 2 * k);
    Complex<T> b = load_pairs(x + 2 * (half - k - kRowLanes<T> + 1));
    b = {__builtin_shuffle(b.re, backwards<T>()), __builtin_shuffle(b.im, backwards<T>())};
    const auto cosine = load<Lanes<T>>(row.cosines + k), sine = load<Lanes<T>>(row.sines + k);
    const Lanes<T> even_re = a.re + b.re, even_im = (a.im - b.im) * sign;
    const Lanes<T> odd_re = a.re - b.re, odd_im = (a.im + b.im) * sign;
    store_pairs<T>(z + 2 * k, {even_re - cosine * odd_im - sine * odd_re, even_im + cosine * odd_re - sine * odd_im});
  }
  for (; k < half; ++k) one(k);
  PowerRow<T> pairs = row.pairs;
  pairs.in = z, pairs.out = row.out, pairs.inverse = true, pairs.scale = row.scale;
  transform(pairs);
}

}  // namespace

void fill_power_kernels(PowerKernels<float>& single, PowerKernels<double>& twice) {
  single = {transform<float>, to_half<float>, from_half<float>};
  twice = {transform<double>, to_half<double>, from_half<double>};
}

}  // namespace core::cpu::CORE_CPU_VARIANT
