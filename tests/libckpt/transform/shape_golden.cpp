// Every golden checkpoint that can be read goes through the transforms that must not change a value: compacted, with
// equal tensors shared, untied, prefixed and stripped again, averaged with itself. Written, read back, compared with
// its manifest.

#include <cmath>
#include <map>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/golden_checkpoint.h"
#include "tests/support/manifest.h"
#include "tests/support/temp_dir.h"

namespace {

/// Saved in its own format where that can be written, else in the native one; read again.
ckpt::Checkpoint through_file(const ckpt::Checkpoint& checkpoint, const test::TempDir& dir) {
  bool torch = checkpoint.format.starts_with("torch");
  std::filesystem::path path = dir.path() / (torch ? "a.pth" : "a.ckpt");
  ckpt::save(checkpoint, path, {.durable = false});
  return ckpt::open(path, {.foreign_objects = true});
}

std::uint64_t saved_size(const ckpt::Checkpoint& checkpoint) {
  test::TempDir dir;
  through_file(checkpoint, dir);
  std::uint64_t size = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) size += entry.file_size();
  return size;
}

std::string compare(const test::Manifest& manifest, const ckpt::Checkpoint& checkpoint, const std::string& what) {
  test::TempDir dir;
  std::string found = test::compare_tensors(manifest, through_file(checkpoint, dir));
  return found.empty() ? "" : what + ": " + found;
}

std::string check_compact(const test::Manifest& manifest, const ckpt::Checkpoint& original) {
  ckpt::Checkpoint small = ckpt::compact(original);
  std::string found = compare(manifest, small, "compact");
  if (found.empty() && saved_size(small) > saved_size(original) + 64) found = "compact: the file grew";
  if (found.empty()) found = compare(manifest, ckpt::compact(original, {.dedupe = true}), "compact --dedupe");
  if (found.empty()) found = compare(manifest, ckpt::compact(original, {.untie = true}), "compact --untie");
  return found;
}

/// Only where it is clear which state dict is meant.
std::string check_prefix(const test::Manifest& manifest, const ckpt::Checkpoint& original) {
  ckpt::Checkpoint there;
  try {
    there = ckpt::add_prefix(original, {.prefix = "wrapper."});
  } catch (const core::Error&) {
    return "";
  }
  for (const ckpt::NamedEntry& named : ckpt::list_entries(there.root)) {
    if (named.name.ends_with("wrapper.")) return "";  // a key without a name: stripping refuses to make one
  }
  return compare(manifest, ckpt::strip_prefix(there, {.prefix = "wrapper."}), "add and strip");
}

/// The mean of a value with itself is the value; NaN stays one, but not to the bit.
std::string check_average(const ckpt::Checkpoint& original) {
  ckpt::Checkpoint mean;
  try {
    mean = ckpt::average({original, original});
  } catch (const core::Error& error) {
    bool known = error.code() == core::ErrorCode::usage || error.code() == core::ErrorCode::key ||
                 error.code() == core::ErrorCode::unsupported;
    return known ? "" : error.what();
  }
  ckpt::Publication as_it_is;
  as_it_is.checkpoint = mean;
  as_it_is.uncast = mean;
  std::map<std::string, bool> has_nan;
  for (const std::string& name : ckpt::find_non_finite(as_it_is).nan) has_nan[name] = true;
  std::map<std::string, ckpt::EntryPtr> before;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(original.root)) before[named.name] = named.entry;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(mean.root)) {
    auto found = before.find(named.name);
    if (found == before.end()) {
      found = std::find_if(before.begin(), before.end(),
                           [&](const auto& item) { return item.first.ends_with("." + named.name); });
    }
    if (found == before.end()) return "average: " + named.name + " came from nowhere";
    if (has_nan[named.name] || !named.entry->bytes) continue;
    bool same = ckpt::read_all(*named.entry->bytes) == ckpt::read_all(*found->second->bytes);
    if (!same) return "average: " + named.name + " changed";
  }
  return "";
}

void run_one(const test::Manifest& manifest, test::GoldenRun& run) {
  ckpt::Checkpoint original;
  try {
    original = ckpt::open(manifest.file, {.foreign_objects = true});
    test::TempDir dir;
    bool plain = manifest.has_tensors && test::compare_tensors(manifest, through_file(original, dir)).empty();
    if (!plain) return run.skip(manifest.id, "not compared with its manifest when it is merely copied");
  } catch (const core::Error& error) {
    return run.skip(manifest.id, error.message());
  }
  try {
    std::string found = check_compact(manifest, original);
    if (found.empty()) found = check_prefix(manifest, original);
    if (found.empty()) found = check_average(original);
    run.check(manifest.id, found.empty(), found);
  } catch (const core::Error& error) {
    run.fail(manifest.id, error.what());
  }
}

}  // namespace

int main() {
  test::GoldenRun run("checkpoints_shape");
  bool any = false;
  for (const char* folder : {"torch_1.13", "torch_2.15", "safetensors", "numpy", "gguf"}) {
    for (const test::Manifest& manifest : test::load_manifests(folder)) {
      any = true;
      run_one(manifest, run);
    }
  }
  if (!any) return 77;
  return run.finish();
}
