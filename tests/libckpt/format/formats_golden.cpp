// Golden data set: files of formats that are only read, as their own libraries write them (make_formats.py). Names,
// types, shapes and values are those that the library reads; so is what the file says about itself; and a native file
// holds the same. Exits with 77 without the data.

#include <simdjson.h>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/golden_checkpoint.h"
#include "tests/support/temp_dir.h"

namespace {

std::string compare_metadata(const test::Manifest& manifest, const ckpt::Checkpoint& checkpoint) {
  simdjson::dom::parser parser;
  simdjson::dom::object expected;
  if (parser.load(manifest.json.string())["metadata"].get(expected) != simdjson::SUCCESS) return "";
  if (checkpoint.metadata.size() != expected.size()) return "other metadata";
  for (const auto& [key, text] : checkpoint.metadata) {
    std::string_view wanted;
    if (expected[key].get(wanted) != simdjson::SUCCESS || wanted != text) return "metadata " + key + " = " + text;
  }
  return "";
}

std::string compare_saved(const test::Manifest& manifest, const ckpt::Checkpoint& checkpoint) {
  test::TempDir dir;
  ckpt::save(checkpoint, dir.path() / "a.ckpt", {.durable = false});
  std::string difference = compare_tensors(manifest, ckpt::open(dir.path() / "a.ckpt"));
  return difference.empty() ? "" : "saved as .ckpt: " + difference;
}

std::string check(const test::Manifest& manifest) {
  try {
    ckpt::Checkpoint checkpoint = ckpt::open(manifest.file);
    if (checkpoint.format != manifest.format) return "read as " + checkpoint.format;
    std::string difference = compare_tensors(manifest, checkpoint);
    if (difference.empty()) difference = compare_metadata(manifest, checkpoint);
    if (difference.empty()) difference = compare_saved(manifest, checkpoint);
    if (!difference.empty()) return difference;
    ckpt::VerifyResult result = ckpt::verify(manifest.file);
    return result.damage.empty() ? "" : "verify found damage: " + result.damage.front().text;
  } catch (const core::Error& error) {
    return error.what();
  }
}

}  // namespace

int main() {
  test::GoldenRun run("checkpoints_formats");
  bool any = false;
  for (const char* folder : {"onnx", "flax", "pickle", "paddle", "pt2"}) {
    for (const test::Manifest& manifest : test::load_manifests(folder)) {
      any = true;
      std::string difference = check(manifest);
      run.check(manifest.id, difference.empty(), difference);
    }
  }
  if (!any) return 77;
  return run.finish();
}
