// Every PyTorch file of the golden checkpoints, cut, flipped and shuffled at random: whatever comes of it, it is data
// or one Error, in bounded memory and time. $CKPT_MUTATIONS says how many changes a file gets (default 12). Exits with
// 77 when the data is absent.

#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/manifest.h"
#include "tests/support/temp_dir.h"

namespace {

using Random = std::mt19937_64;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFile = 64 << 10;
constexpr std::uint64_t kMaxTensor = 1 << 20;
constexpr rlim_t kMemory = 3ULL << 30;  ///< address space of the whole process; no file here needs a hundredth of it
constexpr std::chrono::seconds kPatience{20};

void change(std::string& bytes, Random& random) {
  if (bytes.empty()) return;
  std::size_t at = random() % bytes.size();
  std::size_t length = 1 + random() % std::min<std::size_t>(64, bytes.size() - at);
  switch (random() % 7) {
    case 0:
      return bytes.resize(at);
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      return;
    case 2:
      bytes[at] = static_cast<char>(random());
      return;
    case 3:
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, random() % 2 == 0 ? '\xff' : '\0');
      return;
    case 4:
      bytes.erase(at, length);
      return;
    case 5:
      bytes.insert(random() % bytes.size(), bytes.substr(at, length));
      return;
    default:
      bytes += bytes.substr(at, length);
  }
}

/// Opens, reads, verifies and scans. Errors of the library are right answers.
void try_all(const fs::path& path, bool keep_foreign) {
  auto guarded = [](const std::function<void()>& body) {
    try {
      body();
    } catch (const core::Error& error) {
      if (error.code() == core::ErrorCode::internal) throw;
    }
  };
  ckpt::OpenOptions options;
  options.foreign_objects = keep_foreign;
  options.lenient = keep_foreign;
  guarded([&] {
    ckpt::Checkpoint checkpoint = ckpt::open(path, options);
    for (const ckpt::NamedEntry& tensor : ckpt::list_entries(checkpoint.root)) {
      if (tensor.entry->byte_size() > kMaxTensor || !tensor.entry->bytes) continue;
      guarded([&] { ckpt::read_all(*tensor.entry->bytes); });
    }
  });
  guarded([&] { ckpt::verify(path, options); });
  guarded([&] { ckpt::scan(path, options); });
}

/// The files of a fixture, copied to a folder of their own.
struct Copy {
  test::TempDir dir;
  fs::path opened;              ///< what a reader is given
  std::vector<fs::path> files;  ///< what may be changed
};

bool copy_fixture(const test::Manifest& manifest, Copy& copy) {
  bool folder = fs::is_directory(manifest.file);
  bool index = manifest.file.string().ends_with(".index.json");
  fs::path target = copy.dir.path() / "copy";
  fs::create_directory(target);
  auto add = [&](const fs::path& file) {
    if (fs::file_size(file) > kMaxFile) return false;
    test::write_file(target / file.filename(), test::read_file(file));
    copy.files.push_back(target / file.filename());
    return true;
  };
  copy.opened = folder ? target : target / manifest.file.filename();
  if (!folder && !index) return add(manifest.file);
  for (const auto& entry : fs::directory_iterator(folder ? manifest.file : manifest.file.parent_path())) {
    if (!add(entry.path())) return false;
  }
  return !copy.files.empty();
}

std::string check_fixture(const test::Manifest& manifest, std::uint64_t count) {
  Copy copy;
  if (!copy_fixture(manifest, copy)) return "";
  Random random(std::hash<std::string>()(manifest.id));
  std::vector<std::string> originals;
  for (const fs::path& file : copy.files) originals.push_back(test::read_file(file));
  for (std::uint64_t i = 0; i < count; ++i) {
    std::size_t which = random() % copy.files.size();
    std::string bytes = originals[which];
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) change(bytes, random);
    test::write_file(copy.files[which], bytes);
    auto begin = std::chrono::steady_clock::now();
    try {
      try_all(copy.opened, i % 2 == 1);
    } catch (const std::exception& error) {
      return "change " + std::to_string(i) + ": " + error.what();
    }
    if (std::chrono::steady_clock::now() - begin > kPatience) return "change " + std::to_string(i) + " took too long";
    test::write_file(copy.files[which], originals[which]);
  }
  return "";
}

bool is_ours(const std::string& format) {
  return format.starts_with("torch") || format == "dcp";
}

}  // namespace

int main() {
#ifndef __SANITIZE_ADDRESS__
  rlimit limit{kMemory, kMemory};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
  const char* wanted = std::getenv("CKPT_MUTATIONS");
  std::uint64_t count = wanted == nullptr ? 12 : std::strtoull(wanted, nullptr, 10);
  test::GoldenRun run("checkpoints_torch_mutations");
  bool any = false;
  for (const char* folder : {"torch_2.15", "torch_1.13", "safetensors", "dcp", "broken"}) {
    for (const test::Manifest& manifest : test::load_manifests(folder)) {
      if (!is_ours(manifest.format) || !fs::exists(manifest.file)) continue;
      any = true;
      std::string why = check_fixture(manifest, count);
      run.check(manifest.id, why.empty(), why);
    }
  }
  if (!any) return 77;
  return run.finish();
}
