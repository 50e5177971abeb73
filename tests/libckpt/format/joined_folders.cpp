#include "tests/libckpt/format/joined_folders.h"

#include "libckpt/ckpt.h"
#include "tests/support/golden.h"
#include "tests/support/near_tensors.h"

namespace test {
namespace {

namespace fs = std::filesystem;

double equal(core::DType) {
  return 0;
}

void check_case(GoldenRun& run, const fs::path& folder, const std::string& format) {
  const ckpt::Checkpoint joined = ckpt::open(folder / "joined.safetensors");
  std::vector<fs::path> places = {folder / "in"};
  for (const auto& inside : fs::directory_iterator(folder / "in")) {
    if (inside.is_directory()) places.push_back(inside);
  }
  for (const fs::path& place : places) {
    const std::string name = place.lexically_relative(folder.parent_path()).string();
    const ckpt::Checkpoint read = ckpt::open(place);
    run.check(name, read.format == format, "read as " + read.format);
    check_near(run, name, read, joined, equal);
  }
  run.check(folder.filename().string() + " verify", ckpt::verify(folder / "in").damage.empty(), "damage was found");
}

}  // namespace

int run_joined_folders(const std::string& set, const std::string& format) {
  auto folder = golden_file(set);
  if (!folder) return 77;
  GoldenRun run(set);
  run.check("cases", !fs::is_empty(*folder), "there are none");
  for (const auto& entry : fs::directory_iterator(*folder)) check_case(run, entry.path(), format);
  return run.finish();
}

}  // namespace test
