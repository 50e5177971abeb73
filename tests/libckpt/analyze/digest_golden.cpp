// Files of one group hold the same weights, whatever their format: their digests must be the same.

#include <map>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/manifest.h"
#include "tests/support/temp_dir.h"

namespace {

/// The tensors of a file without wrappers and the counter of an averaged model, so that those can be compared too.
ckpt::Hash128 digest_of(const std::filesystem::path& file) {
  ckpt::Checkpoint plain = ckpt::strip_prefix(ckpt::open(file), {.wrappers = true});
  std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(plain.root);
  std::erase_if(entries, [](const ckpt::NamedEntry& e) { return e.name == "n_averaged"; });
  return ckpt::digest(entries).model;
}

std::vector<test::Manifest> all_manifests() {
  std::vector<test::Manifest> out;
  std::vector<std::string> folders = test::list_folder(test::golden_dir() / "checkpoints");
  for (const std::string& folder : folders) {
    if (!std::filesystem::is_directory(test::golden_dir() / "checkpoints" / folder) || folder == "make") continue;
    for (test::Manifest& manifest : test::load_manifests(folder)) out.push_back(std::move(manifest));
  }
  return out;
}

}  // namespace

int main() {
  if (!test::golden_file("checkpoints/index.json")) return 77;
  test::GoldenRun run("digest groups");
  std::map<std::string, std::pair<std::string, ckpt::Hash128>> first;  // group -> file, digest
  for (const test::Manifest& manifest : all_manifests()) {
    if (manifest.group.empty()) continue;
    try {
      ckpt::Hash128 digest = digest_of(manifest.file);
      auto [known, fresh] = first.try_emplace(manifest.group, manifest.id, digest);
      run.check(manifest.id, known->second.second == digest, "another digest than " + known->second.first);
    } catch (const core::Error& error) {
      bool skip = error.code() == core::ErrorCode::unsupported || error.code() == core::ErrorCode::refused;
      if (skip) run.skip(manifest.id, error.what());
      if (!skip) run.fail(manifest.id, error.what());
    }
  }
  return run.finish();
}
