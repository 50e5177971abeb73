// Every golden checkpoint that can be read goes into a native file and comes back whole: values, tensors, ties, views.

#include <map>

#include "libcore/base/error.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/support/golden.h"
#include "tests/support/golden_checkpoint.h"
#include "tests/support/manifest.h"
#include "tests/support/temp_dir.h"

namespace {

/// For every tensor the position of the first one that shares its memory.
std::vector<std::size_t> ties(const ckpt::Value& root) {
  std::map<const void*, std::size_t> first;
  std::vector<std::size_t> out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(root)) {
    const void* identity = ckpt::storage_identity(*named.entry);
    out.push_back(identity == nullptr ? out.size() : first.try_emplace(identity, out.size()).first->second);
  }
  return out;
}

std::string check(const test::Manifest& manifest, const ckpt::Checkpoint& original) {
  test::TempDir dir;
  std::filesystem::path path = dir.path() / "a.ckpt";
  ckpt::save(original, path, {.durable = false});
  ckpt::Checkpoint back = ckpt::open(path);
  std::string found = test::difference(back.root, original.root);
  // Special kinds (quantized, sparse, ...) are left to the tests of their own format.
  bool comparable = manifest.has_tensors && test::compare_tensors(manifest, original).empty();
  if (found.empty() && comparable) found = test::compare_tensors(manifest, back);
  if (found.empty() && ties(back.root) != ties(original.root)) found = "other tensors are tied";
  if (found.empty() && !ckpt::verify(path).damage.empty()) found = "verify finds damage in a fresh file";
  std::string before = test::read_file(path);
  ckpt::save(back, path, {.durable = false});
  if (found.empty() && test::read_file(path) != before) found = "saving over itself changes the file";
  return found;
}

void run_one(const test::Manifest& manifest, test::GoldenRun& run) {
  ckpt::Checkpoint original;
  try {
    original = ckpt::open(manifest.file, {.foreign_objects = true});
  } catch (const core::Error& error) {
    return run.skip(manifest.id, error.message());
  }
  try {
    std::string found = check(manifest, original);
    run.check(manifest.id, found.empty(), found);
  } catch (const core::Error& error) {
    // Tensors that can be listed but not read (filters of other programs) cannot be copied either.
    bool unreadable = error.code() == core::ErrorCode::unsupported && manifest.action == "load-or-report";
    unreadable ? run.skip(manifest.id, error.message()) : run.fail(manifest.id, error.what());
  }
}

}  // namespace

int main() {
  test::GoldenRun run("checkpoints_native");
  bool any = false;
  for (const char* folder : {"torch_1.13", "torch_2.15", "safetensors", "hdf5"}) {
    for (const test::Manifest& manifest : test::load_manifests(folder)) {
      any = true;
      run_one(manifest, run);
    }
  }
  if (!any) return 77;
  return run.finish();
}
