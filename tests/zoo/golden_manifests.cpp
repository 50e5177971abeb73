// Every key list of the golden data is compiled in, key for key. Models of other sizes than the listed ones are not.

#include <algorithm>
#include <filesystem>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"
#include "zoo/manifest/manifest.h"

namespace {

namespace fs = std::filesystem;

/// Names, shapes, dtypes, parameter or buffer, in order.
bool alike(const std::vector<ckpt::WantedKey>& a, const std::vector<ckpt::WantedKey>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ckpt::WantedKey& x, const ckpt::WantedKey& y) {
    return x.key == y.key && x.shape == y.shape && x.dtype == y.dtype && x.kind == y.kind;
  });
}

using Versions = std::vector<std::pair<std::string, std::int64_t>>;

/// Module versions that are not 1, which a list in JSON holds beside its keys.
Versions versions_of(const std::string& text, const ckpt::KeyList& list) {
  if (!text.starts_with('{')) return list.versions;
  Versions versions;
  ckpt::JsonDocument golden = ckpt::JsonDocument::parse(std::string_view(text));
  for (const ckpt::JsonView& pair : golden.root().at("metadata").items()) {
    const std::int64_t version = pair.items()[1].as_integer();
    if (version != 1) versions.emplace_back(std::string(pair.items()[0].as_text()), version);
  }
  return versions;
}

std::vector<std::string> names_of(const std::vector<ckpt::WantedKey>& keys) {
  std::vector<std::string> names;
  for (const ckpt::WantedKey& key : keys) names.push_back(key.key);
  return names;
}

/// The same of buffers that no file holds.
std::vector<std::string> unsaved_of(const std::string& text, const ckpt::KeyList& list) {
  if (!text.starts_with('{')) return names_of(list.unsaved);
  std::vector<std::string> names;
  ckpt::JsonDocument golden = ckpt::JsonDocument::parse(std::string_view(text));
  if (!golden.root().has("nonpersistent_buffers")) return names;
  for (const ckpt::JsonView& buffer : golden.root().at("nonpersistent_buffers").items()) {
    names.emplace_back(buffer.items()[0].as_text());
  }
  return names;
}

/// listed: whether all lists of the folder are those of known models.
void check(test::GoldenRun& run, const fs::path& file, bool listed) {
  std::string name = file.stem().string();
  auto known = zoo::find_manifest(name);
  if (!known && !listed) return run.skip(name, "of a size that is not listed");
  if (!known) return run.fail(name, "is not compiled in");
  const std::string text = test::read_file(file);
  ckpt::KeyList golden = ckpt::parse_key_list(text, file.string());
  ckpt::KeyDifferences difference = ckpt::compare_keys(*known, golden);
  std::string first = !difference.missing.empty() ? difference.missing.front() : "other shapes, dtypes or order";
  bool same = difference.none() && !difference.order && known->ties == golden.ties &&
              known->versions == versions_of(text, golden) && alike(known->keys, golden.keys) &&
              names_of(known->unsaved) == unsaved_of(text, golden);
  run.check(name, same, "differs: " + first);
}

}  // namespace

int main() {
  test::GoldenRun run("zoo_manifests");
  for (const char* folder : {"zoo/manifests", "zoo/vision", "zoo/language", "zoo/small"}) {
    auto path = test::golden_file(folder);
    if (!path) continue;
    for (const auto& entry : fs::directory_iterator(*path)) {
      if (entry.is_regular_file()) check(run, entry.path(), std::string_view(folder) == "zoo/manifests");
    }
  }
  if (run.passed() == 0) return 77;
  return run.finish();
}
