// Golden data set: quantised blocks of GGUF files, unpacked and packed by gguf-py (make_blocks.py). Every file of the
// folder is a case: NAME.gguf with NAME.values.npz, NAME.plain.npz with NAME.packed.npz. Exits with 77 without the
// data.

#include <algorithm>
#include <map>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace {

using Entries = std::map<std::string, ckpt::EntryPtr>;

Entries entries_of(const ckpt::Checkpoint& checkpoint) {
  Entries out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) out[named.name] = named.entry;
  return out;
}

std::string difference(const ckpt::Entry& got, const core::Shape& shape, const core::ByteVector& wanted) {
  if (!(got.shape == shape)) return "has the shape " + core::to_list(got.shape) + ", not " + core::to_list(shape);
  core::ByteVector bytes = ckpt::read_all(*got.bytes);
  auto [at, ignored] = std::mismatch(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
  if (at == bytes.end() && bytes.size() == wanted.size()) return "";
  return "differs at byte " + std::to_string(at - bytes.begin()) + " of " + std::to_string(wanted.size());
}

/// What is read in odd pieces is what is read at once.
std::string pieces_differ(const ckpt::Entry& entry) {
  core::ByteVector whole = ckpt::read_all(*entry.bytes);
  constexpr std::size_t kOdd = 333;
  core::ByteVector piece;
  for (std::size_t at = 0; at < whole.size(); at += kOdd) {
    piece.resize(std::min(kOdd, whole.size() - at));
    entry.bytes->read(at, piece);
    if (!std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<std::ptrdiff_t>(at))) {
      return "a part read alone differs at byte " + std::to_string(at);
    }
  }
  return "";
}

void check_values(test::GoldenRun& run, const std::filesystem::path& values_path, const std::filesystem::path& gguf) {
  Entries values = entries_of(ckpt::dequantize(ckpt::open(gguf)));
  for (const auto& [name, wanted] : entries_of(ckpt::open(values_path))) {
    auto found = values.find(name);
    std::string id = gguf.stem().string() + "/" + name;
    if (found == values.end()) {
      run.fail(id, "is not in the file");
      continue;
    }
    std::string why = difference(*found->second, wanted->shape, ckpt::read_all(*wanted->bytes));
    if (why.empty()) why = pieces_differ(*found->second);
    run.check(id, why.empty(), why);
  }
}

void check_packing(test::GoldenRun& run, const std::filesystem::path& plain_path, const std::filesystem::path& packed) {
  ckpt::Checkpoint plain = ckpt::open(plain_path);
  for (const auto& [name, wanted] : entries_of(ckpt::open(packed))) {
    std::string type = name.substr(0, name.find('/'));
    Entries made = entries_of(ckpt::quantize(plain, {.to = type}));
    std::string why = difference(*made.at(name), wanted->shape, ckpt::read_all(*wanted->bytes));
    run.check(plain_path.stem().stem().string() + "/packed/" + name, why.empty(), why);
  }
}

}  // namespace

int main() {
  auto folder = test::golden_file("blocks");
  if (!folder) return 77;
  test::GoldenRun run("blocks");
  for (const auto& file : std::filesystem::directory_iterator(*folder)) {
    std::string name = file.path().filename().string();
    auto beside = [&](std::string_view end, const std::string& other) {
      return *folder / (name.substr(0, name.size() - end.size()) + other);
    };
    if (name.ends_with(".values.npz")) check_values(run, file.path(), beside(".values.npz", ".gguf"));
    if (name.ends_with(".plain.npz")) check_packing(run, file.path(), beside(".plain.npz", ".packed.npz"));
  }
  return run.finish();
}
