// Sounds from files: kinds of samples, channels, rates, and what is no sound; and what `ckpt zoo run` says of them.
// What a Whisper writes about them is compared with transformers in golden_sound_run.

#include "tools/support/sound_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>
#include <vector>

#include "libcore/base/bytes.h"
#include "libcore/base/error.h"
#include "tests/cli/program.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// A WAV file. `kind`: 1 integers, 3 floats.
std::string wave_file(int kind, int bits, int channels, int rate, const std::string& data) {
  core::ByteVector head;
  core::append(head, core::as_bytes(std::string_view("RIFF")));
  core::append_le(head, static_cast<std::uint32_t>(36 + data.size()));
  core::append(head, core::as_bytes(std::string_view("WAVEfmt ")));
  core::append_le(head, std::uint32_t{16});
  core::append_le(head, static_cast<std::uint16_t>(kind));
  core::append_le(head, static_cast<std::uint16_t>(channels));
  core::append_le(head, static_cast<std::uint32_t>(rate));
  core::append_le(head, static_cast<std::uint32_t>(rate * channels * bits / 8));
  core::append_le(head, static_cast<std::uint16_t>(channels * bits / 8));
  core::append_le(head, static_cast<std::uint16_t>(bits));
  core::append(head, core::as_bytes(std::string_view("data")));
  core::append_le(head, static_cast<std::uint32_t>(data.size()));
  return std::string(core::as_text(head)) + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class SoundFile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cli::reads_sounds()) GTEST_SKIP() << "built without libsndfile";
  }
  fs::path write(const std::string& name, const std::string& content) const {
    std::ofstream(dir_.path() / name, std::ios::binary) << content;
    return dir_.path() / name;
  }
  std::vector<float> read(const std::string& content) const {
    return cli::read_sound(write("x.wav", content), 16000).samples;
  }
  std::string fault(const fs::path& path) const {
    try {
      cli::read_sound(path, 16000);
    } catch (const core::Error& error) {
      return std::string(core::name(error.code())) + ": " + error.what();
    }
    return "no fault";
  }
  test::TempDir dir_;
};

TEST_F(SoundFile, IntegersAreDividedByTheirRangeAndChannelsBecomeTheirMean) {
  EXPECT_THAT(read(wave_file(1, 16, 1, 16000, bytes_of<std::int16_t>({0, 16384, -32768}))), ElementsAre(0, 0.5F, -1));
  EXPECT_THAT(read(wave_file(1, 8, 1, 16000, bytes_of<std::uint8_t>({128, 192, 0}))), ElementsAre(0, 0.5F, -1));
  EXPECT_THAT(read(wave_file(1, 24, 1, 16000, std::string("\0\0\x40\0\0\x80", 6))), ElementsAre(0.5F, -1));
  EXPECT_THAT(read(wave_file(1, 32, 1, 16000, bytes_of<std::int32_t>({1 << 30}))), ElementsAre(0.5F));
  EXPECT_THAT(read(wave_file(3, 32, 2, 16000, bytes_of<float>({0.25F, 0.75F, -1, 0}))), ElementsAre(0.5F, -0.5F));
}

TEST_F(SoundFile, AnotherRateBecomesTheOneThatIsWanted) {
  for (const int rate : {8000, 22050, 44100, 48000}) {
    std::vector<float> wave;
    const auto at = [](int i, int per_second) { return std::sin(2 * std::numbers::pi * 440 * i / per_second); };
    for (int i = 0; i < rate; ++i) wave.push_back(static_cast<float>(0.5 * at(i, rate)));
    const cli::Sound sound = cli::read_sound(write("x.wav", wave_file(3, 32, 1, rate, bytes_of(wave))), 16000);
    EXPECT_EQ(sound.rate, rate);
    ASSERT_NEAR(static_cast<double>(sound.samples.size()), 16000, 2) << rate;
    for (std::size_t i = 400; i < 15600; ++i) {  // the ends have silence beside them
      ASSERT_THAT(sound.samples[i], FloatNear(static_cast<float>(0.5 * at(static_cast<int>(i), 16000)), 1e-3F)) << rate;
    }
  }
}

TEST_F(SoundFile, WhatIsNoSoundIsNamed) {
  EXPECT_THAT(fault(write("x.wav", "no sound")), AllOf(HasSubstr("corrupt: "), HasSubstr("x.wav: is no sound: ")));
  EXPECT_THAT(fault(dir_.path() / "none.wav"), AllOf(HasSubstr("io: "), HasSubstr("none.wav: is not there")));
  EXPECT_THAT(fault(write("x.wav", wave_file(3, 32, 1, 16000, bytes_of<float>({std::nanf("")})))),
              HasSubstr("has samples that are NaN or infinite"));
  EXPECT_THAT(fault(write("x.wav", wave_file(1, 16, 1, 11, bytes_of<std::int16_t>({1, 2})))),
              HasSubstr("has 11 samples a second, which is too few"));
  // A header that claims more than is there.
  std::string cut = wave_file(1, 16, 1, 16000, bytes_of<std::int16_t>(std::vector<std::int16_t>(1000, 5)));
  EXPECT_LE(read(cut.substr(0, 1044)).size(), 500U);
}

class SoundRun : public SoundFile {
 protected:
  void SetUp() override {
    SoundFile::SetUp();
    const auto golden = test::golden_file("sounds");
    if (!golden) GTEST_SKIP() << "no golden data";
    fs::copy(*golden, dir_.path(), fs::copy_options::recursive);
  }
  test::Outcome run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"zoo", "run"});
    return test::run_ckpt(dir_.path(), arguments);
  }
  void expect_error(const std::vector<std::string>& arguments, int code, const std::string& text) const {
    const test::Outcome done = run(arguments);
    EXPECT_EQ(done.code, code) << done.out << done.err;
    EXPECT_THAT(done.err, HasSubstr(text));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
};

TEST_F(SoundRun, SaysWhatItHeard) {
  const test::Outcome done = run({"many/", "stereo24.wav", "--generate", "3"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("WhisperForConditionalGeneration (many/) on cpu\n"
                                  "stereo24.wav: 0.3 s, 2 channels at 16000 samples a second\n"));
}

TEST_F(SoundRun, ALongSoundIsHeardInPieces) {
  write("long.wav", wave_file(1, 16, 1, 16000, bytes_of(std::vector<std::int16_t>(80000, 100))));
  const test::Outcome done = run({"many/", "long.wav", "--generate", "2"});
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.err, HasSubstr("long.wav: is heard in 3 pieces of 2 s, each for itself"));
  EXPECT_THAT(run({"many/", "long.wav", "--json", "--generate", "2"}).out, HasSubstr("\"pieces\": ["));
}

TEST_F(SoundRun, TakesLanguagesByTheirNames) {
  const auto in = [&](const std::string& language) {
    return run({"many/", "mono16.wav", "--generate", "3", "--json", "--language", language}).out;
  };
  EXPECT_THAT(in("de"), HasSubstr("\"language\": \"<|de|>\""));
  for (const char* name : {"german", "German", "DE", "<|de|>"}) EXPECT_EQ(in(name), in("de")) << name;
  expect_error({"many/", "mono16.wav", "--language", "dutch"}, 2, "the model has no language 'dutch'; it has en, de");
  expect_error({"many/", "mono16.wav", "--language", "klingon"}, 2, "the model has no language 'klingon'");
}

TEST_F(SoundRun, WhatDoesNotFitIsSaid) {
  expect_error({"many/"}, 2, "nothing to listen to; --input names a sound");
  expect_error({"many/", "many/config.json"}, 3, "is no sound");
  expect_error({"many/", "none.wav"}, 4, "none.wav: is not there");
  expect_error({"many/", "mono16.wav", "--language", "xx"}, 2, "the model has no language 'xx'; it has en, de, fr");
  expect_error({"many/", "mono16.wav", "--task", "sing"}, 2,
               "the model has no task 'sing'; it has transcribe, translate");
  expect_error({"english/", "mono16.wav", "--language", "en"}, 2, "the model has no language 'en'; it has one alone");
  expect_error({"many/", "mono16.wav", "--generate", "60"}, 2, "60 new tokens are too many");
  expect_error({"many/", "mono16.wav", "--crop", "3"}, 2, "--crop is not for a folder of a model that takes sounds");
  fs::remove(dir_.path() / "many/preprocessor_config.json");
  expect_error({"many/", "mono16.wav"}, 4, "preprocessor_config.json");
}

}  // namespace
