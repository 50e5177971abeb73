// The work on a file may grow as the file does, a little more for sorting, never with its square. What is measured is
// the number of instructions that the program runs, which Valgrind counts: so the answer depends neither on the machine
// nor on what else it does. Skipped where Valgrind is not installed, and in builds with sanitizers, which it cannot
// run.

#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ostream>

#include "tests/cli/program.h"
#include "tests/growth/growing_files.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;

/// Twice the file may take this much more: room for the logarithm of sorting (2.07 is the most seen), far below the 4
/// of a square. What hides below it is a square that takes less than a sixteenth of the rest at the smaller size.
constexpr double kMostGrowth = 2.12;

/// A file of the first size and one of the second, twice as large, are tried, the others where all are asked for
/// (CKPT_EVERY_SIZE=1). The first is so large that what is done for each entry takes at least ten times as long as the
/// start of the program, and no larger: Valgrind runs some 300 million instructions a second.
using Sizes = std::vector<std::size_t>;
const Sizes kToLarge = {2'000, 4'000, 8'000, 16'000, 32'000, 64'000, 128'000};
const Sizes kToMiddle = {2'000, 4'000, 8'000, 16'000, 32'000};
const Sizes kToSmall = {1'000, 2'000, 4'000, 8'000, 16'000};  // where an entry costs much
const Sizes kOfSmallEntries = {5'000, 10'000, 20'000, 40'000};
const Sizes kBeyondLimits = kOfSmallEntries;  // up to some thousand, each may be held against each
const Sizes kOfTinyEntries = {10'000, 20'000, 40'000, 80'000, 160'000};

using Command = std::vector<std::string>;
using Make = void (*)(const fs::path& folder, std::size_t count);

/// A command on files of one kind. What it writes goes to out/, which is there.
struct CommandRun {
  Make make;
  Sizes sizes;
  Command command;
};

std::vector<CommandRun> runs_of(Make make, const Sizes& sizes, const std::vector<Command>& commands) {
  std::vector<CommandRun> runs;
  for (const Command& command : commands) runs.push_back({make, sizes, command});
  return runs;
}

std::string line_of(const Command& command) {
  std::string line = "ckpt";
  for (const std::string& word : command) line += " " + word;
  return line;
}

void PrintTo(const CommandRun& run, std::ostream* out) {
  *out << line_of(run.command);
}

/// "convert_a_pth_out_a_safetensors"
std::string name_of(const ::testing::TestParamInfo<CommandRun>& run) {
  std::string name;
  for (char c : line_of(run.param.command).substr(5)) {
    bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || (!name.empty() && name.back() != '_')) name += plain ? c : '_';
  }
  return name;
}

fs::path find_valgrind() {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  for (std::size_t at = 0; at < folders.size();) {
    std::size_t end = std::min(folders.find(':', at), folders.size());
    fs::path program = fs::path(folders.substr(at, end - at)) / "valgrind";
    std::error_code ignored;
    if (fs::exists(program, ignored)) return program;
    at = end + 1;
  }
  return {};
}

/// Why nothing can be counted here; empty where it can.
std::string obstacle() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "Valgrind cannot run a build with sanitizers";
#endif
  return find_valgrind().empty() ? "Valgrind is not installed (apt-get install valgrind)" : "";
}

/// How many instructions a program runs until it ends well. An answer of "no" (1) is an answer.
double instructions_of(const fs::path& folder, const fs::path& program, const Command& arguments) {
  fs::path log = folder / "valgrind.log";
  Command words = {"--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
                   "--log-file=" + log.string(), program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  test::Outcome done = test::run_program(find_valgrind(), folder, words);
  EXPECT_TRUE(done.code == 0 || done.code == 1) << line_of(arguments) << ": exit " << done.code << ": " << done.err;
  std::string text = test::read_file(log);  // "==1234== I   refs:      170,908,776"
  std::string digits;
  for (std::size_t at = text.find("refs:"); at < text.size() && text[at] != '\n'; ++at) {
    if (std::isdigit(static_cast<unsigned char>(text[at])) != 0) digits += text[at];
  }
  return std::strtod(digits.c_str(), nullptr);
}

class Growth : public ::testing::TestWithParam<CommandRun> {};

TEST_P(Growth, HasNoSquare) {
  if (std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  const CommandRun& run = GetParam();
  const std::size_t sizes = std::getenv("CKPT_EVERY_SIZE") != nullptr ? run.sizes.size() : 2;
  double before = 0;
  for (std::size_t i = 0; i < sizes; ++i) {
    const std::size_t size = run.sizes[i];
    test::TempDir dir;
    run.make(dir.path(), size);
    fs::create_directory(dir.path() / "out");
    double now = instructions_of(dir.path(), test::ckpt_program(), run.command);
    ASSERT_GT(now, 0);
    std::printf("%8zu %16.0f instructions\n", size, now);
    if (before > 0) {
      EXPECT_LT(now / before, kMostGrowth)
          << line_of(run.command) << " on " << size << " where half of it takes " << before;
    }
    before = now;
  }
}

INSTANTIATE_TEST_SUITE_P(
    FiftyThousandEntriesOfMetadataTookNinetyFiveSeconds, Growth,
    ::testing::ValuesIn(runs_of(test::write_metadata, kOfTinyEntries,
                                {{"ls", "a.safetensors"},
                                 {"info", "a.safetensors"},
                                 {"meta", "a.safetensors"},
                                 {"verify", "a.safetensors"},
                                 {"scan", "a.safetensors"},
                                 {"diff", "a.safetensors", "b.safetensors"},
                                 {"meta", "--set", "one=more", "a.safetensors", "-o", "out/a.safetensors"},
                                 {"meta", "--clear", "--set", "one=more", "a.safetensors", "-o", "out/a.safetensors"},
                                 {"add-prefix", "--prefix", "net", "a.safetensors", "-o", "out/a.safetensors"},
                                 {"convert", "a.safetensors", "out/a.ckpt"},
                                 {"convert", "a.safetensors", "out/a.gguf"},
                                 {"convert", "a.safetensors", "out/a.pth"}})),
    name_of);

INSTANTIATE_TEST_SUITE_P(FortyThousandTiedNamesTookTwentyNineSeconds, Growth,
                         ::testing::ValuesIn(runs_of(test::write_tied, kToLarge,
                                                     {{"ls", "a.pth"},
                                                      {"verify", "a.pth"},
                                                      {"convert", "a.pth", "out/a.safetensors"},
                                                      {"convert", "a.pth", "out/a.ckpt"},
                                                      {"convert", "a.pth", "out/a.pth"},
                                                      {"compact", "a.pth", "-o", "out/a.pth"},
                                                      {"publish", "a.pth", "-o", "out/a.safetensors"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfTiedNamesInOtherCommands, Growth,
                         ::testing::ValuesIn(runs_of(test::write_tied, kToMiddle,
                                                     {{"info", "a.pth"},
                                                      {"tree", "a.pth"},
                                                      {"plan", "a.pth", "--optimizer", "adam"},
                                                      {"hash", "--tensors", "a.pth"},
                                                      {"stat", "a.pth"},
                                                      {"scan", "a.pth"},
                                                      {"diff", "a.pth", "b.pth"},
                                                      {"strip-prefix", "a.pth", "-o", "out/a.pth"},
                                                      {"convert", "a.pth", "out/a.h5"},
                                                      {"convert", "a.pth", "out/a.npz"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfTwoListsOfTiedNames, Growth,
                         ::testing::ValuesIn(runs_of(test::write_tied, kBeyondLimits,
                                                     {{"align", "a.pth", "b.pth", "-o", "out/rules.toml"},
                                                      {"why", "a.pth", "--for", "b.pth"}})),
                         name_of);

void write_tied_safetensors(const fs::path& folder, std::size_t count) {
  test::write_tied(folder, count);
  test::run_ckpt(folder, {"convert", "a.pth", "a.safetensors"});
}

INSTANTIATE_TEST_SUITE_P(OfTiesThatNotesStandFor, Growth,
                         ::testing::ValuesIn(runs_of(write_tied_safetensors, kToLarge,
                                                     {{"ls", "a.safetensors"},
                                                      {"convert", "a.safetensors", "out/a.pth"},
                                                      {"strip-prefix", "a.safetensors", "-o", "out/a.safetensors"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfWindowsThatOverlap, Growth,
                         ::testing::ValuesIn(runs_of(test::write_windows, kBeyondLimits,
                                                     {{"compact", "a.pth", "-o", "out/a.pth"},
                                                      {"convert", "a.pth", "out/a.ckpt"},
                                                      {"ls", "a.pth"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    OneHundredThousandChunksTookOverOneHundredSeconds, Growth,
    ::testing::ValuesIn(runs_of(test::write_chunks, kToSmall,
                                {{"ls", "dcp"}, {"verify", "dcp"}, {"hash", "dcp"}, {"convert", "dcp", "out/a.pth"}})),
    name_of);

INSTANTIATE_TEST_SUITE_P(OfKeysThatAreReadAndWritten, Growth,
                         ::testing::ValuesIn(runs_of(test::write_keys, kToLarge,
                                                     {{"ls", "a.pth"},
                                                      {"verify", "a.pth"},
                                                      {"hash", "a.pth"},
                                                      {"diff", "a.pth", "b.pth"},
                                                      {"convert", "a.pth", "out/a.safetensors"},
                                                      {"convert", "a.pth", "out/a.ckpt"},
                                                      {"strip-prefix", "a.pth", "-o", "out/a.pth"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfKeysInOtherCommands, Growth,
                         ::testing::ValuesIn(runs_of(test::write_keys, kToMiddle,
                                                     {{"ls", "--sort", "name", "a.pth"},
                                                      {"info", "a.pth"},
                                                      {"tree", "a.pth"},
                                                      {"plan", "a.pth", "--optimizer", "adam"},
                                                      {"stat", "a.pth"},
                                                      {"scan", "a.pth"},
                                                      {"diff", "a.pth", "c.pth"},
                                                      {"select", "--include", "*.weight", "a.pth", "-o", "out/a.pth"},
                                                      {"strip-prefix", "--prefix", "nothing", "b.pth", "-o",
                                                       "out/b.pth"},
                                                      {"rename", "--map", "map.json", "a.pth", "-o", "out/a.pth"},
                                                      {"compact", "a.pth", "-o", "out/a.pth"},
                                                      {"publish", "a.pth", "-o", "out/a.safetensors"},
                                                      {"split", "--shards", "4", "a.pth", "-o", "out/a"},
                                                      {"convert", "a.pth", "out/a.npz"},
                                                      {"convert", "a.pth", "out/a.gguf"},
                                                      {"convert", "a.pth", "out/a.h5"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfTwoListsOfKeys, Growth,
                         ::testing::ValuesIn(runs_of(test::write_keys, kBeyondLimits,
                                                     {{"why", "a.pth", "--for", "b.pth"},
                                                      {"why", "a.pth", "--for", "c.pth"},
                                                      {"align", "a.pth", "b.pth", "-o", "out/rules.toml"},
                                                      {"align", "a.pth", "c.pth", "-o", "out/rules.toml"},
                                                      {"diff", "--rules", "map.json", "a.pth", "b.pth"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    OfLayersThatWereNotTrained, Growth,
    ::testing::ValuesIn(runs_of(test::write_fresh_layers, kToMiddle,
                                {{"align", "a.safetensors", "b.safetensors", "-o", "out/rules.toml"},
                                 {"align", "a.safetensors", "c.safetensors", "-o", "out/rules.toml"}})),
    name_of);

INSTANTIATE_TEST_SUITE_P(OfVersionsOfModules, Growth,
                         ::testing::ValuesIn(runs_of(test::write_modules, kOfSmallEntries,
                                                     {{"ls", "a.pth"},
                                                      {"strip-prefix", "a.pth", "-o", "out/a.pth"},
                                                      {"rename", "--map", "map.json", "a.pth", "-o", "out/a.pth"},
                                                      {"convert", "a.pth", "out/a.safetensors"},
                                                      {"convert", "a.pth", "out/a.h5"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfStateDictsAndOptimizers, Growth,
                         ::testing::ValuesIn(runs_of(test::write_state_dicts, kToSmall,
                                                     {{"ls", "a.pth"},
                                                      {"info", "a.pth"},
                                                      {"tree", "a.pth"},
                                                      {"diff", "a.pth", "b.pth"},
                                                      {"why", "a.pth", "--for", "b.pth::model0"},
                                                      {"strip-prefix", "--prefix", "weight", "a.pth", "-o",
                                                       "out/a.pth"},
                                                      {"optim", "show", "a.pth"},
                                                      {"convert", "a.pth", "out/a.ckpt"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfParametersOfAnOptimizer, Growth,
                         ::testing::ValuesIn(runs_of(test::write_optimizer, kToMiddle,
                                                     {{"optim", "show", "a.pth"},
                                                      {"optim", "drop", "a.pth", "-o", "out/a.pth"},
                                                      {"publish", "a.pth", "-o", "out/a.safetensors"},
                                                      {"convert", "a.pth", "out/a.ckpt"},
                                                      {"ls", "a.pth"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfShards, Growth,
                         ::testing::ValuesIn(runs_of(test::write_shards, Sizes{500, 1'000, 2'000, 4'000},
                                                     {{"ls", "model.safetensors.index.json"},
                                                      {"verify", "model.safetensors.index.json"},
                                                      {"hash", "model.safetensors.index.json"},
                                                      {"convert", "model.safetensors.index.json",
                                                       "out/a.safetensors"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfRecordsThatNobodyUses, Growth,
                         ::testing::ValuesIn(runs_of(test::write_records, kOfSmallEntries,
                                                     {{"ls", "a.pth"}, {"verify", "a.pth"}, {"scan", "a.pth"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfValuesThatStandInTwoPlaces, Growth,
                         ::testing::ValuesIn(runs_of(test::write_shared_values, kToMiddle,
                                                     {{"ls", "--values", "a.pth"},
                                                      {"diff", "a.pth", "a.pth"},
                                                      {"convert", "a.pth", "out/a.ckpt"},
                                                      {"convert", "a.pth", "out/b.pth"}})),
                         name_of);

void write_converted(const fs::path& folder, std::size_t count) {
  test::write_keys(folder, count);
  for (const char* name : {"a.ckpt", "a.h5", "a.npz", "a.gguf"}) test::run_ckpt(folder, {"convert", "a.pth", name});
}

INSTANTIATE_TEST_SUITE_P(OfKeysInOtherFormats, Growth,
                         ::testing::ValuesIn(runs_of(write_converted, kOfSmallEntries,
                                                     {{"ls", "a.ckpt"},
                                                      {"verify", "a.ckpt"},
                                                      {"strip-prefix", "a.ckpt", "-o", "out/a.ckpt"},
                                                      {"ls", "a.h5"},
                                                      {"verify", "a.h5"},
                                                      {"ls", "a.npz"},
                                                      {"verify", "a.npz"},
                                                      {"ls", "a.gguf"},
                                                      {"verify", "a.gguf"}})),
                         name_of);

/// What the tests above must be able to see.
TEST(GrowthCount, PlantedSquaresAreSeen) {
  if (std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  auto growth = [](const std::string& work) {
    test::TempDir dir;
    fs::path program = test::built_program("growth_planted");
    return instructions_of(dir.path(), program, {work, "20000"}) /
           instructions_of(dir.path(), program, {work, "10000"});
  };
  EXPECT_LT(growth("table"), kMostGrowth);
  EXPECT_GT(growth("search"), kMostGrowth);
  EXPECT_GT(growth("front"), kMostGrowth);
}

}  // namespace
