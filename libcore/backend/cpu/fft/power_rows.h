#pragma once
// The transforms of backend/fft.h for rows whose length is a power of two: false, with nothing done, where it is none
// or a short one. Thread safety: as there. Use: if (transform_powers(rows, in, out)) return;

#include <complex>

#include "libcore/backend/fft.h"

namespace core::fourier {

template <class T>
bool transform_powers(const Rows& rows, const std::complex<T>* in, std::complex<T>* out);
template <class T>
bool powers_to_half(const Rows& rows, const T* in, std::complex<T>* out);
template <class T>
bool powers_from_half(const Rows& rows, const std::complex<T>* in, T* out);

}  // namespace core::fourier
