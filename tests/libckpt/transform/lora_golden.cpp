// Golden data set: adapters merged by PEFT (make_lora.py). Every folder is a case: base.safetensors, adapter/ and
// merged.safetensors. Sums over the rank run in another order there, so f32 and f64 may differ by a few roundings of
// the largest value; 16-bit weights are equal. Exits with 77 without the data.

#include <algorithm>
#include <cmath>
#include <map>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"

namespace {

using Entries = std::map<std::string, ckpt::EntryPtr>;

Entries entries_of(const ckpt::Checkpoint& checkpoint) {
  Entries out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) out[named.name] = named.entry;
  return out;
}

std::vector<double> values_of(const ckpt::Entry& entry) {
  const core::ByteVector bytes = ckpt::read_all(*entry.bytes);
  std::vector<double> values(bytes.size() / sizeof(double));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

double tolerance_of(core::DType dtype) {
  if (dtype == core::DType::f64) return 1e-15;
  return dtype == core::DType::f32 ? 5e-7 : 0;
}

std::string difference(const ckpt::Entry& got, const ckpt::Entry& wanted, core::DType dtype) {
  if (!(got.shape == wanted.shape)) return "has the shape " + core::to_list(got.shape);
  const std::vector<double> a = values_of(got);
  const std::vector<double> b = values_of(wanted);
  double largest = 0;
  double off = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    off = std::max(off, std::abs(a[i] - b[i]));
  }
  if (off <= tolerance_of(dtype) * largest) return "";
  return "is off by " + std::to_string(off / largest) + " of the largest value";
}

void check_case(test::GoldenRun& run, const std::filesystem::path& folder) {
  const ckpt::Checkpoint base = ckpt::open(folder / "base.safetensors");
  const ckpt::Checkpoint merged = ckpt::merge_lora(base, ckpt::open_lora(folder / "adapter"));
  const ckpt::Checkpoint wanted = ckpt::open(folder / "merged.safetensors");
  Entries types = entries_of(merged);
  Entries got = entries_of(ckpt::cast(merged, {.to = core::DType::f64}));
  Entries expected = entries_of(ckpt::cast(wanted, {.to = core::DType::f64}));
  run.check(folder.filename().string() + "/names", got.size() == expected.size(),
            std::to_string(got.size()) + " names, not " + std::to_string(expected.size()));
  for (const auto& [name, entry] : expected) {
    auto found = got.find(name);
    const std::string why =
        found == got.end() ? "is missing" : difference(*found->second, *entry, types.at(name)->dtype);
    run.check(folder.filename().string() + "/" + name, why.empty(), why);
  }
}

}  // namespace

int main() {
  auto folder = test::golden_file("lora");
  if (!folder) return 77;
  test::GoldenRun run("lora");
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) check_case(run, entry.path());
  return run.finish() == 0 ? 0 : 1;
}
