#include "libcore/backend/fft.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <vector>

#include <kissfft/kissfft.hh>

#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::fourier {
namespace {

using Number = std::complex<double>;
using Numbers = std::vector<Number>;

/// Above this a prime factor costs KISS FFT, which takes its square, more than three transforms of twice the length.
constexpr std::int64_t kLargestPrime = 64;

std::int64_t largest_prime(std::int64_t n) {
  std::int64_t largest = 1;
  for (std::int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) largest = p;
  }
  return std::max(largest, n);
}

/// Bluestein's: j k = (j^2 + k^2 - (k - j)^2) / 2 makes the transform a convolution, whose length may be chosen.
class Chirp {
 public:
  Chirp(std::int64_t length, bool inverse)
      : length_(static_cast<std::size_t>(length)),
        padded_(padded_length(length_)),
        forward_(padded_, false),
        backward_(padded_, true),
        chirp_(length_),
        kernel_(padded_),
        work_(padded_),
        spectrum_(padded_) {
    const std::uint64_t period = 2 * static_cast<std::uint64_t>(length);
    for (std::size_t k = 0; k < length_; ++k) {
      const auto square = static_cast<double>(static_cast<std::uint64_t>(k) * k % period);
      chirp_[k] = std::polar(1.0, (inverse ? 1 : -1) * std::numbers::pi * square / static_cast<double>(length));
    }
    Numbers ring(padded_);
    for (std::size_t k = 0; k < length_; ++k) ring[k] = ring[(padded_ - k) % padded_] = std::conj(chirp_[k]);
    forward_.transform(ring.data(), kernel_.data());
  }

  void transform(const Number* in, Number* out) {
    std::fill(work_.begin(), work_.end(), Number(0));
    for (std::size_t k = 0; k < length_; ++k) work_[k] = in[k] * chirp_[k];
    forward_.transform(work_.data(), spectrum_.data());
    for (std::size_t k = 0; k < padded_; ++k) spectrum_[k] *= kernel_[k];
    backward_.transform(spectrum_.data(), work_.data());
    for (std::size_t k = 0; k < length_; ++k) out[k] = work_[k] * chirp_[k] / static_cast<double>(padded_);
  }

 private:
  static std::size_t padded_length(std::size_t length) {
    std::size_t padded = 1;
    while (padded < 2 * length) padded *= 2;
    return padded;
  }
  std::size_t length_, padded_;
  kissfft<double> forward_, backward_;
  Numbers chirp_, kernel_, work_, spectrum_;
};

/// body(plan, begin, end) for parts of `count`, each with a plan of its thread's own: plans hold memory that they work
/// in.
template <class Body>
void in_parallel(const Rows& rows, std::int64_t count, const Body& body) {
  const bool by_chirp = largest_prime(rows.length) > kLargestPrime;
  parallel_for(count, cpu::kGrain / 8 / rows.length + 1, [&](std::int64_t begin, std::int64_t end) {
    if (by_chirp) {
      Chirp plan(rows.length, rows.inverse);
      body(plan, begin, end);
    } else {
      kissfft<double> plan(static_cast<std::size_t>(rows.length), rows.inverse);
      body(plan, begin, end);
    }
  });
}

Numbers row_of(const Rows& rows) {
  return Numbers(static_cast<std::size_t>(rows.length));
}

}  // namespace

template <class T>
void transform(const Rows& rows, const std::complex<T>* in, std::complex<T>* out) {
  in_parallel(rows, rows.count, [&](auto& plan, std::int64_t begin, std::int64_t end) {
    Numbers row = row_of(rows), result = row_of(rows);
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(in + i * rows.length, rows.length, row.begin());
      plan.transform(row.data(), result.data());
      std::complex<T>* to = out + i * rows.length;
      for (std::size_t k = 0; k < row.size(); ++k) to[k] = std::complex<T>(result[k] * rows.scale);
    }
  });
}

/// Of z = a + i b, whose transform is A + i B, where A and B are their own conjugates the other way round.
template <class T>
void to_half(const Rows& rows, const T* in, std::complex<T>* out) {
  in_parallel(rows, (rows.count + 1) / 2, [&](auto& plan, std::int64_t begin, std::int64_t end) {
    Numbers row = row_of(rows), result = row_of(rows);
    const std::size_t n = row.size(), half = n / 2 + 1;
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const bool is_pair = 2 * pair + 1 < rows.count;
      const T* a = in + 2 * pair * rows.length;
      const T* b = a + (is_pair ? rows.length : 0);
      for (std::size_t k = 0; k < n; ++k) row[k] = Number(a[k], is_pair ? b[k] : T(0));
      plan.transform(row.data(), result.data());
      std::complex<T>* to = out + 2 * pair * static_cast<std::int64_t>(half);
      for (std::size_t k = 0; k < half; ++k) {
        const Number z = result[k] * (rows.scale / 2), mirror = std::conj(result[(n - k) % n]) * (rows.scale / 2);
        const Number apart = z - mirror;
        to[k] = std::complex<T>(z + mirror);
        if (is_pair) to[half + k] = std::complex<T>(Number(apart.imag(), -apart.real()));
      }
    }
  });
}

template <class T>
void from_half(const Rows& rows, const std::complex<T>* in, T* out) {
  in_parallel(rows, (rows.count + 1) / 2, [&](auto& plan, std::int64_t begin, std::int64_t end) {
    Numbers row = row_of(rows), result = row_of(rows);
    const std::size_t n = row.size(), half = n / 2 + 1;
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const bool is_pair = 2 * pair + 1 < rows.count;
      const std::complex<T>* a = in + 2 * pair * static_cast<std::int64_t>(half);
      const std::complex<T>* b = a + half;
      for (std::size_t k = 0; k < half; ++k) {
        const bool is_real = k == 0 || 2 * k == n;
        const Number first(a[k].real(), is_real ? T(0) : a[k].imag());
        const Number second = is_pair ? Number(b[k].real(), is_real ? T(0) : b[k].imag()) : Number(0);
        row[k] = Number(first.real() - second.imag(), first.imag() + second.real());
        if (!is_real) row[n - k] = Number(first.real() + second.imag(), second.real() - first.imag());
      }
      plan.transform(row.data(), result.data());
      T* to = out + 2 * pair * rows.length;
      for (std::size_t k = 0; k < n; ++k) {
        to[k] = static_cast<T>(result[k].real() * rows.scale);
        if (is_pair) to[n + k] = static_cast<T>(result[k].imag() * rows.scale);
      }
    }
  });
}

template void transform(const Rows& rows, const std::complex<float>* in, std::complex<float>* out);
template void transform(const Rows& rows, const std::complex<double>* in, std::complex<double>* out);
template void to_half(const Rows& rows, const float* in, std::complex<float>* out);
template void to_half(const Rows& rows, const double* in, std::complex<double>* out);
template void from_half(const Rows& rows, const std::complex<float>* in, float* out);
template void from_half(const Rows& rows, const std::complex<double>* in, double* out);

}  // namespace core::fourier
