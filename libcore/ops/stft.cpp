#include "libcore/ops/stft.h"

#include <string>
#include <vector>

#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/fft.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"

namespace core {
namespace {

using core::detail::fail;

/// What both calls have in common, with its defaults.
struct Frames {
  std::int64_t n_fft, hop, length;
  Tensor window;  // of the caller, perhaps undefined
};

template <class Options>
Frames frames_of(std::int64_t n_fft, const Options& o) {
  return {n_fft, o.hop_length.value_or(n_fft / 4), o.win_length.value_or(n_fft), o.window};
}

std::string text_of(const std::optional<bool>& value) {
  return value ? std::to_string(*value ? 1 : 0) : "None";
}
std::string text_of(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "None";
}
/// PyTorch's names of tensor classes, old and new.
std::string class_of(const Tensor& x) {
  const std::string type = scalar_type_name(x.dtype());
  if (is_complex(x)) return (x.is_cuda() ? "CUDA" : "CPU") + type + "Type";
  return (x.is_cuda() ? "torch.cuda." : "torch.") + type + "Tensor";
}
std::string text_of(const Frames& f) {
  const std::string window = f.window.defined() ? std::string("torch.") + scalar_type_name(f.window.dtype()) +
                                                      "Tensor{" + to_list(f.window.sizes()) + "}"
                                                : "None";
  return "n_fft=" + std::to_string(f.n_fft) + ", hop_length=" + std::to_string(f.hop) +
         ", win_length=" + std::to_string(f.length) + ", window=" + window;
}

bool is_whole_window(const Frames& f) {
  return !f.window.defined() || (f.window.dim() == 1 && f.window.size(0) == f.length);
}

/// The window, ones where there is none, in the middle of n_fft numbers.
Tensor padded_window(const Frames& f, const Tensor& like) {
  Tensor window = f.window;
  if (!window.defined()) window = ones({f.length}, {.dtype = parts_type(like.dtype()), .device = like.device()});
  if (f.length == f.n_fft) return window;
  const std::int64_t left = (f.n_fft - f.length) / 2, right = f.n_fft - f.length - left;
  const TensorOptions as_window{.dtype = window.dtype(), .device = window.device()};
  return cat({zeros({left}, as_window), window, zeros({right}, as_window)});
}

PaddingMode padding_mode(const std::string& name) {
  if (name == "constant") return PaddingMode::zeros;
  if (name == "reflect" || name == "replicate" || name == "circular") return parse_padding_mode(name);
  fail("Unrecognised padding mode " + name, ErrorCode::not_implemented);
}

Tensor centred(const Tensor& x, std::int64_t n_fft, const std::string& mode) {
  Shape wide(static_cast<std::size_t>(std::max<std::int64_t>(0, 3 - x.dim())), 1);
  for (const std::int64_t size : x.sizes()) wide.push_back(size);
  const Tensor padded = pad(x.view(wide), {n_fft / 2, n_fft / 2}, padding_mode(mode));
  Shape back = x.sizes();
  back[back.size() - 1] = padded.size(-1);
  return padded.reshape(back);
}

void check_stft(const Tensor& x, const Frames& f, const StftOptions& o) {
  const std::string call =
      "stft(" + class_of(x) + to_list(x.sizes()) + ", " + text_of(f) +
      ", normalized=" + text_of(std::optional<bool>(o.normalized)) + ", onesided=" + text_of(o.onesided) +
      ", return_complex=" + text_of(std::optional<bool>(o.return_complex)) + ", align_to_window=None) : expected ";
  if (!is_inexact(x.dtype())) {
    fail(call + "a tensor of floating point or complex values", ErrorCode::not_implemented);
  }
  if (x.dim() < 1 || x.dim() > 2) fail(call + "a 1D or 2D tensor");
  if (f.n_fft <= 0 || f.n_fft > x.size(-1)) {
    fail(call + "0 < n_fft < " + std::to_string(x.size(-1)) + ", but got n_fft=" + std::to_string(f.n_fft));
  }
  if (f.hop <= 0) fail(call + "hop_length > 0, but got hop_length=" + std::to_string(f.hop));
  if (f.length <= 0 || f.length > f.n_fft) {
    fail(call + "0 < win_length <= n_fft, but got win_length=" + std::to_string(f.length));
  }
  if (!is_whole_window(f)) {
    fail(call + "a 1D window tensor of size equal to win_length=" + std::to_string(f.length) +
         ", but got window with size " + to_list(f.window.sizes()));
  }
}

void check_istft(const Tensor& x, const Frames& f, const IstftOptions& o, bool onesided) {
  const std::string call = "istft(" + class_of(x) + to_list(x.sizes()) + ", " + text_of(f) +
                           ", center=" + text_of(std::optional<bool>(o.center)) +
                           ", normalized=" + text_of(std::optional<bool>(o.normalized)) +
                           ", onesided=" + text_of(o.onesided) + ", length=" + text_of(o.length) +
                           ", return_complex=" + text_of(std::optional<bool>(o.return_complex)) + ") : ";
  const std::int64_t frequencies = onesided ? f.n_fft / 2 + 1 : f.n_fft;
  if (x.numel() == 0) fail(call + "input tensor cannot be empty.");
  if (x.size(-2) != frequencies) {
    fail(call + "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft" +
         (onesided ? " / 2 + 1 when onesided=True, but got " : " when onesided=False, but got ") +
         std::to_string(x.size(-2)));
  }
  if (f.hop <= 0 || f.hop > f.length) fail(call + "expected 0 < hop_length <= win_length");
  if (f.length <= 0 || f.length > f.n_fft) fail(call + "expected 0 < win_length <= n_fft");
  if (!is_whole_window(f)) {
    fail(call + "Invalid window shape. window has to be 1D and length of `win_length`");
  }
}

/// (batch, frames, n_fft) as one signal: what overlaps is added.
Tensor overlapped(const Tensor& frames, std::int64_t hop) {
  const std::int64_t batch = frames.size(0), count = frames.size(1), n = frames.size(2);
  const TensorOptions on_device{.device = frames.device()};
  const Tensor places = arange(0, count, on_device).unsqueeze(1) * hop + arange(0, n, on_device);
  const Tensor none = zeros({batch, n + hop * (count - 1)}, {.dtype = frames.dtype(), .device = frames.device()});
  return index_add(none, 1, places.reshape({-1}), frames.reshape({batch, -1}));
}

/// The frames of a signal from their spectra, (batch, frames, n_fft).
Tensor frames_from(const Tensor& spectra, const Frames& f, const IstftOptions& o, bool onesided) {
  const std::string norm = o.normalized ? "ortho" : "backward";
  if (o.return_complex) {
    if (onesided) fail("Cannot have onesided output if window or input is complex");
    return fft::ifft(spectra, {.norm = norm});
  }
  if (f.window.defined() && is_complex(f.window)) {
    fail("Complex windows are incompatible with return_complex=False");
  }
  const Tensor half = onesided ? spectra : spectra.narrow(-1, 0, f.n_fft / 2 + 1);
  return fft::irfft(half, {.n = f.n_fft, .norm = norm});
}

/// The part from `start` to `end` of `y`, weighed by the windows that lie over it.
Tensor weighed(const Tensor& y, const Tensor& weights, std::int64_t start, std::int64_t end) {
  const std::int64_t last = std::min(end, y.size(1)), length = std::max<std::int64_t>(0, last - start);
  const Tensor weight = weights.narrow(1, std::min(start, y.size(1)), length);
  if (weight.numel() == 0) {
    fail(
        "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
        "'dim' argument.");
  }
  if (abs(weight.detach()).min().item<double>() < 1e-11) fail("window overlap add min: 1");
  const Tensor out = y.narrow(1, start, length) / weight;
  if (end <= y.size(1)) return out;
  warn(
      "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
      "Please check your center and hop_length settings.");
  return cat({out, zeros({y.size(0), end - last}, {.dtype = y.dtype(), .device = y.device()})}, 1);
}

}  // namespace

Tensor stft(const Tensor& x, std::int64_t n_fft, const StftOptions& options) {
  const Frames f = frames_of(n_fft, options);
  const Tensor signal = options.center ? centred(x, n_fft, options.pad_mode) : x;
  check_stft(signal, f, options);
  const bool of_complex = is_complex(signal) || (f.window.defined() && is_complex(f.window));
  const bool onesided = options.onesided.value_or(!of_complex);
  if (onesided && of_complex) fail("Cannot have onesided output if window or input is complex");
  Tensor frames = signal.unfold(-1, n_fft, f.hop);
  if (f.window.defined() || f.length < n_fft) frames = frames * padded_window(f, signal);
  const fft::Options along{.norm = options.normalized ? "ortho" : "backward"};
  const Tensor spectra = (onesided ? fft::rfft(frames, along) : fft::fft(frames, along)).transpose(-1, -2);
  return options.return_complex ? spectra : view_as_real(spectra);
}

Tensor istft(const Tensor& x, std::int64_t n_fft, const IstftOptions& options) {
  if (!is_complex(x)) {
    fail("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.",
         ErrorCode::type);
  }
  if (x.dim() < 2 || x.dim() > 3) {
    fail("istft: expected a tensor with 2 or 3 dimensions, but got " + std::to_string(x.dim()));
  }
  const Frames f = frames_of(n_fft, options);
  const bool onesided = options.onesided.value_or(x.size(-2) != n_fft);
  check_istft(x, f, options, onesided);
  const Tensor spectra = (x.dim() == 2 ? x.unsqueeze(0) : x).transpose(1, 2);
  const Tensor window = padded_window(f, x), frames = frames_from(spectra, f, options, onesided) * window;
  const Tensor weights = overlapped((window * window).expand({1, frames.size(1), n_fft}), f.hop);
  const Tensor whole = overlapped(frames, f.hop);
  const std::int64_t start = options.center ? n_fft / 2 : 0;
  const std::int64_t end = options.length ? start + *options.length : whole.size(1) - start;
  const Tensor y = weighed(whole, weights, start, end);
  return x.dim() == 2 ? y.squeeze(0) : y;
}

}  // namespace core
