#include "tools/support/sound_file.h"

#ifdef CKPT_WITH_SOUND
#include <samplerate.h>
#include <sndfile.h>
#endif

#include <algorithm>
#include <cmath>
#include <memory>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {

using core::Error;
using core::ErrorCode;

#ifdef CKPT_WITH_SOUND
namespace {

constexpr sf_count_t kMostSamples = sf_count_t{24} * 3600 * 48000;
constexpr sf_count_t kAtOnce = 1 << 16;
constexpr double kMostRatio = 256;  ///< of rates, for libsamplerate

struct Closer {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

/// All channels of a file as their mean. What the header says is believed only as far as there are samples.
std::vector<float> mean_of_channels(SNDFILE* file, const SF_INFO& info) {
  const auto channels = static_cast<std::size_t>(info.channels);
  std::vector<float> piece(static_cast<std::size_t>(kAtOnce) * channels), out;
  while (true) {
    const sf_count_t read = sf_readf_float(file, piece.data(), kAtOnce);
    for (std::size_t i = 0; i < static_cast<std::size_t>(std::max<sf_count_t>(read, 0)); ++i) {
      float sum = 0;
      for (std::size_t c = 0; c < channels; ++c) sum += piece[i * channels + c];
      out.push_back(sum / static_cast<float>(channels));
    }
    if (read < kAtOnce) return out;
    if (static_cast<sf_count_t>(out.size()) > kMostSamples) {
      throw Error(ErrorCode::refused, "is longer than " + std::to_string(kMostSamples) + " samples");
    }
  }
}

std::vector<float> resampled(const std::vector<float>& samples, double ratio) {
  if (samples.empty()) return {};
  std::vector<float> out(static_cast<std::size_t>(std::ceil(static_cast<double>(samples.size()) * ratio)) + 1);
  SRC_DATA data = {};
  data.data_in = samples.data();
  data.data_out = out.data();
  data.input_frames = static_cast<long>(samples.size());
  data.output_frames = static_cast<long>(out.size());
  data.src_ratio = ratio;
  if (const int fault = src_simple(&data, SRC_SINC_BEST_QUALITY, 1); fault != 0) {
    throw Error(ErrorCode::unsupported, "cannot be resampled: " + std::string(src_strerror(fault)));
  }
  out.resize(static_cast<std::size_t>(data.output_frames_gen));
  return out;
}

}  // namespace

bool reads_sounds() {
  return true;
}

Sound read_sound(const std::filesystem::path& path, std::int64_t rate) {
  return core::with_context(path.string(), [&] {
    if (!std::filesystem::is_regular_file(path)) throw Error(ErrorCode::io, "is not there, or no file");
    SF_INFO info = {};
    const std::unique_ptr<SNDFILE, Closer> file(sf_open(path.c_str(), SFM_READ, &info));
    if (!file) throw Error(ErrorCode::corrupt, "is no sound: " + core::printable(sf_strerror(nullptr)));
    if (info.channels < 1 || info.samplerate < 1) throw Error(ErrorCode::corrupt, "has no channel or no rate");
    const double ratio = static_cast<double>(rate) / info.samplerate;
    if (ratio > kMostRatio || ratio < 1 / kMostRatio) {
      throw Error(ErrorCode::unsupported, "has " + std::to_string(info.samplerate) +
                                              " samples a second, which is too " + (ratio > 1 ? "few" : "many"));
    }
    Sound sound{mean_of_channels(file.get(), info), info.samplerate, info.channels};
    if (std::ranges::any_of(sound.samples, [](float x) { return !std::isfinite(x); })) {
      throw Error(ErrorCode::corrupt, "has samples that are NaN or infinite");
    }
    if (info.samplerate != rate) sound.samples = resampled(sound.samples, ratio);
    return sound;
  });
}

#else

bool reads_sounds() {
  return false;
}

Sound read_sound(const std::filesystem::path& path, std::int64_t) {
  throw Error(ErrorCode::unsupported,
              path.string() + ": this program was built without libsndfile and libsamplerate, which read sounds");
}

#endif

}  // namespace cli
