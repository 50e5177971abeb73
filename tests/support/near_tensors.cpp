#include "tests/support/near_tensors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "libckpt/transform/cast.h"

namespace test {
namespace {

using Entries = std::map<std::string, ckpt::EntryPtr>;

Entries entries_of(const ckpt::Checkpoint& checkpoint) {
  Entries out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) out[named.name] = named.entry;
  return out;
}

Entries wide_entries_of(const ckpt::Checkpoint& checkpoint) {
  return entries_of(ckpt::cast(checkpoint, {.to = core::DType::f64}));
}

std::vector<double> doubles_of(const ckpt::Entry& entry) {
  const core::ByteVector bytes = ckpt::read_all(*entry.bytes);
  std::vector<double> values(bytes.size() / sizeof(double));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

/// "" when two tensors of doubles are near enough.
std::string distance_text(const ckpt::Entry& got, const ckpt::Entry& wanted, double tolerance) {
  if (!(got.shape == wanted.shape)) return "has the shape " + core::to_list(got.shape);
  const std::vector<double> a = doubles_of(got);
  const std::vector<double> b = doubles_of(wanted);
  double largest = 0;
  double off = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return "has NaN";
    largest = std::max(largest, std::abs(b[i]));
    off = std::max(off, std::abs(a[i] - b[i]));
  }
  if (off <= tolerance * largest) return "";
  return "is off by " + std::to_string(off / largest) + " of the largest value";
}

}  // namespace

void check_near(GoldenRun& run, const std::string& id, const ckpt::Checkpoint& got, const ckpt::Checkpoint& wanted,
                const std::function<double(core::DType)>& tolerance_of) {
  const Entries types = entries_of(got);
  const Entries wide = wide_entries_of(got);
  const Entries expected = wide_entries_of(wanted);
  run.check(id + "/names", wide.size() == expected.size(),
            std::to_string(wide.size()) + " names, not " + std::to_string(expected.size()));
  for (const auto& [name, entry] : entries_of(wanted)) {
    std::string why = "is missing";
    if (auto found = types.find(name); found != types.end()) {
      why = found->second->dtype == entry->dtype
                ? distance_text(*wide.at(name), *expected.at(name), tolerance_of(entry->dtype))
                : "is " + std::string(core::name(found->second->dtype));
    }
    run.check(id + "/" + name, why.empty(), why);
  }
}

}  // namespace test
