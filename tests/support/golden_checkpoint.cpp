#include "tests/support/golden_checkpoint.h"

#include "libckpt/io/byte_source.h"
#include "tests/support/sha256.h"

namespace test {
namespace {

std::string compare_tensor(const ManifestTensor& expected, const ckpt::NamedEntry& actual) {
  if (actual.name != expected.name) return "tensor '" + actual.name + "' where '" + expected.name + "' was expected";
  const ckpt::Entry& entry = *actual.entry;
  if (core::name(entry.dtype) != expected.dtype)
    return expected.name + ": dtype " + std::string(core::name(entry.dtype));
  if (entry.shape.to_vector() != expected.shape) return expected.name + ": shape " + core::to_list(entry.shape);
  if (!expected.location.empty() && entry.location != expected.location) {
    return expected.name + ": location " + entry.location;
  }
  if (entry.parameter != expected.parameter) return expected.name + ": parameter or not";
  if (!expected.sha256.empty() && entry.bytes && !entry.conjugate && !entry.negative &&
      sha256(ckpt::read_all(*entry.bytes)) != expected.sha256) {
    return expected.name + ": bytes differ";
  }
  return "";
}

}  // namespace

std::string compare_tensors(const Manifest& manifest, const ckpt::Checkpoint& checkpoint) {
  std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(checkpoint.root);
  std::vector<const ManifestTensor*> expected;
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (tensor.kind.empty() || tensor.kind == "meta") expected.push_back(&tensor);
  }
  if (entries.size() != expected.size()) {
    return std::to_string(entries.size()) + " tensors where " + std::to_string(expected.size()) + " were expected";
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::string difference = compare_tensor(*expected[i], entries[i]);
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace test
