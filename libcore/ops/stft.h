#pragma once
// Spectra of a signal's frames and back, as torch.stft and torch.istft, with gradients. Thread safety: pure functions.
// Errors: PyTorch's texts, which begin with the call: "stft(torch.FloatTensor[20], n_fft=30, hop_length=7, ...) :
// expected 0 < n_fft < 20, but got n_fft=30".
// Use: core::Tensor spectra = core::stft(x, 400, {.hop_length = 160, .window = core::hann_window(400)});

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/tensor/tensor.h"

namespace core {

struct StftOptions {
  std::optional<std::int64_t> hop_length = {};  ///< n_fft / 4
  std::optional<std::int64_t> win_length = {};  ///< n_fft
  Tensor window = {};                           ///< of win_length; ones. It stands in the middle of n_fft
  bool center = true;                           ///< frame t is around t * hop_length; the ends are padded
  std::string pad_mode = "reflect";
  bool normalized = false;
  std::optional<bool> onesided = {};  ///< whether signal and window are real
  bool return_complex = true;         ///< false: pairs of real numbers
};
struct IstftOptions {
  std::optional<std::int64_t> hop_length = {};
  std::optional<std::int64_t> win_length = {};
  Tensor window = {};
  bool center = true;
  bool normalized = false;
  std::optional<bool> onesided = {};  ///< whether there are other than n_fft frequencies
  std::optional<std::int64_t> length = {};
  bool return_complex = false;
};

/// (length) or (batch, length) to (frequencies, frames) or (batch, frequencies, frames).
Tensor stft(const Tensor& x, std::int64_t n_fft, const StftOptions& options = {});
/// The signal whose frames are nearest to these spectra. Error(runtime) "... window overlap add min: 1" where no window
/// reaches.
Tensor istft(const Tensor& x, std::int64_t n_fft, const IstftOptions& options = {});

}  // namespace core
