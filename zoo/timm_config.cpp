#include "zoo/timm_config.h"

#include <charconv>
#include <string_view>

#include "zoo/family.h"

namespace zoo {
namespace {

/// timm's names of models that have another name here.
constexpr std::pair<std::string_view, std::string_view> kTimm[] = {
    {"mobilenetv2_100", "mobilenet_v2"},
    {"mobilenetv3_small_100", "mobilenet_v3_small"},
    {"mobilenetv3_large_100", "mobilenet_v3_large"},
    {"swin_tiny_patch4_window7_224", "swin_t"},
    {"swin_small_patch4_window7_224", "swin_s"},
    {"swin_base_patch4_window7_224", "swin_b"},
    {"regnety_004", "regnet_y_400mf"},
    {"regnety_008", "regnet_y_800mf"},
    {"regnety_016", "regnet_y_1_6gf"},
    {"regnety_032", "regnet_y_3_2gf"},
    {"regnetx_004", "regnet_x_400mf"},
    {"regnetx_008", "regnet_x_800mf"},
    {"regnetx_016", "regnet_x_1_6gf"},
    {"regnetx_032", "regnet_x_3_2gf"},
};

/// Widths of vision transformers.
struct Width {
  std::string_view name;
  std::int64_t hidden, layers, heads;
};
constexpr Width kWidths[] = {{"tiny", 192, 12, 3},
                             {"small", 384, 12, 6},
                             {"base", 768, 12, 12},
                             {"large", 1024, 24, 16},
                             {"huge", 1280, 32, 16}};

/// The number that all of `text` is; 0 for anything else.
std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size() ? number : 0;
}

void set(Config& config, const char* field, std::int64_t value) {
  config.set(field, std::to_string(value));
}

/// "vit_tiny_patch16_224", "deit_small_patch16_224": sizes in the name. Empty for any other.
Config vit_sizes(std::string_view name) {
  Config config;
  for (std::string_view start : {"vit_", "deit_"}) {
    for (const Width& width : kWidths) {
      const std::string before = std::string(start) + std::string(width.name) + "_patch";
      const std::size_t mark = name.find('_', before.size());
      if (!name.starts_with(before) || mark == std::string_view::npos) continue;
      const std::int64_t patch = number_of(name.substr(before.size(), mark - before.size()));
      const std::int64_t image = number_of(name.substr(mark + 1));
      if (patch <= 0 || image <= 0) continue;
      set(config, "image_size", image);
      set(config, "patch_size", patch);
      set(config, "hidden_dim", width.hidden);
      set(config, "num_layers", width.layers);
      set(config, "num_heads", width.heads);
      set(config, "mlp_dim", 4 * width.hidden);
    }
  }
  return config;
}

void read_vit(Fields& f, Config& config) {
  f.only("global_pool", "\"token\"");
  if (f.has("img_size")) set(config, "image_size", f.square("img_size", 1));
  if (f.has("patch_size")) set(config, "patch_size", f.square("patch_size", 1));
  const std::int64_t before = number_of(*config.json_of("hidden_dim"));
  const std::int64_t width = f.count("embed_dim", before);
  const double ratio = f.factor("mlp_ratio", 4);
  set(config, "hidden_dim", width);
  set(config, "mlp_dim", static_cast<std::int64_t>(ratio * static_cast<double>(width)));
  if (f.has("depth")) set(config, "num_layers", f.depth("depth", 1));
  if (f.has("num_heads")) set(config, "num_heads", f.count("num_heads", 1));
  f.only("qkv_bias", "true");
  f.only("class_token", "true");
}

/// timm's arguments that say the same under another name, or nothing of what a trained model computes.
void read_arguments(Fields& f, Config& config, bool is_vit) {
  if (f.has("num_classes")) set(config, "num_classes", f.count("num_classes", 1));
  if (f.has("in_chans")) set(config, "in_channels", f.count("in_chans", 3));
  f.pass({"drop_rate", "drop_path_rate", "attn_drop_rate", "proj_drop_rate", "pretrained", "checkpoint_path"});
  if (is_vit) {
    read_vit(f, config);
  } else {
    f.only("global_pool", "\"avg\"");
    f.pass({"img_size"});  // these take any size
  }
  f.finish();
}

}  // namespace

std::pair<std::string, Config> timm_model(const std::string& architecture, const Config& file) {
  std::string name = architecture.substr(0, architecture.find('.'));
  Config config = vit_sizes(name);
  const bool is_vit = !config.fields().empty();
  for (const auto& [timm, ours] : kTimm) {
    if (name == timm) name = ours;
  }
  if (is_vit) name = "VisionTransformer";
  // Its norms divide by a little more or less than torchvision's.
  if (name.starts_with("efficientnet_") || name.starts_with("mobilenet_v3")) config.set("norm_eps", "1e-05");
  if (const std::string* classes = file.json_of("num_classes")) config.set("num_classes", *classes);
  const std::string* arguments = file.json_of("model_args");
  const Config given = arguments == nullptr ? Config() : Config::parse(*arguments, "field 'model_args'");
  Fields fields("timm's " + architecture, given);
  read_arguments(fields, config, is_vit);
  return {name, std::move(config)};
}

}  // namespace zoo
