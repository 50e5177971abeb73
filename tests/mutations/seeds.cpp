#include <algorithm>
#include <filesystem>

#include "libckpt/ckpt.h"
#include "libckpt/format/format.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/mutations/mutator.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace test {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargest = 16 << 10;  ///< a change of a large file is one of its values, mostly
constexpr std::size_t kMostFiles = 8;          ///< of a folder

Seed one_file(const fs::path& path, const std::string& name) {
  Seed seed;
  seed.name = name;
  seed.opened = path.filename().string();
  for (const char* extension : {".ckpt", ".h5", ".keras"}) seed.needs_helper |= seed.opened.ends_with(extension);
  seed.files.push_back({seed.opened, read_file(path)});
  return seed;
}

/// Nothing for a folder with large files or many.
std::vector<Seed> whole_folder(const fs::path& folder, const std::string& opened, const std::string& name) {
  Seed seed;
  seed.name = name;
  seed.is_folder = opened.empty();
  seed.opened = opened;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string file = entry.path().filename().string();
    if (file.ends_with(".manifest.json")) continue;
    if (!entry.is_regular_file() || entry.file_size() > kLargest) return {};
    seed.files.push_back({file, read_file(entry.path())});
  }
  if (seed.files.empty() || seed.files.size() > kMostFiles) return {};
  auto by_name = [](const Seed::File& a, const Seed::File& b) { return a.name < b.name; };
  std::sort(seed.files.begin(), seed.files.end(), by_name);
  return {seed};
}

bool is_left_out(const fs::path& path) {
  std::string name = path.filename().string();
  return name.ends_with(".manifest.json") || name.ends_with(".md") || name.ends_with(".py");
}

}  // namespace

std::vector<Seed> own_seeds() {
  TempDir dir;
  ckpt::Checkpoint made = checkpoint(dict({{"fc.weight", tensor({1, 2, 3, 4})}, {"fc.bias", tensor({5, 6})}}));
  std::vector<Seed> seeds;
  for (const char* name : {"a.pth", "a.safetensors", "a.npz", "a.gguf", "a.ckpt", "a.h5"}) {
    ckpt::save(made, dir.path() / name, {.durable = false, .threads = 1});
    seeds.push_back(one_file(dir.path() / name, std::string("own ") + name));
  }
  fs::create_directory(dir.path() / "shards");
  ckpt::save(made, dir.path() / "shards" / "model.safetensors", {.durable = false, .shards = 2, .threads = 1});
  std::vector<Seed> shards = whole_folder(dir.path() / "shards", "", "own shards");
  seeds.insert(seeds.end(), shards.begin(), shards.end());
  return seeds;
}

std::vector<Seed> golden_seeds() {
  std::vector<Seed> seeds;
  fs::path top = golden_dir() / "checkpoints";
  if (!fs::is_directory(top)) return seeds;
  std::vector<fs::path> paths;
  for (const char* folder :
       {"torch_2.15", "torch_1.13", "safetensors", "gguf", "numpy", "hdf5", "dcp", "onnx", "flax", "paddle", "pt2"}) {
    if (!fs::is_directory(top / folder)) continue;
    for (const auto& entry : fs::directory_iterator(top / folder)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    if (is_left_out(path)) continue;
    std::string name = path.parent_path().filename().string() + "/" + path.filename().string();
    if (fs::is_directory(path)) {
      std::vector<Seed> found = whole_folder(path, "", name);
      seeds.insert(seeds.end(), found.begin(), found.end());
    } else if (fs::file_size(path) <= kLargest && fs::file_size(path) > 0) {
      seeds.push_back(one_file(path, name));
    }
  }
  return seeds;
}

}  // namespace test
