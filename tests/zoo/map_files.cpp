#include "tests/zoo/map_files.h"

#include <unordered_set>

#include "libckpt/io/json.h"
#include "libcore/base/text.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace test {
namespace {

struct Line {
  const char* map;
  const char* model;
  bool model_is_source;
  const char* packs;  ///< with blanks between
  bool backwards;
};
constexpr Line kLines[] = {
    {"convnext_tiny_torchvision_timm", "vision/convnext_tiny", true, "timm-convnext", true},
    {"efficientnet_b0_torchvision_timm", "vision/efficientnet_b0", true, "timm-efficientnet", true},
    {"gpt2_hf_nanogpt", "language/gpt2_tiny", true, "gpt2-nanogpt", false},
    {"legacy_bert_gamma_beta", "language/bert_tiny", false, "old-bert bert-encoder", false},
    {"legacy_torchvision_densenet121", "vision/densenet121", false, "old-densenet", false},
    {"legacy_torchvision_vit", "vision/vit_small_twin", false, "old-vit", false},
    {"mobilenet_v2_torchvision_timm", "vision/mobilenet_v2", true, "timm-mobilenet-v2", true},
    {"mobilenet_v3_small_torchvision_timm", "vision/mobilenet_v3_small", true, "timm-mobilenet-v3-small", true},
    {"regnet_y_400mf_torchvision_timm", "vision/regnet_y_400mf", true, "timm-regnet", true},
    {"resnet18_torchvision_hf", "vision/resnet18", true, "hf-resnet", true},
    {"resnet18_torchvision_timm", "vision/resnet18", true, "timm-resnet", true},
    {"resnet50_torchvision_hf", "vision/resnet50", true, "hf-resnet", true},
    {"swin_t_torchvision_timm", "vision/swin_t", true, "timm-swin", true},
    {"vit_torchvision_hf", "vision/vit_small_twin", true, "hf-vit", true},
    {"vit_torchvision_timm", "vision/vit_small_twin", true, "timm-vit", true},
};

std::vector<MapPair> read_pairs(const ckpt::JsonView& map, const ckpt::KeyList& model) {
  std::vector<MapPair> pairs;
  for (const ckpt::JsonView& item : map.at("pairs").items()) {
    std::vector<ckpt::JsonView> parts = item.items();
    std::string operation = parts.size() > 2 ? std::string(parts[2].as_text()) : "";
    pairs.push_back({std::string(parts[0].as_text()), std::string(parts[1].as_text()), operation});
  }
  if (!map.has("same_names")) return pairs;
  std::unordered_set<std::string> named;
  for (const MapPair& pair : pairs) named.insert(pair.to);
  for (const ckpt::WantedKey& key : model.keys) {
    bool counter = key.key.ends_with("num_batches_tracked");
    if (!counter && !named.contains(key.key)) pairs.push_back({key.key, key.key, ""});
  }
  return pairs;
}

}  // namespace

std::optional<MapFile> read_map(const std::filesystem::path& file) {
  for (const Line& line : kLines) {
    if (file.stem() != line.map) continue;
    MapFile out;
    out.name = line.map;
    out.model_file = "zoo/" + std::string(line.model) + ".json";
    auto model = golden_file(out.model_file);
    if (!model) return std::nullopt;
    out.model = ckpt::parse_key_list(read_file(*model), line.model);
    out.model_is_source = line.model_is_source;
    for (std::string_view pack : core::split(line.packs, ' ')) out.packs.emplace_back(pack);
    out.backwards = line.backwards;
    ckpt::JsonDocument map = ckpt::JsonDocument::parse(std::string_view(read_file(file)));
    out.pairs = read_pairs(map.root(), out.model);
    return out;
  }
  return std::nullopt;
}

core::Shape other_shape(const core::Shape& shape, const std::string& operation) {
  core::Shape out;
  if (operation == "transpose") {
    for (std::size_t d = shape.size(); d-- > 0;) out.push_back(shape[d]);
    return out;
  }
  if (operation != "reshape") return shape;
  if (shape.size() == 2) return core::Shape{shape[0], shape[1], 1, 1};
  for (std::int64_t size : shape) {
    if (size != 1) out.push_back(size);
  }
  return out;
}

}  // namespace test
