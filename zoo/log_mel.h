#pragma once
// What Whisper listens to: the logarithm of how strong each band of frequencies is in each moment of a sound, as
// transformers' WhisperFeatureExtractor makes it. Thread safety: pure functions.
// Use: core::Tensor features = zoo::log_mel(samples, zoo::read_log_mel("whisper-tiny/preprocessor_config.json"));

#include <cstdint>
#include <filesystem>

#include "libcore/tensor/tensor.h"

namespace zoo {

struct LogMelOptions {
  std::int64_t feature_size = 80;      ///< bands
  std::int64_t sampling_rate = 16000;  ///< samples a second; bands reach up to 8000 Hz
  std::int64_t n_fft = 400;            ///< samples that one moment looks at
  std::int64_t hop_length = 160;       ///< samples from one moment to the next
  std::int64_t chunk_length = 30;      ///< seconds: shorter sounds are filled up with silence, longer ones cut
};

/// From preprocessor_config.json. Errors: those of Config::read() and Fields.
LogMelOptions read_log_mel(const std::filesystem::path& file);

/// samples (n) or (batch, n), floating, between -1 and 1 -> (1 or batch, feature_size, frames), f32, as many frames as
/// whole hops go into the seconds. Errors: Error(usage) for another number of dimensions and for sizes that are not
/// above 0.
core::Tensor log_mel(const core::Tensor& samples, const LogMelOptions& options = {});

}  // namespace zoo
