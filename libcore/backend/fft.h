#pragma once
// Discrete Fourier transforms of rows of complex numbers in host memory. Any length; where its prime factors are small
// the cost is n log n, and a few times that for others. Powers of two from 64 on are computed in T, with errors of the
// size of PyTorch's; all others in double. Thread safety: pure functions of their arrays; several threads work on
// several rows.
// Use: fourier::transform<float>({.count = 3, .length = 8, .inverse = false, .scale = 1}, in, out);

#include <complex>
#include <cstdint>

namespace core::fourier {

struct Rows {
  std::int64_t count;   // of rows, one behind the other
  std::int64_t length;  // numbers of one row, at least 1
  bool inverse;         // the sign of the exponent: + instead of -
  double scale;         // factor of the results
};

/// out[k] = scale * sum over j of in[j] * exp(-+ 2 pi i j k / length). `out` and `in` are different memory.
template <class T>
void transform(const Rows& rows, const std::complex<T>* in, std::complex<T>* out);
/// Of real numbers the first length / 2 + 1 results, as the others are their conjugates. Two rows are one transform
/// where neither is so much larger, or not finite, that the other would show it.
template <class T>
void to_half(const Rows& rows, const T* in, std::complex<T>* out);
/// From those to real numbers; the imaginary parts of the first, and of the last of an even length, do not count.
template <class T>
void from_half(const Rows& rows, const std::complex<T>* in, T* out);

}  // namespace core::fourier
