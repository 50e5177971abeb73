#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/golden_checkpoint.h"
#include "tests/support/manifest.h"
#include "tests/support/temp_dir.h"

// The golden safetensors files: what is in them is read exactly; what must be refused is refused as bad input.

namespace {

bool is_ours(const test::Manifest& manifest) {
  return manifest.format == "safetensors" || manifest.format == "safetensors-sharded";
}

/// Without the names that a tensor has beside its own, which the file tells in its metadata and safetensors leaves out.
ckpt::Checkpoint stored_alone(const test::Manifest& manifest, ckpt::Checkpoint checkpoint) {
  if (!checkpoint.root.is(ckpt::Value::Kind::dict)) return checkpoint;
  std::set<std::string> stored;
  for (const test::ManifestTensor& tensor : manifest.tensors) stored.insert(tensor.name);
  ckpt::Dict dict = checkpoint.root.as_dict();
  std::erase_if(dict.items, [&](const auto& item) {
    if (!item.second.is(ckpt::Value::Kind::tensor) || stored.contains(ckpt::step_text(item.first))) return false;
    return std::any_of(
        checkpoint.root.as_dict().items.begin(), checkpoint.root.as_dict().items.end(), [&](const auto& other) {
          return stored.contains(ckpt::step_text(other.first)) && other.second.is(ckpt::Value::Kind::tensor) &&
                 ckpt::same_view(other.second.as_entry(), item.second.as_entry());
        });
  });
  checkpoint.root = ckpt::Value::dict(std::move(dict));
  return checkpoint;
}

std::string check_loads(const test::Manifest& manifest) {
  ckpt::Report report;
  ckpt::Checkpoint checkpoint = ckpt::open(manifest.file, {.report = &report});
  if (checkpoint.format != manifest.format) return "read as " + checkpoint.format;
  if (!manifest.warn.empty() && report.warnings.empty()) return "no warning about " + manifest.warn.front();
  if (!manifest.same_as.empty()) return test::compare_tensors(test::load_manifest(manifest.same_as), checkpoint);
  return manifest.has_tensors ? test::compare_tensors(manifest, stored_alone(manifest, checkpoint)) : "";
}

bool is_bad_input(core::ErrorCode code) {
  return code == core::ErrorCode::corrupt || code == core::ErrorCode::refused || code == core::ErrorCode::unsupported;
}

std::string check_verify(const test::Manifest& manifest) {
  ckpt::VerifyResult result = ckpt::verify(manifest.file);
  if (manifest.verify_exit.value_or(0) != 0) return result.damage.empty() ? "verify found nothing" : "";
  return result.damage.empty() ? "" : "verify found damage: " + result.damage.front().text;
}

/// Loads lazily and saves to the same path, in a copy of the file or folder.
std::string check_rewrite(const test::Manifest& manifest) {
  test::TempDir dir;
  std::filesystem::path from = manifest.file;
  bool sharded = manifest.format == "safetensors-sharded";
  std::filesystem::path copy = dir.path() / "copy" / from.filename();
  std::filesystem::create_directory(dir.path() / "copy");
  std::filesystem::copy(sharded ? from.parent_path() : from, sharded ? copy.parent_path() : copy);
  std::map<std::string, std::string> before;
  for (const std::string& name : test::list_folder(copy.parent_path())) {
    before[name] = test::read_file(copy.parent_path() / name);
  }
  ckpt::save(ckpt::open(copy), copy, {.format = manifest.format});
  for (const auto& [name, content] : before) {
    if (test::read_file(copy.parent_path() / name) != content) return "saving over itself changed " + name;
  }
  return test::list_folder(copy.parent_path()).size() == before.size() ? "" : "saving over itself left files behind";
}

/// "" when reading, verifying and saving do what the manifest demands.
std::string check(const test::Manifest& manifest) {
  try {
    std::string difference = check_loads(manifest);
    if (manifest.action == "refuse") return "was read, although: " + manifest.reason;
    if (difference.empty()) difference = check_verify(manifest);
    bool complete = manifest.verify_exit.value_or(0) == 0;  // what is not in the tree is not saved
    return difference.empty() && complete ? check_rewrite(manifest) : difference;
  } catch (const core::Error& error) {
    if (!is_bad_input(error.code())) return std::string("wrong kind of error: ") + error.what();
    return manifest.action == "load" ? error.what() : "";
  }
}

}  // namespace

int main() {
  test::GoldenRun run("checkpoints_safetensors");
  bool any = false;
  for (const char* folder : {"safetensors", "broken"}) {
    for (const test::Manifest& manifest : test::load_manifests(folder)) {
      if (!is_ours(manifest)) continue;
      any = true;
      std::string difference = check(manifest);
      run.check(manifest.id, difference.empty(), difference);
    }
  }
  if (!any) return 77;
  return run.finish();
}
