#include "zoo/log_mel.h"

#include <gtest/gtest.h>

#include <fstream>

#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/join.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/support/temp_dir.h"

namespace {

/// The values are held to transformers by golden_zoo_folders.
TEST(LogMel, HasAsManyFramesAsWholeHopsGoIntoTheSeconds) {
  const zoo::LogMelOptions small{
      .feature_size = 3, .sampling_rate = 8000, .n_fft = 64, .hop_length = 300, .chunk_length = 1};
  const core::Tensor heard = zoo::log_mel(core::randn({9000}), small);
  EXPECT_EQ(heard.sizes(), (core::Shape{1, 3, 26}));
  // What comes behind the seconds is not heard, and what is missing is silence.
  const core::Tensor sound = core::randn({2, 5000});
  const core::Tensor filled = core::cat({sound, core::zeros({2, 4000})}, 1);
  EXPECT_TRUE(core::equal(zoo::log_mel(sound, small), zoo::log_mel(filled, small)));
}

TEST(LogMel, RefusesWhatIsNoSound) {
  EXPECT_THROW(zoo::log_mel(core::randn({1, 2, 3})), core::Error);
  EXPECT_THROW(zoo::log_mel(core::randn({8}), {.hop_length = 0}), core::Error);
}

TEST(LogMel, RefusesFieldsThatAreNotHere) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "preprocessor_config.json") << R"({"feature_size": 80, "dither": 0.5})";
  try {
    zoo::read_log_mel(dir.path() / "preprocessor_config.json");
    FAIL() << "was read";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.message(), "field 'dither' of WhisperFeatureExtractor is not 0, and nothing is drawn here");
  }
}

}  // namespace
