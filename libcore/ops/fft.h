#pragma once
// Fourier transforms, as torch.fft: results, dtypes, errors and gradients are PyTorch's. Integers become the default
// float type; real numbers complex ones where the result is complex. Thread safety: pure functions. Errors(runtime):
// "Invalid number of data points (0) specified", "Invalid normalization mode: \"x\"", "FFT dims must be unique", "When
// given, dim and shape arguments must have the same length"; Error(type) "rfft expects a real input tensor, but got
// ComplexFloat"; Error(not_implemented) "Unsupported dtype Half", and for devices without complex kernels.
// Use: core::Tensor spectrum = core::fft::rfft(x, {.dim = 0, .norm = "ortho"});

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core::fft {

struct Options {
  std::optional<std::int64_t> n = {};  ///< length of the transform: the input is cut, or padded with zeros, to it
  std::int64_t dim = -1;
  std::string norm = "backward";  ///< which way is divided by n: "backward", "forward"; "ortho": both by its root
};
struct NdOptions {
  std::optional<Shape> s = {};    ///< lengths, of the last dimensions where `dim` is not given; -1: as the input is
  std::optional<Shape> dim = {};  ///< all; of fft2 and its like the last two
  std::string norm = "backward";
};

Tensor fft(const Tensor& x, const Options& options = {});
Tensor ifft(const Tensor& x, const Options& options = {});
/// Of real numbers: the first n / 2 + 1 results, as the others are their conjugates.
Tensor rfft(const Tensor& x, const Options& options = {});
/// From those to real numbers; n is 2 (size - 1) where it is not given.
Tensor irfft(const Tensor& x, const Options& options = {});
/// Of a signal that is real in the other domain: irfft and rfft the other way round.
Tensor hfft(const Tensor& x, const Options& options = {});
Tensor ihfft(const Tensor& x, const Options& options = {});

Tensor fft2(const Tensor& x, const NdOptions& options = {});
Tensor ifft2(const Tensor& x, const NdOptions& options = {});
Tensor rfft2(const Tensor& x, const NdOptions& options = {});
Tensor irfft2(const Tensor& x, const NdOptions& options = {});
Tensor fftn(const Tensor& x, const NdOptions& options = {});
Tensor ifftn(const Tensor& x, const NdOptions& options = {});
Tensor rfftn(const Tensor& x, const NdOptions& options = {});
Tensor irfftn(const Tensor& x, const NdOptions& options = {});
/// hfft() and ihfft() along the last of the dimensions, fft() and ifft() along the others.
Tensor hfft2(const Tensor& x, const NdOptions& options = {});
Tensor ihfft2(const Tensor& x, const NdOptions& options = {});
Tensor hfftn(const Tensor& x, const NdOptions& options = {});
Tensor ihfftn(const Tensor& x, const NdOptions& options = {});

/// The frequencies of the results of fft() and of rfft(), for samples `d` apart.
Tensor fftfreq(std::int64_t n, double d = 1, const TensorOptions& options = {});
Tensor rfftfreq(std::int64_t n, double d = 1, const TensorOptions& options = {});
/// Puts frequency 0 into the middle of `dims` (all of them where not given), and back.
Tensor fftshift(const Tensor& x, const std::optional<Shape>& dims = {});
Tensor ifftshift(const Tensor& x, const std::optional<Shape>& dims = {});

}  // namespace core::fft
