#include "zoo/log_mel.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/stft.h"
#include "libcore/ops/window.h"
#include "libcore/tensor/factory.h"
#include "zoo/config.h"

namespace zoo {

using core::Error;
using core::ErrorCode;
using core::Tensor;

namespace {

constexpr double kHighest = 8000;         // Hz
constexpr double kBend = 1000;            // Hz, from where on mels grow with the logarithm (Slaney)
constexpr double kBendMel = 15;           // kBend in mels
constexpr double kStepsOf6Point4 = 27;    // mels from a frequency to 6.4 times it, above the bend
constexpr double kRange = 8, kShift = 4;  // of logarithms: what lies further below the loudest is silence
constexpr double kQuietest = 1e-10;

double mel_of(double hertz) {
  return hertz < kBend ? 3 * hertz / 200 : kBendMel + std::log(hertz / kBend) * kStepsOf6Point4 / std::log(6.4);
}

double hertz_of(double mel) {
  return mel < kBendMel ? 200 * mel / 3 : kBend * std::exp(std::log(6.4) / kStepsOf6Point4 * (mel - kBendMel));
}

/// How much each frequency counts in each band: triangles of one area, (bands, frequencies).
Tensor filters(const LogMelOptions& o) {
  const std::int64_t frequencies = o.n_fft / 2 + 1;
  std::vector<double> corners;
  for (std::int64_t i = 0; i < o.feature_size + 2; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(o.feature_size + 1);
    corners.push_back(hertz_of(mel_of(kHighest) * share));
  }
  std::vector<float> weights;
  const double step = static_cast<double>(o.sampling_rate / 2) / static_cast<double>(frequencies - 1);
  for (std::size_t band = 0; band + 2 < corners.size(); ++band) {
    const double left = corners[band], top = corners[band + 1], right = corners[band + 2];
    for (std::int64_t i = 0; i < frequencies; ++i) {
      const double hertz = step * static_cast<double>(i);
      const double height = std::min((hertz - left) / (top - left), (right - hertz) / (right - top));
      weights.push_back(static_cast<float>(std::max(0.0, height) * 2 / (right - left)));
    }
  }
  return core::from_values(weights).reshape({o.feature_size, frequencies});
}

/// (batch, n) -> (batch, seconds * rate).
Tensor of_one_length(const Tensor& samples, const LogMelOptions& o) {
  const std::int64_t wanted = o.chunk_length * o.sampling_rate, there = samples.size(1);
  if (there >= wanted) return samples.slice(1, 0, wanted);
  return core::pad(samples, {0, wanted - there});
}

}  // namespace

LogMelOptions read_log_mel(const std::filesystem::path& file) {
  const Config config = Config::read(file);
  return core::with_context(file.string(), [&] {
    LogMelOptions o;
    Fields f("WhisperFeatureExtractor", config);
    f.pass({"feature_extractor_type", "processor_class", "padding_side", "return_attention_mask", "n_samples",
            "nb_max_frames", "mel_filters", "image_processor_type"});
    if (f.number("dither", 0) != 0) f.refuse("dither", "is not 0, and nothing is drawn here");
    if (f.number("padding_value", 0) != 0) f.refuse("padding_value", "is not 0, which is silence");
    o.feature_size = f.count("feature_size", o.feature_size);
    o.sampling_rate = f.count("sampling_rate", o.sampling_rate);
    o.n_fft = f.count("n_fft", o.n_fft, 2);
    o.hop_length = f.count("hop_length", o.hop_length);
    o.chunk_length = f.count("chunk_length", o.chunk_length);
    f.finish();
    return o;
  });
}

Tensor log_mel(const Tensor& samples, const LogMelOptions& options) {
  const std::int64_t least = std::min(
      {options.feature_size, options.sampling_rate, options.n_fft - 1, options.hop_length, options.chunk_length});
  if (least < 1) throw Error(ErrorCode::usage, "the sizes of a spectrum are above 0");
  if (samples.dim() != 1 && samples.dim() != 2) {
    throw Error(ErrorCode::usage, "a sound is samples (n) or a batch of them (batch, n)");
  }
  Tensor x = (samples.dim() == 1 ? samples.unsqueeze(0) : samples).to(core::DType::f32);
  x = of_one_length(x, options);
  const Tensor window = core::hann_window(options.n_fft, true, {.device = x.device()});
  const Tensor waves = core::stft(x, options.n_fft, {.hop_length = options.hop_length, .window = window});
  const Tensor size = core::abs(waves.slice(2, 0, waves.size(2) - 1));  // (batch, frequencies, frames)
  const Tensor bands = core::matmul(filters(options).to(x.device()), size * size);
  const Tensor loud = core::log10(core::clamp(bands, kQuietest));
  return (core::maximum(loud, core::amax(loud, {1, 2}, true) - kRange) + kShift) / kShift;
}

}  // namespace zoo
