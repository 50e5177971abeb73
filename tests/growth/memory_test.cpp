// --max-memory holds whatever is read and whatever is written: the programs get no more memory for data than it says
// and some for themselves, and files that are several times as large. What a program maps of files is not counted
// (RLIMIT_DATA), so the answer is the same on every machine. Skipped in builds with sanitizers, which take more.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <ostream>

#include "libckpt/ckpt.h"
#include "tests/cli/program.h"
#include "tests/libckpt/format/deflated.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTakesMore = true;
#else
constexpr bool kTakesMore = false;
#endif

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kMost = 64 * kMiB;
/// Code that writes to its data, the stacks of the threads, what is known of the tensors.
constexpr std::uint64_t kProgram = 64 * kMiB;
constexpr std::int64_t kTensors = 12;
constexpr std::int64_t kRows = 2112;  // whole blocks; a tensor is longer than one piece of what is put together
constexpr std::int64_t kColumns = 2500;

using Command = std::vector<std::string>;

/// Floats that are made when they are read.
class Numbers final : public ckpt::ByteSource {
 public:
  std::uint64_t size() const override { return kRows * kColumns * sizeof(float); }
  void read(std::uint64_t offset, ckpt::MutableBytes out) const override {
    // Below 64 in each byte: finite numbers.
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::byte>((offset + i) / 8 * 2654435761U >> 26 & 63);
  }
  void require_unchanged() const override {}
};

/// Each tensor is the transpose of what is stored.
void write_transposed(const fs::path& folder) {
  ckpt::Dict root;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    auto storage =
        std::make_shared<const ckpt::Storage>(ckpt::Storage{core::DType::f32, std::make_shared<Numbers>(), "cpu"});
    auto entry = std::make_shared<ckpt::Entry>();
    entry->shape = {kColumns, kRows};
    entry->view = ckpt::View{storage, 0, {1, kColumns}};
    entry->bytes = ckpt::gather(*entry->view, entry->dtype, entry->shape);
    root.items.emplace_back(ckpt::Value::text("module." + std::to_string(i) + ".weight"),
                            ckpt::Value::tensor(std::move(entry)));
  }
  ckpt::Checkpoint checkpoint;
  checkpoint.root = ckpt::Value::dict(std::move(root));
  ckpt::save(checkpoint, folder / "a.pth", {.durable = false});
}

void run_or_throw(const fs::path& folder, const Command& command) {
  test::Outcome done = test::run_ckpt(folder, command);
  if (done.code != 0) throw std::runtime_error(done.err);
}

void write_chunked(const fs::path& folder) {
  write_transposed(folder);
  run_or_throw(folder, {"convert", "--codec", "gzip", "a.pth", "a.h5"});
}

void write_packed(const fs::path& folder) {
  write_transposed(folder);
  run_or_throw(folder, {"convert", "--codec", "tight", "a.pth", "a.ckpt"});
}

/// Rows of every tensor with each of four ranks.
void write_distributed(const fs::path& folder) {
  write_transposed(folder);
  run_or_throw(folder, {"convert", "--ranks", "4", "a.pth", "a.dcp"});
}

void write_deflated(const fs::path& folder) {
  const Numbers numbers;
  std::string content = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(kRows) + ", " +
                        std::to_string(kColumns) + "), }";
  content.resize(117, ' ');
  content = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + content + "\n";
  const core::ByteVector values = ckpt::read_all(numbers);
  content += core::as_text(values);
  const std::string packed = test::deflated(content, test::DeflateForm::zip);
  test::ZipSpec zip;
  for (std::int64_t i = 0; i < kTensors; ++i) zip.add(std::to_string(i) + ".npy", content).deflated = packed;
  test::write_file(folder / "a.npz", zip.bytes());
}

using Make = void (*)(const fs::path& folder);

struct BoundRun {
  Make make;
  Command command;
};

std::string line_of(const Command& command) {
  std::string line = "ckpt";
  for (const std::string& word : command) line += " " + word;
  return line;
}

void PrintTo(const BoundRun& run, std::ostream* out) {
  *out << line_of(run.command);
}

std::string name_of(const ::testing::TestParamInfo<BoundRun>& run) {
  std::string name = line_of(run.param.command);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class MostMemory : public ::testing::TestWithParam<BoundRun> {};

TEST_P(MostMemory, Holds) {
  if (kTakesMore) GTEST_SKIP() << "a build with sanitizers takes more";
  test::TempDir dir;
  GetParam().make(dir.path());
  Command command = GetParam().command;
  command.insert(command.end(), {"--max-memory", std::to_string(kMost), "-j", "16"});
  test::RunOptions options;
  options.in_child = [] {
    const rlimit most{kMost + kProgram, kMost + kProgram};
    ::setrlimit(RLIMIT_DATA, &most);
    const rlimit stack{kMiB, kMiB};  // of each thread, all of which counts
    ::setrlimit(RLIMIT_STACK, &stack);
  };
  const test::Outcome done = test::run_ckpt(dir.path(), command, options);
  EXPECT_EQ(done.code, 0) << done.err;
}

std::vector<BoundRun> runs_of(Make make, const std::vector<Command>& commands) {
  std::vector<BoundRun> runs;
  for (const Command& command : commands) runs.push_back({make, command});
  return runs;
}

INSTANTIATE_TEST_SUITE_P(OfTransposedTensors, MostMemory,
                         ::testing::ValuesIn(runs_of(write_transposed,
                                                     {{"convert", "a.pth", "out.safetensors"},
                                                      {"convert", "a.pth", "out.npz"},
                                                      {"convert", "a.pth", "out.gguf"},
                                                      {"convert", "a.pth", "out.ckpt"},
                                                      {"convert", "a.pth", "out.h5"},
                                                      {"convert", "a.pth", "out.dcp"},
                                                      {"convert", "--parity", "5%", "a.pth", "out.ckpt"},
                                                      {"strip-prefix", "a.pth", "-o", "out.pth"},
                                                      {"cast", "--to", "float16", "a.pth", "-o", "out.pth"},
                                                      {"quantize", "--to", "Q8_0", "a.pth", "-o", "out.gguf"},
                                                      {"merge", "a.pth", "a.pth", "-o", "out.pth"},
                                                      {"split", "--shards", "3", "a.pth", "-o", "out"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfChunksOfHdf5, MostMemory,
                         ::testing::ValuesIn(runs_of(write_chunked,
                                                     {{"convert", "a.h5", "out.pth"},
                                                      {"convert", "a.h5", "out.ckpt"},
                                                      {"convert", "--codec", "gzip", "a.h5", "out.h5"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfPackedTensors, MostMemory,
                         ::testing::ValuesIn(runs_of(write_packed,
                                                     {{"convert", "a.ckpt", "out.safetensors"},
                                                      {"convert", "--codec", "none", "a.ckpt", "out.ckpt"},
                                                      {"convert", "--codec", "fast", "a.ckpt", "out.ckpt"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfPartsOfRanks, MostMemory,
                         ::testing::ValuesIn(runs_of(write_distributed,
                                                     {{"reshard", "a.dcp", "-o", "out.dcp", "--ranks", "1"},
                                                      {"reshard", "a.dcp", "-o", "out.dcp", "--ranks", "3"},
                                                      {"reshard", "a.dcp", "-o", "out.dcp", "--ranks", "5",
                                                       "--shard-dim", "1"},
                                                      {"convert", "a.dcp", "out.safetensors"},
                                                      {"convert", "a.dcp", "out.ckpt"},
                                                      {"convert", "a.dcp", "out.pth"}})),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OfDeflatedArrays, MostMemory,
                         ::testing::ValuesIn(runs_of(write_deflated,
                                                     {{"convert", "a.npz", "out.safetensors"},
                                                      {"convert", "a.npz", "out.ckpt"},
                                                      {"convert", "a.npz", "out.npz"},
                                                      {"select", "--include", "*", "a.npz", "-o", "out.gguf"}})),
                         name_of);

}  // namespace
