// fuzz_replay: runs every fuzz target over its seeds and over the inputs that once were findings
// (tests/regress/TARGET). Use: fuzz_replay [TARGET...]; fuzz_replay --seeds TARGET FOLDER writes the seeds for run.sh;
// --list names the targets.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/targets.h"
#include "tests/support/golden.h"

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestSeed = 64 << 10;

core::ByteVector read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  core::Bytes bytes = core::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view contains) {
  std::vector<fs::path> out;
  if (!fs::is_directory(folder)) return out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    bool manifest = name.ends_with(".manifest.json") && contains.find("manifest") == std::string_view::npos;
    if (!entry.is_regular_file() || manifest || name.find(contains) == std::string::npos) continue;
    out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Sample {
  std::string name;
  core::ByteVector bytes;
};

std::vector<Sample> seeds_of(const fuzz::Target& target) {
  std::vector<Sample> out;
  for (std::string_view text : target.texts) {
    core::Bytes bytes = core::as_bytes(text);
    out.push_back({"text_" + std::to_string(out.size()), {bytes.begin(), bytes.end()}});
  }
  for (const fuzz::SeedFiles& files : target.seeds) {
    core::ByteVector all;
    for (const fs::path& path : files_in(test::golden_dir() / "checkpoints" / files.folder, files.contains)) {
      if (fs::file_size(path) > kLargestSeed) continue;
      core::ByteVector bytes = read_file(path);
      if (target.make_seed != nullptr) bytes = target.make_seed(bytes);
      if (files.together) {
        if (!all.empty()) core::append(all, core::as_bytes(fuzz::kBetweenFiles));
        core::append(all, bytes);
      } else if (!bytes.empty()) {
        out.push_back({std::string(files.folder) + "_" + path.filename().string(), std::move(bytes)});
      }
    }
    if (!all.empty()) out.push_back({std::string(files.folder) + "_together", std::move(all)});
  }
  return out;
}

std::vector<Sample> regressions_of(const fuzz::Target& target) {
  std::vector<Sample> out;
  for (const fs::path& path : files_in(fs::path(CKPT_REGRESS_DIR) / target.name, "")) {
    out.push_back({path.filename().string(), read_file(path)});
  }
  return out;
}

/// Number of findings.
int replay(const fuzz::Target& target) {
  std::vector<Sample> samples = seeds_of(target);
  for (Sample& sample : regressions_of(target)) samples.push_back(std::move(sample));
  int failures = 0;
  for (const Sample& sample : samples) {
    try {
      target.run(sample.bytes);
    } catch (const std::exception& error) {
      std::printf("%s: %s: %s\n", std::string(target.name).c_str(), sample.name.c_str(), error.what());
      ++failures;
    }
  }
  std::printf("%-20s %4zu inputs, %d findings\n", std::string(target.name).c_str(), samples.size(), failures);
  return failures;
}

int write_seeds(const fuzz::Target& target, const fs::path& folder) {
  fs::create_directories(folder);
  for (Sample& sample : seeds_of(target)) {
    std::replace(sample.name.begin(), sample.name.end(), '/', '_');
    std::ofstream out(folder / sample.name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(sample.bytes.data()), static_cast<std::streamsize>(sample.bytes.size()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  bool list = args.size() == 1 && args[0] == "--list";
  bool seeds = args.size() == 3 && args[0] == "--seeds";
  int failures = 0;
  for (const fuzz::Target& target : fuzz::targets()) {
    if (list) {
      std::printf("%s\n", std::string(target.name).c_str());
    } else if (seeds) {
      if (target.name == args[1]) return write_seeds(target, args[2]);
    } else if (args.empty() || std::find(args.begin(), args.end(), target.name) != args.end()) {
      failures += replay(target);
    }
  }
  if (seeds) std::fprintf(stderr, "no target is named %s\n", args[1].c_str());
  return failures == 0 && !seeds ? 0 : 1;
}
