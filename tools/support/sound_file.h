#pragma once
// Sounds from files: WAV, FLAC, Ogg, MP3 and what else Debian's libsndfile reads, as one channel at a given rate.
// Thread safety: independent. Use: std::vector<float> samples = cli::read_sound("speech.wav", 16000);

#include <cstdint>
#include <filesystem>
#include <vector>

namespace cli {

struct Sound {
  std::vector<float> samples;  ///< between -1 and 1, the mean of all channels
  std::int64_t rate = 0;       ///< of the file, samples a second
  std::int64_t channels = 0;   ///< of the file
};

/// Whether such files can be read: libsndfile and libsamplerate were there when this was built.
bool reads_sounds();

/// At another rate than the file's the samples are resampled by libsamplerate's best windowed sinc. Integers of 8, 16,
/// 24 and 32 bits are divided by 2^7, 2^15, 2^23 and 2^31. Errors, which name the file: Error(io) when it is not there,
/// Error(corrupt) for what is no sound or holds NaN, Error(refused) for more than 24 hours at 48000 samples a second,
/// Error(unsupported) where the libraries are missing.
Sound read_sound(const std::filesystem::path& file, std::int64_t rate);

}  // namespace cli
