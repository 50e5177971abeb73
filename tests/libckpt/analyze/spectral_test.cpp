// Singular values beside numpy.linalg.svd's (numpy 2.4.6), and sketches beside those.

#include "libckpt/analyze/spectral.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "libckpt/analyze/matrix_stats.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

/// Numbers that are exact in f32, made by integers.
double number(std::uint64_t i, std::uint64_t j) {
  return static_cast<double>(static_cast<std::int64_t>((i * i * 31 + j * 17 + i * j * 7 + (i * j * j) % 11) % 53) -
                             26) /
         8;
}

ckpt::MatrixRows matrix(std::uint64_t rows, std::uint64_t columns,
                        std::function<double(std::uint64_t, std::uint64_t)> at = number) {
  return {rows, columns, [=](std::uint64_t first, std::uint64_t count, double* out) {
            for (std::uint64_t i = 0; i < count; ++i) {
              for (std::uint64_t j = 0; j < columns; ++j) out[i * columns + j] = at(first + i, j);
            }
          }};
}

ckpt::NamedEntry entry(const std::string& name, core::Shape shape, std::uint64_t columns,
                       const std::function<double(std::uint64_t, std::uint64_t)>& at = number) {
  std::vector<float> values;
  for (std::uint64_t k = 0; k < static_cast<std::uint64_t>(shape.numel()); ++k) {
    values.push_back(static_cast<float>(at(k / columns, k % columns)));
  }
  ckpt::Entry out = float_entry(values);
  out.shape = std::move(shape);
  return {{}, name, std::make_shared<const ckpt::Entry>(std::move(out))};
}

void expect_near(const std::vector<double>& have, const std::vector<double>& want) {
  ASSERT_EQ(have.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-12 * want[0]) << i;
}

}  // namespace

TEST(SingularValues, AreThoseOfNumpy) {
  expect_near(ckpt::singular_values(matrix(12, 7)),
              {9.51542469574841, 8.152944610108317, 6.955649176561119, 6.668749287495785, 5.119110049699337,
               3.2431399098934266, 1.3003539291669268});
  expect_near(ckpt::singular_values(matrix(7, 12)),
              {8.992019659901683, 8.356285864309001, 6.869113216454608, 5.893550917754925, 5.036674375244756,
               4.067706077022482, 2.378016757291077});
  expect_near(ckpt::singular_values(matrix(40, 9)),
              {16.22284127999626, 14.590700901295053, 13.049291920387722, 12.832541049732374, 11.857000545331394,
               11.398717905951848, 10.504827043766257, 9.185519579553443, 8.758579827756085});
}

TEST(SingularValues, OfHugeAndTinyNumbersDoNotOverflow) {
  for (double scale : {1e-300, 1e300}) {
    const std::vector<double> values =
        ckpt::singular_values(matrix(12, 7, [&](auto i, auto j) { return number(i, j) * scale; }));
    EXPECT_NEAR(values[0] / scale, 9.51542469574841, 1e-11);
  }
}

TEST(RandomizedSvd, ComesCloseToTheLargestValuesAndNeverAbove) {
  const ckpt::SketchedSvd sketch = ckpt::randomized_svd(matrix(700, 600));
  const std::vector<double> all = ckpt::singular_values(matrix(700, 600));
  ASSERT_EQ(sketch.values.size(), 128U);
  EXPECT_NEAR(sketch.values[0], 225.78709078, 225.8e-3);  // numpy's
  EXPECT_NEAR(sketch.values[1], 221.75306738, 221.8e-3);
  double squares = 0;
  for (double value : all) squares += value * value;
  EXPECT_NEAR(sketch.frobenius, std::sqrt(squares), 1e-9 * sketch.frobenius);
  for (std::size_t i = 0; i < sketch.values.size(); ++i) EXPECT_LE(sketch.values[i], all[i] * (1 + 1e-12)) << i;
}

TEST(RandomizedSvd, IsRepeatable) {
  const ckpt::MatrixRows a = matrix(300, 400);
  const std::vector<double> first = ckpt::randomized_svd(a, {.size = 32, .seed = 7}).values;
  EXPECT_EQ(ckpt::randomized_svd(a, {.size = 32, .seed = 7}).values, first);
  EXPECT_NE(ckpt::randomized_svd(a, {.size = 32, .seed = 8}).values, first);
  EXPECT_TRUE(ckpt::randomized_svd(a, {.stopped = [] { return true; }}).values.empty());
}

TEST(RandomizedSvd, SeesEveryDirectionOfAnIdentity) {
  const auto identity = [](std::uint64_t i, std::uint64_t j) { return i == j ? 1.0 : 0.0; };
  const ckpt::SketchedSvd sketch = ckpt::randomized_svd(matrix(200, 200, identity), {.size = 64});
  for (double value : sketch.values) EXPECT_NEAR(value, 1, 1e-10);
}

TEST(RandomizedSvd, GivesVectorsThatMakeTheMatrixAgain) {
  const auto low = [](std::uint64_t i, std::uint64_t j) {
    double sum = 0;
    for (std::uint64_t k = 0; k < 5; ++k) sum += number(i, k) * number(k + 3, j);
    return sum;
  };
  const ckpt::SketchedSvd svd = ckpt::randomized_svd(matrix(50, 70, low), {.size = 20, .vectors = true});
  ASSERT_EQ(svd.values.size(), 20U);
  EXPECT_LT(svd.values[5], 1e-6 * svd.values[0]);
  for (std::uint64_t i = 0; i < 50; ++i) {
    for (std::uint64_t j = 0; j < 70; ++j) {
      double sum = 0;
      for (std::uint64_t k = 0; k < 5; ++k) sum += svd.left[i * 20 + k] * svd.values[k] * svd.right[j * 20 + k];
      EXPECT_NEAR(sum, low(i, j), 1e-8 * svd.values[0]);
    }
  }
}

TEST(RandomizedSvd, OfSmallMatricesIsWhole) {
  const auto low = [](std::uint64_t i, std::uint64_t j) {
    return number(i, 1) * number(2, j + 3) + number(i, 2) * number(4, j);
  };
  for (std::uint64_t rows = 1; rows <= 12; ++rows) {
    for (std::uint64_t columns = 1; columns <= 12; ++columns) {
      for (const auto& at : {std::function<double(std::uint64_t, std::uint64_t)>(number), {low}}) {
        const ckpt::MatrixRows a = matrix(rows, columns, at);
        const std::vector<double> all = ckpt::singular_values(a);
        const ckpt::SketchedSvd svd = ckpt::randomized_svd(a, {.size = 32, .vectors = true});
        const std::size_t count = svd.values.size();
        ASSERT_EQ(count, all.size());
        for (std::size_t k = 0; k < count; ++k) EXPECT_NEAR(svd.values[k], all[k], 1e-7 * all[0]) << rows << columns;
        for (std::uint64_t i = 0; i < rows; ++i) {
          for (std::uint64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (std::size_t k = 0; k < count; ++k) {
              sum += svd.left[i * count + k] * svd.values[k] * svd.right[j * count + k];
            }
            EXPECT_NEAR(sum, at(i, j), 1e-12 * all[0]) << rows << " x " << columns;
          }
        }
      }
    }
  }
}

TEST(SpectralStats, SummarisesMatricesAsNumpyDoes) {
  const ckpt::SpectralReport report =
      ckpt::spectral_stats({entry("square", {96, 64}, 64), entry("conv", {12, 7, 1, 1}, 7), entry("bias", {7}, 7),
                            entry("zeros", {3, 4}, 4, [](auto, auto) { return 0.0; })});
  ASSERT_EQ(report.matrices.size(), 3U);
  EXPECT_EQ(report.others, 1U);
  const ckpt::MatrixStats& square = report.matrices[0];
  EXPECT_EQ(square.sketched, 0U);
  EXPECT_NEAR(square.frobenius, 149.32300350247445, 1e-9);
  EXPECT_NEAR(square.spectral, 36.89305402532461, 1e-10);
  EXPECT_EQ(square.rank, 63U);  // matrix_rank
  EXPECT_GT(square.condition, 1e13);
  const ckpt::MatrixStats& conv = report.matrices[1];
  EXPECT_EQ(conv.columns, 7U);
  EXPECT_NEAR(conv.condition, 7.317565227679572, 1e-10);
  EXPECT_NEAR(conv.stable_rank, std::pow(16.978847134007655 / 9.51542469574841, 2), 1e-10);
  EXPECT_NEAR(*conv.effective_rank, 6.2, 0.3);
  EXPECT_EQ(report.matrices[2].rank, 0U);
  EXPECT_TRUE(std::isinf(report.matrices[2].condition));
}

TEST(SpectralStats, BoundsWhatASketchDoesNotSee) {
  const ckpt::SpectralReport report =
      ckpt::spectral_stats({entry("large", {700, 600}, 600)}, {.exact = 100, .sketch = 64, .seed = 3});
  ASSERT_EQ(report.matrices.size(), 1U);
  EXPECT_EQ(report.matrices[0].sketched, 64U);
  EXPECT_EQ(report.matrices[0].rank, 64U);
  EXPECT_FALSE(report.matrices[0].effective_rank);
  const ckpt::SpectralReport strict =
      ckpt::spectral_stats({entry("large", {700, 600}, 600)}, {.exact = 1000, .tolerance = 0.5});
  EXPECT_LT(strict.matrices[0].rank, 316U);
  EXPECT_EQ(ckpt::spectral_stats({entry("large", {700, 600}, 600)}, {.exact = 1000}).matrices[0].rank, 316U);
}

TEST(SpectralStats, NamesWhatIsLeftOut) {
  const auto nan = [](std::uint64_t i, std::uint64_t j) {
    return i + j == 3 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
  };
  const std::vector<ckpt::NamedEntry> entries = {entry("nan", {5, 6}, 6, nan), entry("large nan", {90, 80}, 80, nan),
                                                 entry("good", {5, 6}, 6), entry("empty", {0, 6}, 6)};
  const ckpt::SpectralReport report = ckpt::spectral_stats(entries, {.exact = 10, .sketch = 16});
  ASSERT_EQ(report.matrices.size(), 1U);
  ASSERT_EQ(report.left_out.size(), 3U);
  EXPECT_EQ(report.left_out[0].name, "nan");
  EXPECT_THAT(report.left_out[0].why, HasSubstr("NaN, infinite"));
  EXPECT_EQ(report.left_out[1].name, "large nan");
  EXPECT_THAT(report.left_out[2].why, HasSubstr("no values"));
  const ckpt::SpectralReport late = ckpt::spectral_stats(entries, {.time_limit = 1e-9});
  EXPECT_TRUE(late.matrices.empty());
  EXPECT_EQ(late.left_out[1].why, "the time was over");
  const ckpt::SpectralReport narrow = ckpt::spectral_stats({entries[2]}, {.max_memory = 100});
  EXPECT_THAT(narrow.left_out[0].why, HasSubstr("of memory, and 100 B are allowed"));
}

TEST(SpectralStats, NamesWhatDoublesCannotSquare) {
  const auto of = [](const std::string& name, double value) -> ckpt::NamedEntry {
    auto out = std::make_shared<ckpt::Entry>();
    out->dtype = core::DType::f64;
    out->shape = {30, 30};
    const std::vector<double> values(900, value);
    core::ByteVector bytes;
    core::append(bytes, std::as_bytes(std::span(values)));
    out->bytes = ckpt::memory_source(std::move(bytes));
    return {{}, name, out};
  };
  const std::vector<ckpt::NamedEntry> entries = {of("large", 1e308), of("small", 1e-200), of("zeros", 0)};
  const ckpt::SpectralReport exact = ckpt::spectral_stats(entries);
  ASSERT_EQ(exact.matrices.size(), 2U);
  EXPECT_DOUBLE_EQ(exact.matrices[0].spectral, 3e-199);  // matrices that are decomposed are scaled first
  ASSERT_TRUE(exact.matrices[0].effective_rank);
  EXPECT_NEAR(*exact.matrices[0].effective_rank, 1, 1e-9);
  EXPECT_THAT(exact.left_out.at(0).why, HasSubstr("too large to be squared"));
  const ckpt::SpectralReport sketched = ckpt::spectral_stats(entries, {.exact = 10});
  ASSERT_EQ(sketched.matrices.size(), 1U);
  EXPECT_EQ(sketched.matrices[0].name, "zeros");
  EXPECT_EQ(sketched.left_out.at(1).name, "small");
  EXPECT_THAT(sketched.left_out[1].why, HasSubstr("too small to be squared"));
}

TEST(SpectralStats, TakesTiedNamesOnce) {
  const ckpt::NamedEntry first = entry("a", {12, 7}, 7);
  const ckpt::SpectralReport report = ckpt::spectral_stats({first, {{}, "b", first.entry}});
  ASSERT_EQ(report.matrices.size(), 2U);
  EXPECT_EQ(report.matrices[1].name, "b");
  EXPECT_EQ(report.matrices[0].spectral, report.matrices[1].spectral);
}
