#include <algorithm>

#include "libckpt/ckpt.h"
#include "libckpt/io/byte_source.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "tests/support/manifest.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_dir.h"

// The golden HDF5 files of h5py and Keras: every dataset is read exactly, in the order that Keras means; what is
// damaged or reaches outside the file is refused or named.

namespace {

bool is_ours(const test::Manifest& manifest) {
  return manifest.format == "hdf5" || manifest.format == "keras-zip";
}

bool is_bad_input(core::ErrorCode code) {
  return code == core::ErrorCode::corrupt || code == core::ErrorCode::refused || code == core::ErrorCode::unsupported;
}

std::string dotted(std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

/// The dtype that a dataset means: attributes may say it where HDF5 has no type for it.
std::string expected_dtype(test::Json tensor) {
  test::Json attributes = test::member(tensor, "attributes");
  for (const char* name : {"ckpt_dtype", "dtype"}) {
    if (!test::is_null(attributes) && test::has(attributes, name)) return test::text(test::member(attributes, name));
  }
  return test::text(test::member(tensor, "dtype"));
}

/// Numbers only: those that the manifest calls something else are named and left out.
bool is_tensor(test::Json tensor) {
  return !test::has(tensor, "kind") && core::try_parse_dtype(expected_dtype(tensor)).has_value();
}

std::string compare_values(test::Json tensor, const ckpt::Entry& entry) {
  if (core::name(entry.dtype) != expected_dtype(tensor)) return "dtype " + std::string(core::name(entry.dtype));
  if (entry.shape.to_vector() != test::integers(test::member(tensor, "shape"))) return "shape";
  try {
    if (test::sha256(ckpt::read_all(*entry.bytes)) == test::text(test::member(tensor, "sha256"))) return "";
  } catch (const core::Error& error) {
    return error.code() == core::ErrorCode::unsupported ? "" : error.what();
  }
  return "bytes";
}

std::string compare_tensors(test::Json root, const ckpt::Checkpoint& checkpoint) {
  std::map<std::string, ckpt::EntryPtr> found;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) found[named.name] = named.entry;
  for (test::Json tensor : test::items(test::member(root, "tensors"))) {
    if (!is_tensor(tensor)) continue;
    std::string name = dotted(test::text(test::member(tensor, "name")));
    if (!found.contains(name)) return name + " is missing";
    std::string difference = compare_values(tensor, *found[name]);
    if (!difference.empty()) return name + ": " + difference;
  }
  return "";
}

/// The names that logical_order lists stand first and in its order, except those of other groups.
std::string compare_order(test::Json root, const ckpt::Checkpoint& checkpoint) {
  if (!test::has(root, "logical_order")) return "";
  std::vector<std::string> wanted;
  for (const std::string& name : test::texts(test::member(root, "logical_order"))) wanted.push_back(dotted(name));
  std::vector<std::string> names;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    bool listed = std::find(wanted.begin(), wanted.end(), named.name) != wanted.end();
    if (listed) names.push_back(named.name);
  }
  return names == wanted ? "" : "another order";
}

std::string compare_same_objects(test::Json root, const ckpt::Checkpoint& checkpoint) {
  if (!test::has(root, "same_object")) return "";
  for (test::Json group : test::items(test::member(root, "same_object"))) {
    const void* first = nullptr;
    for (const std::string& path : test::texts(group)) {
      const ckpt::Value* value = checkpoint.root.find(dotted(path));
      if (value == nullptr) return path + " is missing";
      const void* identity = ckpt::storage_identity(value->as_entry());
      if (first != nullptr && identity != first) return path + " is not tied";
      first = identity;
    }
  }
  return "";
}

std::string compare_root_attributes(test::Json root, const ckpt::Checkpoint& checkpoint) {
  if (!test::has(root, "root_attributes")) return "";
  for (auto [key, value] : test::member(root, "root_attributes").get_object()) {
    if (!value.is_string()) continue;
    std::pair<std::string, std::string> wanted(key, test::text(value));
    const auto& metadata = checkpoint.metadata;
    if (std::find(metadata.begin(), metadata.end(), wanted) == metadata.end()) return "metadata " + wanted.first;
  }
  return "";
}

std::string compare(const test::GoldenJson& json, const ckpt::Checkpoint& checkpoint) {
  for (auto check : {compare_tensors, compare_order, compare_same_objects, compare_root_attributes}) {
    std::string difference = check(json.root(), checkpoint);
    if (!difference.empty()) return difference;
  }
  return "";
}

/// Into a plain .h5 and back, twice with the same bytes.
std::string check_rewrite(const test::GoldenJson& json, const ckpt::Checkpoint& checkpoint) {
  test::TempDir dir;
  ckpt::save(checkpoint, dir.path() / "a.h5", {.durable = false});
  ckpt::Checkpoint back = ckpt::open(dir.path() / "a.h5");
  std::string difference = compare_tensors(json.root(), back);
  if (!difference.empty()) return "written and read again: " + difference;
  std::string before = test::read_file(dir.path() / "a.h5");
  ckpt::save(back, dir.path() / "a.h5", {.durable = false});
  return test::read_file(dir.path() / "a.h5") == before ? "" : "saving over itself changes the file";
}

std::string check_verify(const test::Manifest& manifest) {
  ckpt::VerifyResult result = ckpt::verify(manifest.file);
  if (manifest.verify_exit.value_or(0) != 0) return result.damage.empty() ? "verify found nothing" : "";
  if (manifest.action != "load" || result.damage.empty()) return "";
  return "verify found damage: " + result.damage.front().text;
}

std::string check(const test::Manifest& manifest) {
  test::GoldenJson json(manifest.json);
  try {
    ckpt::Report report;
    ckpt::Checkpoint checkpoint = ckpt::open(manifest.file, {.report = &report});
    if (manifest.action == "refuse") return "was read, although: " + manifest.reason;
    if (checkpoint.format != manifest.format) return "read as " + checkpoint.format;
    if (manifest.action == "load-report" && report.warnings.empty()) return "nothing is reported";
    std::string difference = check_verify(manifest);
    if (!difference.empty() || manifest.verify_exit) return difference;
    if (!manifest.same_as.empty())
      return compare(test::GoldenJson(test::load_manifest(manifest.same_as).json), checkpoint);
    if (manifest.has_tensors) difference = compare(json, checkpoint);
    bool whole = difference.empty() && manifest.has_tensors && manifest.action == "load";
    return whole ? check_rewrite(json, checkpoint) : difference;
  } catch (const core::Error& error) {
    if (!is_bad_input(error.code())) return std::string("wrong kind of error: ") + error.what();
    return manifest.action.starts_with("load") && manifest.action != "load-or-report" ? error.what() : "";
  }
}

/// The archive holds the weights of the file beside it.
std::string check_archive(const test::Manifest& archive, const test::Manifest& weights) {
  return compare_tensors(test::GoldenJson(weights.json).root(), ckpt::open(archive.file));
}

void check_archives(test::GoldenRun& run) {
  std::vector<test::Manifest> manifests = test::load_manifests("hdf5");
  auto named = [&](const char* id) {
    return std::find_if(manifests.begin(), manifests.end(), [&](const test::Manifest& m) { return m.id == id; });
  };
  auto archive = named("hdf5/model.keras");
  auto weights = named("hdf5/keras3.weights.h5");
  if (archive == manifests.end() || weights == manifests.end()) return;
  std::string difference = check_archive(*archive, *weights);
  run.check("hdf5/model.keras holds keras3.weights.h5", difference.empty(), difference);
}

}  // namespace

int main() {
  test::GoldenRun run("checkpoints_hdf5");
  bool any = false;
  for (const char* folder : {"hdf5", "broken"}) {
    for (const test::Manifest& manifest : test::load_manifests(folder)) {
      if (!is_ours(manifest)) continue;
      any = true;
      std::string difference = check(manifest);
      run.check(manifest.id, difference.empty(), difference);
    }
  }
  if (!any) return 77;
  check_archives(run);
  return run.finish();
}
