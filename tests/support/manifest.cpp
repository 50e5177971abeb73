#include "tests/support/manifest.h"

#include <simdjson.h>

#include <algorithm>
#include <stdexcept>

#include "tests/support/golden.h"

namespace test {
namespace {

using simdjson::dom::element;

constexpr const char* kSuffix = ".manifest.json";

std::string text_or(element node, const char* key, std::string fallback = "") {
  std::string_view text;
  return node[key].get(text) == simdjson::SUCCESS ? std::string(text) : fallback;
}

bool flag(element node, const char* key) {
  bool value = false;
  return node[key].get(value) == simdjson::SUCCESS && value;
}

std::vector<std::int64_t> integers(element node, const char* key) {
  std::vector<std::int64_t> out;
  simdjson::dom::array array;
  if (node[key].get(array) != simdjson::SUCCESS) return out;
  for (element item : array) out.push_back(std::int64_t(item));
  return out;
}

std::vector<std::string> texts(element node, const char* key) {
  std::vector<std::string> out;
  simdjson::dom::array array;
  if (node[key].get(array) != simdjson::SUCCESS) return out;
  for (element item : array) out.push_back(item.is_string() ? std::string(item) : simdjson::minify(item));
  return out;
}

ManifestTensor read_tensor(element node) {
  ManifestTensor tensor;
  tensor.path = texts(node, "path");
  tensor.name = text_or(node, "name");
  tensor.dtype = text_or(node, "dtype");
  tensor.shape = integers(node, "shape");
  tensor.stride = integers(node, "stride");
  std::int64_t number = 0;
  if (node["storage_offset"].get(number) == simdjson::SUCCESS) tensor.storage_offset = number;
  if (node["nbytes"].get(number) == simdjson::SUCCESS) tensor.nbytes = static_cast<std::uint64_t>(number);
  tensor.kind = text_or(node, "kind");
  tensor.location = text_or(node, "location");
  tensor.tied = text_or(node, "tied");
  tensor.python_class = text_or(node, "class");
  tensor.sha256 = text_or(node, "sha256");
  tensor.parameter = flag(node, "parameter");
  tensor.requires_grad = flag(node, "requires_grad");
  tensor.conj = flag(node, "conj");
  tensor.neg = flag(node, "neg");
  return tensor;
}

Manifest read_manifest(const std::filesystem::path& path) {
  simdjson::dom::parser parser;
  element root;
  if (parser.load(path.string()).get(root) != simdjson::SUCCESS)
    throw std::runtime_error("cannot read " + path.string());
  Manifest manifest;
  manifest.json = path;
  manifest.id = text_or(root, "fixture");
  manifest.format = text_or(root, "format");
  manifest.file = golden_dir() / "checkpoints" / text_or(root, "entry", manifest.id);
  element expect = root["expect"];
  manifest.action = text_or(expect, "action");
  manifest.reason = text_or(expect, "reason");
  manifest.same_as = text_or(expect, "same_as");
  manifest.group = text_or(root, "group");
  manifest.warn = texts(expect, "warn");
  manifest.globals = texts(expect, "globals");
  std::int64_t exit = 0;
  if (expect["verify_exit"].get(exit) == simdjson::SUCCESS) manifest.verify_exit = static_cast<int>(exit);
  simdjson::dom::array tensors;
  manifest.has_tensors = root["tensors"].get(tensors) == simdjson::SUCCESS;
  if (manifest.has_tensors) {
    for (element tensor : tensors) manifest.tensors.push_back(read_tensor(tensor));
  }
  return manifest;
}

}  // namespace

std::vector<Manifest> load_manifests(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  if (auto found = golden_file("checkpoints/" + folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(*found)) {
      if (entry.path().string().ends_with(kSuffix)) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Manifest> manifests;
  for (const auto& path : paths) manifests.push_back(read_manifest(path));
  return manifests;
}

std::vector<ManifestTensor> load_recoverable(const Manifest& manifest) {
  simdjson::dom::parser parser;
  simdjson::dom::array tensors;
  if (parser.load(manifest.json.string())["recoverable_tensors"].get(tensors) != simdjson::SUCCESS) return {};
  std::vector<ManifestTensor> out;
  for (element tensor : tensors) out.push_back(read_tensor(tensor));
  return out;
}

Manifest load_manifest(const std::string& id) {
  return read_manifest(golden_dir() / "checkpoints" / (id + kSuffix));
}

}  // namespace test
