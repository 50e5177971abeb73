#include "libcore/backend/fft.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <type_traits>
#include <vector>

#include <kissfft/kissfft.hh>

#include "libcore/backend/cpu/fft/circle.h"
#include "libcore/backend/cpu/fft/mixed_radix.h"
#include "libcore/backend/cpu/fft/power_rows.h"
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::cpu {
namespace {

bool transform_columns(const MixedRadix& t) {
  static const auto run = CORE_BY_ISA(mixed_radix);
  return run(t);
}

}  // namespace
}  // namespace core::cpu

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

/// What transforms of one length need, where its factors are small.
struct Plan {
  std::vector<std::int64_t> factors;
  std::vector<double> cosines, sines;  ///< of 2 pi k / length

  explicit Plan(std::int64_t length) : cosines(static_cast<std::size_t>(length)), sines(cosines.size()) {
    for (const std::int64_t factor : {4, 2, 3, 5, 7, 11, 13}) {
      for (; length % factor == 0; length /= factor) factors.push_back(factor);
    }
    std::sort(factors.rbegin(), factors.rend());  // the vectors of one column's later passes are longer
    const auto n = static_cast<std::int64_t>(cosines.size());
    for (std::int64_t k = 0; k < n; ++k) {
      const CirclePoint point = circle_point(k, n);
      cosines[static_cast<std::size_t>(k)] = point.cosine;
      sines[static_cast<std::size_t>(k)] = point.sine;
    }
  }
};
using PlanPtr = std::shared_ptr<const Plan>;

/// Null where a factor of the length is large.
PlanPtr plan_of(std::int64_t length) {
  return largest_prime(length) > cpu::kLargestFactor ? nullptr : kept_plan<Plan>(length);
}

/// Numbers of several columns, those of one number side by side.
struct Columns {
  std::int64_t first, count;
  double *re, *im;
};

/// load(columns), the transform, store(columns) for all `count` columns, some at a time.
template <class Load, class Store>
void by_columns(const Plan& plan, const Rows& rows, std::int64_t count, const Load& load, const Store& store) {
  constexpr std::int64_t kMostNumbers = 1024, kMostColumns = 8;  // longer columns fill vectors by themselves
  constexpr std::int64_t kApart = 72;  // so that numbers of one place do not fall into the same lines of the cache
  const std::int64_t width = std::min(count, std::clamp<std::int64_t>(kMostNumbers / rows.length, 1, kMostColumns));
  const std::int64_t grain = cpu::kGrain / 8 / (rows.length * width) + 1;
  parallel_for((count + width - 1) / width, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t size = rows.length * width + kApart;
    const auto memory = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(4 * size));
    double* const re = memory.get();
    double *const im = re + size, *const work_re = im + size, *const work_im = work_re + size;
    for (std::int64_t group = begin; group < end; ++group) {
      Columns columns{group * width, std::min(width, count - group * width), re, im};
      load(columns);
      const bool in_work = cpu::transform_columns(
          {columns.count, plan.factors.data(), static_cast<std::int64_t>(plan.factors.size()), plan.cosines.data(),
           plan.sines.data(), rows.inverse ? 1.0 : -1.0, re, im, work_re, work_im});
      if (in_work) columns.re = work_re, columns.im = work_im;
      store(columns);
    }
  });
}

template <class T>
void transform_columns(const Plan& plan, const Rows& rows, const std::complex<T>* in, std::complex<T>* out) {
  const std::int64_t n = rows.length;
  by_columns(
      plan, rows, rows.count,
      [&](const Columns& to) {
        for (std::int64_t c = 0; c < to.count; ++c) {
          const std::complex<T>* from = in + (to.first + c) * n;
          for (std::int64_t k = 0; k < n; ++k) {
            to.re[k * to.count + c] = from[k].real();
            to.im[k * to.count + c] = from[k].imag();
          }
        }
      },
      [&](const Columns& from) {
        for (std::int64_t c = 0; c < from.count; ++c) {
          std::complex<T>* to = out + (from.first + c) * n;
          for (std::int64_t k = 0; k < n; ++k) {
            to[k] = {static_cast<T>(from.re[k * from.count + c] * rows.scale),
                     static_cast<T>(from.im[k * from.count + c] * rows.scale)};
          }
        }
      });
}

/// One row, or two that share a transform.
struct Pair {
  std::int64_t row;
  bool two;  ///< this row and the next
};

/// The largest magnitude, a NaN where there is one: as integers, magnitudes have the same order, and NaN behind all.
template <class T>
T largest_magnitude(const T* row, std::int64_t size) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  Bits largest = 0;
  for (std::int64_t k = 0; k < size; ++k) {
    largest = std::max(largest, std::bit_cast<Bits>(row[k]) & std::numeric_limits<Bits>::max());
  }
  return std::bit_cast<T>(largest);
}

/// Rounding in a shared transform is that of the larger row, and a NaN or an infinity in one is in both.
template <class T>
bool may_share(const T* rows, std::int64_t size) {
  constexpr T kRoom = sizeof(T) == 4 ? 1 << 20 : 16;  // all is computed in double
  const T a = largest_magnitude(rows, size), b = largest_magnitude(rows + size, size);
  return std::isfinite(a) && std::isfinite(b) && std::max(a, b) <= std::min(a, b) * kRoom;
}

/// Of `count` rows of `size` numbers each.
template <class T>
std::vector<Pair> pairs_of(const T* rows, std::int64_t count, std::int64_t size) {
  std::vector<std::uint8_t> shared(static_cast<std::size_t>(count / 2));
  parallel_for(count / 2, cpu::kGrain / (2 * size) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      shared[static_cast<std::size_t>(i)] = may_share(rows + 2 * i * size, size) ? 1 : 0;
    }
  });
  std::vector<Pair> pairs;
  pairs.reserve(static_cast<std::size_t>(count + 1) / 2);
  for (std::int64_t row = 0; row < count; row += 2) {
    const bool two = row + 1 < count;
    const bool share = two && shared[static_cast<std::size_t>(row / 2)] != 0;
    pairs.push_back({row, share});
    if (two && !share) pairs.push_back({row + 1, false});
  }
  return pairs;
}
template <class T>
std::vector<Pair> pairs_of(const std::complex<T>* rows, std::int64_t count, std::int64_t size) {
  return pairs_of(reinterpret_cast<const T*>(rows), count, 2 * size);
}

/// As to_half() below.
template <class T>
void halve_columns(const Plan& plan, const Rows& rows, const std::vector<Pair>& pairs, const T* in,
                   std::complex<T>* out) {
  const std::int64_t n = rows.length, half = n / 2 + 1;
  const double scale = rows.scale / 2;
  by_columns(
      plan, rows, static_cast<std::int64_t>(pairs.size()),
      [&](const Columns& to) {
        for (std::int64_t c = 0; c < to.count; ++c) {
          const auto [row, two] = pairs[static_cast<std::size_t>(to.first + c)];
          const T* a = in + row * n;
          for (std::int64_t k = 0; k < n; ++k) {
            to.re[k * to.count + c] = a[k];
            to.im[k * to.count + c] = two ? a[n + k] : T(0);
          }
        }
      },
      [&](const Columns& from) {
        for (std::int64_t c = 0; c < from.count; ++c) {
          const auto [row, two] = pairs[static_cast<std::size_t>(from.first + c)];
          std::complex<T>* to = out + row * half;
          for (std::int64_t k = 0; k < half; ++k) {
            const std::int64_t at = k * from.count + c, mirror = (k == 0 ? 0 : n - k) * from.count + c;
            const double re = from.re[at], im = from.im[at], re_back = from.re[mirror], im_back = from.im[mirror];
            to[k] = {static_cast<T>((re + re_back) * scale), static_cast<T>((im - im_back) * scale)};
            if (two) to[half + k] = {static_cast<T>((im + im_back) * scale), static_cast<T>((re_back - re) * scale)};
          }
        }
      });
}

/// As from_half() below.
template <class T>
void restore_columns(const Plan& plan, const Rows& rows, const std::vector<Pair>& pairs, const std::complex<T>* in,
                     T* out) {
  const std::int64_t n = rows.length, half = n / 2 + 1;
  by_columns(
      plan, rows, static_cast<std::int64_t>(pairs.size()),
      [&](const Columns& to) {
        for (std::int64_t c = 0; c < to.count; ++c) {
          const auto [row, two] = pairs[static_cast<std::size_t>(to.first + c)];
          const std::complex<T>* a = in + row * half;
          for (std::int64_t k = 0; k < half; ++k) {
            const bool is_real = k == 0 || 2 * k == n;
            const double a_re = a[k].real(), a_im = is_real ? 0 : a[k].imag();
            const double b_re = two ? a[half + k].real() : 0, b_im = two && !is_real ? a[half + k].imag() : 0;
            to.re[k * to.count + c] = a_re - b_im, to.im[k * to.count + c] = a_im + b_re;
            if (!is_real) to.re[(n - k) * to.count + c] = a_re + b_im, to.im[(n - k) * to.count + c] = b_re - a_im;
          }
        }
      },
      [&](const Columns& from) {
        for (std::int64_t c = 0; c < from.count; ++c) {
          const auto [row, two] = pairs[static_cast<std::size_t>(from.first + c)];
          T* to = out + row * n;
          for (std::int64_t k = 0; k < n; ++k) {
            to[k] = static_cast<T>(from.re[k * from.count + c] * rows.scale);
            if (two) to[n + k] = static_cast<T>(from.im[k * from.count + c] * rows.scale);
          }
        }
      });
}

}  // namespace

template <class T>
void transform(const Rows& rows, const std::complex<T>* in, std::complex<T>* out) {
  if (transform_powers(rows, in, out)) return;
  if (const PlanPtr plan = plan_of(rows.length)) return transform_columns(*plan, rows, in, out);
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
  if (powers_to_half(rows, in, out)) return;
  const std::vector<Pair> pairs = pairs_of(in, rows.count, rows.length);
  if (const PlanPtr plan = plan_of(rows.length)) return halve_columns(*plan, rows, pairs, in, out);
  in_parallel(rows, static_cast<std::int64_t>(pairs.size()), [&](auto& plan, std::int64_t begin, std::int64_t end) {
    Numbers row = row_of(rows), result = row_of(rows);
    const std::size_t n = row.size(), half = n / 2 + 1;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto [first_row, is_pair] = pairs[static_cast<std::size_t>(i)];
      const T* a = in + first_row * rows.length;
      const T* b = a + (is_pair ? rows.length : 0);
      for (std::size_t k = 0; k < n; ++k) row[k] = Number(a[k], is_pair ? b[k] : T(0));
      plan.transform(row.data(), result.data());
      std::complex<T>* to = out + first_row * static_cast<std::int64_t>(half);
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
  if (powers_from_half(rows, in, out)) return;
  const std::vector<Pair> pairs = pairs_of(in, rows.count, rows.length / 2 + 1);
  if (const PlanPtr plan = plan_of(rows.length)) return restore_columns(*plan, rows, pairs, in, out);
  in_parallel(rows, static_cast<std::int64_t>(pairs.size()), [&](auto& plan, std::int64_t begin, std::int64_t end) {
    Numbers row = row_of(rows), result = row_of(rows);
    const std::size_t n = row.size(), half = n / 2 + 1;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto [first_row, is_pair] = pairs[static_cast<std::size_t>(i)];
      const std::complex<T>* a = in + first_row * static_cast<std::int64_t>(half);
      const std::complex<T>* b = a + half;
      for (std::size_t k = 0; k < half; ++k) {
        const bool is_real = k == 0 || 2 * k == n;
        const Number first(a[k].real(), is_real ? T(0) : a[k].imag());
        const Number second = is_pair ? Number(b[k].real(), is_real ? T(0) : b[k].imag()) : Number(0);
        row[k] = Number(first.real() - second.imag(), first.imag() + second.real());
        if (!is_real) row[n - k] = Number(first.real() + second.imag(), second.real() - first.imag());
      }
      plan.transform(row.data(), result.data());
      T* to = out + first_row * rows.length;
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
