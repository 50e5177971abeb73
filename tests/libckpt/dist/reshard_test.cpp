// Saved by any number of ranks, read by any other: what that reads of the files, and how tensors of a rank are filled.
#include <gmock/gmock.h>

#include <fstream>

#include "libckpt/ckpt.h"
#include "libckpt/dist/load.h"
#include "libckpt/dist/save.h"
#include "libckpt/io/kept_memory.h"
#include "libcore/tensor/factory.h"
#include "tests/libckpt/dist/samples.h"
#include "tests/libckpt/dist/thread_ranks.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTakesMore = true;
#else
constexpr bool kTakesMore = false;
#endif

constexpr std::int64_t kRows = 320;
constexpr std::int64_t kColumns = 2560;
const core::Shape kShape{kRows, kColumns};

ckpt::dist::Pieces pieces_of(int rank, int ranks) {
  return {{"rows", ckpt::dist::shard(kShape, 0, rank, ranks)}, {"columns", ckpt::dist::shard(kShape, 1, rank, ranks)}};
}

ckpt::Value whole() {
  static const ckpt::Value made = test::dict({{"rows", test::matrix(1, kShape)}, {"columns", test::matrix(9, kShape)}});
  return made;
}

void save(const fs::path& path, int ranks, const std::string& layout) {
  std::vector<std::string> errors = test::run_ranks_as_threads(ranks, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::SaveOptions options;
    options.layout = layout;
    options.pieces = pieces_of(who.rank(), ranks);
    options.durable = false;
    ckpt::dist::save_by(who, ckpt::dist::cut_to_pieces(whole(), options.pieces), path, options);
  });
  ASSERT_THAT(errors, Each(""));
}

/// Bytes that this process has asked the system for.
std::uint64_t bytes_asked_for() {
  std::ifstream io("/proc/self/io");
  std::string word;
  std::uint64_t bytes = 0;
  io >> word >> bytes;
  return bytes;
}

/// The tensors of a rank, of another value than any that is saved.
core::StateDict tensors_of(const ckpt::dist::Pieces& pieces) {
  core::StateDict state;
  for (const auto& [name, piece] : pieces) state.set(name, core::full(piece.sizes, -5.0));
  return state;
}

std::string difference(const core::StateDict& state, const ckpt::dist::Pieces& pieces) {
  ckpt::Value expected = ckpt::dist::cut_to_pieces(whole(), pieces);
  for (const auto& [name, tensor] : state) {
    core::ByteVector wanted = ckpt::read_all(*expected.find(name)->as_entry().bytes);
    if (std::memcmp(tensor.raw_data(), wanted.data(), wanted.size()) != 0) return name + " has other values";
  }
  return "";
}

class Reshard : public testing::TestWithParam<std::string> {};

TEST_P(Reshard, EveryRankReadsWhatItNeedsAndLittleMore) {
  test::TempDir dir;
  for (int from = 1; from <= 5; ++from) {
    fs::path path = dir.path() / std::to_string(from);
    save(path, from, GetParam());
    for (int to = 1; to <= 5; ++to) {
      for (int rank = 0; rank < to; ++rank) {
        const std::string what = std::to_string(from) + " -> " + std::to_string(rank) + " of " + std::to_string(to);
        const ckpt::dist::Pieces pieces = pieces_of(rank, to);
        core::StateDict state = tensors_of(pieces);
        std::uint64_t needed = 0;
        for (const auto& [name, tensor] : state) needed += tensor.storage().nbytes();
        const std::uint64_t before = bytes_asked_for();
        ckpt::dist::load_into(state, path, pieces);
        const auto read = static_cast<double>(bytes_asked_for() - before);
        EXPECT_LE(read, 1.02 * static_cast<double>(needed) + 64 * 1024) << what;
        ASSERT_EQ(difference(state, pieces), "") << what;
      }
    }
  }
}

/// A number of /proc/self/status in bytes: "VmHWM".
std::uint64_t of_status(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == name + ":" && status >> kib) return kib * 1024;
  }
  return 0;
}

/// What rank `rank` of `to` takes above its tensors while it reads a file that is several times as large.
std::uint64_t taken_by_load(const fs::path& path, const ckpt::dist::Pieces& pieces) {
  core::StateDict state = tensors_of(pieces);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is as much as there is now
  const std::uint64_t before = of_status("VmRSS");
  ckpt::dist::load_into(state, path, pieces);
  const std::uint64_t peak = of_status("VmHWM");
  return peak > before ? peak - before : 0;
}

TEST_P(Reshard, MemoryAboveTheTensorsStaysWithinTheLimit) {
  if (kTakesMore) GTEST_SKIP() << "a build with sanitizers takes more";
  constexpr std::uint64_t kMiB = 1 << 20;
  constexpr std::uint64_t kMost = 16 * kMiB;
  constexpr std::uint64_t kProgram = 12 * kMiB;  // stacks and heaps of threads, what is known of the file
  test::TempDir dir;
  const core::Shape shape{8 * kRows, 2 * kColumns};  // 50 MiB
  const auto pieces_for = [&](int rank, int ranks) {
    return ckpt::dist::Pieces{{"rows", ckpt::dist::shard(shape, 0, rank, ranks)},
                              {"columns", ckpt::dist::shard(shape, 1, rank, ranks)}};
  };
  const ckpt::Value all = test::dict({{"rows", test::matrix(1, shape)}, {"columns", test::matrix(9, shape)}});
  const std::vector<std::string> errors = test::run_ranks_as_threads(3, [&](ckpt::dist::Ranks& who) {
    ckpt::dist::SaveOptions options;
    options.layout = GetParam();
    options.pieces = pieces_for(who.rank(), 3);
    options.durable = false;
    ckpt::dist::save_by(who, ckpt::dist::cut_to_pieces(all, options.pieces), dir.path() / "run", options);
  });
  ASSERT_THAT(errors, Each(""));
  ckpt::limit_read_memory(kMost);
  for (int ranks : {1, 2, 5}) {
    EXPECT_LE(taken_by_load(dir.path() / "run", pieces_for(ranks - 1, ranks)), kMost + kProgram) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Reshard, testing::Values("dcp", "native"));

TEST(LoadInto, TensorsKeepTheirMemoryAndTheRestIsReadWhole) {
  test::TempDir dir;
  save(dir.path() / "run", 2, "dcp");
  core::StateDict state;
  state.set("rows", core::full({10, kColumns}, 0.0));
  state.set("columns", core::full(kShape, 0.0));
  const void* memory = state.find("rows")->raw_data();
  ckpt::dist::load_into(state, dir.path() / "run", {{"rows", {kShape, {155, 0}}}});  // some of both ranks
  EXPECT_EQ(state.find("rows")->raw_data(), memory);
  EXPECT_EQ(difference(state, {{"rows", {kShape, {155, 0}, {10, kColumns}}}}), "");
}

TEST(LoadInto, TensorsThatDoNotFitAreNamed) {
  test::TempDir dir;
  save(dir.path() / "run", 2, "dcp");
  auto error_of = [&](const std::string& name, const core::Tensor& tensor, const ckpt::dist::Pieces& pieces) {
    core::StateDict state;
    state.set(name, tensor);
    return test::said_by([&] { ckpt::dist::load_into(state, dir.path() / "run", pieces); });
  };
  EXPECT_THAT(error_of("rowz", core::zeros(kShape), {}), HasSubstr("no tensor 'rowz' is in it"));
  EXPECT_THAT(error_of("rows", core::zeros({2, 2}), {}),
              HasSubstr("'rows': it is float32 [320, 2560] where a contiguous float32 [2, 2] is to be filled"));
  EXPECT_THAT(error_of("rows", core::zeros({320, 2}), {{"rows", {kShape, {0, 2559}}}}),
              HasSubstr("reaches outside of the tensor [320, 2560]"));
  EXPECT_THAT(error_of("rows", core::zeros(kShape), {{"columns", {kShape, {0, 0}}}}),
              HasSubstr("a piece is given for 'columns', which is no tensor"));
}

}  // namespace
