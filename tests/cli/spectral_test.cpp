// ckpt stat --spectral.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using ckpt::JsonDocument;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

ckpt::Value identity(std::int64_t size, float scale) {
  std::vector<float> values(static_cast<std::size_t>(size * size), 0);
  for (std::int64_t i = 0; i < size; ++i) values[static_cast<std::size_t>(i * size + i)] = scale;
  ckpt::Entry entry = float_entry(values);
  entry.shape = {size, size};
  return ckpt::Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

}  // namespace

TEST(StatSpectral, PrintsATableOfMatrices) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"fc.weight", identity(4, 3)}, {"fc.bias", tensor({1, 2})}}));
  const Outcome done = run_ckpt(dir.path(), {"stat", "--spectral", "net.pth"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out,
              HasSubstr("NAME       MATRIX  FROBENIUS  SPECTRAL  STABLE RANK  EFFECTIVE  RANK  CONDITION  HOW"));
  EXPECT_THAT(done.out,
              HasSubstr("fc.weight  4 x 4           6         3            4          4     4          1  exact"));
  EXPECT_THAT(done.out, HasSubstr("1 matrix, 1 other tensor\n"));
  EXPECT_THAT(done.out, Not(HasSubstr("left out")));
}

TEST(StatSpectral, SketchesWhatIsLargeAndSaysSo) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", identity(40, 2)}}));
  const std::vector<std::string> words = {"stat", "--spectral", "--exact", "8", "net.pth"};
  const Outcome done = run_ckpt(dir.path(), words);
  EXPECT_THAT(done.out, HasSubstr(">= 40"));
  EXPECT_THAT(done.out, HasSubstr("sketch of 40"));
  EXPECT_THAT(done.out, HasSubstr("(seed 0)"));
  EXPECT_EQ(run_ckpt(dir.path(), words).out, done.out);
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), as_json).out);
  const ckpt::JsonView matrix = json.root().at("matrices").items()[0];
  EXPECT_EQ(matrix.at("method").as_text(), "sketch");
  EXPECT_NEAR(matrix.at("spectral").as_real(), 2, 1e-12);
  EXPECT_EQ(matrix.at("rank_at_least").as_integer(), 40);
}

TEST(StatSpectral, NamesWhatItDidNotReach) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", identity(40, 2)}, {"v", tensor({1, 2})}}));
  const Outcome done = run_ckpt(dir.path(), {"stat", "--spectral", "--time-limit", "1e-9", "net.pth"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("left out (the time was over): w\n"));
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"--histogram"}, {"--fail-on", "nan"}, {"--html", "page.html"}}) {
    std::vector<std::string> words = {"stat", "--spectral", "net.pth"};
    words.insert(words.end(), other.begin(), other.end());
    expect_refused(dir, words, 2, "--spectral", other[0]);
  }
}
