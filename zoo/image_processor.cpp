#include "zoo/image_processor.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "zoo/from_folder.h"
#include "zoo/preprocessing.h"
#include "zoo/timm_images.h"

namespace zoo {
namespace {

using core::Error;
using core::ErrorCode;

constexpr const char* kFile = "preprocessor_config.json";
constexpr std::int64_t kWarpsFrom = 384;  ///< ConvNeXt cuts the middle out of smaller images alone
constexpr double kLeastShare = 0.01;      ///< of an image that is left
constexpr std::array<float, 3> kHalves = {0.5F, 0.5F, 0.5F};
constexpr std::array<float, 3> kClipMean = {0.48145466F, 0.4578275F, 0.40821073F};
constexpr std::array<float, 3> kClipStd = {0.26862954F, 0.26130258F, 0.27577711F};

/// What a processor does where its file says nothing.
struct Kind {
  std::string_view name;    ///< of its class, without the ending "ImageProcessor"
  std::string_view family;  ///< what the names of families begin with
  std::int64_t size = 224;
  bool shorter = false;  ///< the size is that of the shorter side
  std::int64_t crop = 224;
  bool crops = false;
  Interpolation interpolation = Interpolation::bicubic;
  bool clip_colours = false;  ///< mean and deviation of CLIP, else 0.5
  bool normalizes = true;
  bool blue_first = false;
};

constexpr Kind kKinds[] = {
    {.name = "ViT", .family = "ViT", .interpolation = Interpolation::bilinear},
    {.name = "DeiT", .family = "DeiT", .size = 256, .crops = true},
    {.name = "Beit", .family = "Beit"},
    {.name = "Bit", .family = "Dinov2", .shorter = true, .crops = true, .clip_colours = true},
    {.name = "ConvNext", .family = "ConvNextV2", .size = 384, .shorter = true},
    {.name = "MobileViT",
     .family = "MobileViT",
     .shorter = true,
     .crop = 256,
     .crops = true,
     .normalizes = false,
     .blue_first = true},
    {.name = "CLIP", .family = "CLIP", .shorter = true, .crops = true, .clip_colours = true},
};

/// "ViTImageProcessorFast", "ViTFeatureExtractor": "ViT".
std::string_view short_name(std::string_view type) {
  for (std::string_view end : {"Fast", "Pil"}) {
    if (type.ends_with(end)) type.remove_suffix(end.size());
  }
  for (std::string_view end : {"ImageProcessor", "FeatureExtractor"}) {
    if (type.ends_with(end)) type.remove_suffix(end.size());
  }
  return type;
}

const Kind& kind_named(const std::string& type) {
  for (const Kind& kind : kKinds) {
    if (kind.name == short_name(type)) return kind;
  }
  throw Error(ErrorCode::unsupported, "images are prepared by \"" + type + "\", which is not here");
}

/// The processor of a family; null for a family that has none of its own.
const Kind* kind_of(std::string_view family) {
  const auto found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& kind) { return family.starts_with(kind.family); });
  return found == std::end(kKinds) ? nullptr : found;
}

std::string type_in(const Config& config) {
  for (const char* name : {"image_processor_type", "feature_extractor_type"}) {
    if (const std::string type = config.text_of(name).value_or(""); !type.empty()) return type;
  }
  return "";
}

void set_type(Config& config, const Kind& kind) {
  config.set("image_processor_type", ckpt::json_quote(std::string(kind.name) + "ImageProcessor"));
}

struct Sides {
  std::int64_t height = 0, width = 0, shorter = 0;
};

/// {"height": 224, "width": 224}, {"shortest_edge": 224}, or a number.
Sides read_sides(Fields& f, std::string_view name, std::int64_t fallback, bool shorter) {
  const auto value = f.value(name);
  Sides sides;
  if (!value || value->root().is(ckpt::JsonView::Kind::integer)) {
    const std::int64_t side = f.count(name, fallback);
    return shorter ? Sides{.shorter = side} : Sides{.height = side, .width = side};
  }
  const Config inner_config = Config::parse(value->text(), "field '" + std::string(name) + "'");
  Fields inner(f.family() + "'s " + std::string(name), inner_config);
  if (inner.has("shortest_edge")) {
    sides.shorter = inner.count("shortest_edge", fallback);
  } else {
    sides.height = inner.count("height", fallback);
    sides.width = inner.count("width", fallback);
  }
  inner.finish();
  return sides;
}

std::array<float, 3> read_colours(Fields& f, std::string_view name, const std::array<float, 3>& fallback) {
  const auto value = f.value(name);
  if (!value) return fallback;
  std::vector<ckpt::JsonView> items{value->root()};
  if (items[0].is(ckpt::JsonView::Kind::array)) items = value->root().items();
  std::array<float, 3> colours{};
  if (items.size() != 1 && items.size() != 3) f.refuse(name, "has neither one number nor three");
  for (std::size_t i = 0; i < 3; ++i) {
    const ckpt::JsonView& item = items[items.size() == 1 ? 0 : i];
    if (!item.is(ckpt::JsonView::Kind::real) && !item.is(ckpt::JsonView::Kind::integer)) {
      f.refuse(name, "is no list of numbers");
    }
    colours[i] = static_cast<float>(item.as_real());
  }
  return colours;
}

Interpolation read_resample(Fields& f, Interpolation fallback) {
  constexpr std::int64_t kBilinear = 2, kBicubic = 3;
  const std::int64_t number = f.count("resample", fallback == Interpolation::bilinear ? kBilinear : kBicubic, 0);
  if (number == kBilinear) return Interpolation::bilinear;
  if (number == kBicubic) return Interpolation::bicubic;
  f.refuse("resample", "is " + std::to_string(number) + ", and only 2 (bilinear) and 3 (bicubic) are here");
}

void read_size(Fields& f, const Kind& kind, ImageProcessor& steps) {
  const Sides sides = read_sides(f, "size", kind.size, kind.shorter);
  const bool resizes = f.flag("do_resize", true), crops = f.flag("do_center_crop", kind.crops);
  const Sides crop = read_sides(f, "crop_size", kind.crop, false);
  const double share = f.number("crop_pct", 224.0 / 256);
  if (!(share >= kLeastShare && share <= 1)) f.refuse("crop_pct", "is not a share of the image, such as 0.875");
  if (resizes) {
    steps.shorter = sides.shorter;
    steps.height = sides.height;
    steps.width = sides.width;
  }
  if (resizes && kind.name == "ConvNext") {
    if (sides.shorter == 0) f.refuse("size", "has no shortest_edge");
    const bool warps = sides.shorter >= kWarpsFrom;
    steps.shorter = warps ? 0 : static_cast<std::int64_t>(static_cast<double>(sides.shorter) / share);
    (warps ? steps.height : steps.crop_height) = (warps ? steps.width : steps.crop_width) = sides.shorter;
  }
  if (!crops) return;
  if (crop.shorter != 0) f.refuse("crop_size", "has no height and width");
  steps.crop_height = crop.height;
  steps.crop_width = crop.width;
}

/// Every side is that of the model's images, and nothing is cut.
void fit_to_model(const Config& config, const std::string& family, ImageProcessor& steps) {
  Fields f(family, config);
  const std::int64_t side = f.square("image_size", 0 < steps.crop_height ? steps.crop_height : steps.height);
  steps.channels = f.count("num_channels", 3);
  if (side == 0 || (!config.has("image_size"))) return;
  if (steps.crop_height != 0) steps.crop_height = steps.crop_width = side;
  if (steps.shorter != 0) steps.shorter = side;
  if (steps.height != 0) steps.height = steps.width = side;
}

ImageProcessor of_preset(const Preprocessing& preset) {
  ImageProcessor steps{.shorter = preset.resize,
                       .height = preset.resize == 0 ? preset.crop : 0,
                       .width = preset.resize == 0 ? preset.crop : 0,
                       .interpolation = preset.interpolation,
                       .channels = preset.channels,
                       .mean = preset.mean,
                       .std = preset.std};
  if (preset.resize != 0) steps.crop_height = steps.crop_width = preset.crop;
  return steps;
}

/// What a family has by itself.
ImageProcessor usual_processor(const FolderConfig& said) {
  const Kind* kind = kind_of(said.family->name);
  if (kind == nullptr) return of_preset(Preprocessing());
  Config config;
  set_type(config, *kind);
  ImageProcessor steps = read_image_processor(config);
  fit_to_model(said.config, std::string(said.family->name), steps);
  return steps;
}

std::string pair(std::int64_t width, std::int64_t height) {
  return std::to_string(width) + " x " + std::to_string(height);
}

/// Of the middle; black where the image has no pixel.
Image middle_of(const Image& image, std::int64_t width, std::int64_t height, bool rounds) {
  const auto below_half = [rounds](std::int64_t x) {
    if (rounds) return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(x) / 2));
    return x >= 0 ? x / 2 : (x - 1) / 2;
  };
  const std::int64_t top = below_half(image.height - height), left = below_half(image.width - width);
  Image part = make_image(width, height, image.channels);
  for (std::int64_t y = std::max<std::int64_t>(0, -top); y < height && y + top < image.height; ++y) {
    const std::int64_t begin = std::max<std::int64_t>(0, -left), end = std::min(width, image.width - left);
    if (begin >= end) continue;
    const std::uint8_t* from = image.row(y + top) + (begin + left) * image.channels;
    std::copy_n(from, (end - begin) * image.channels, part.row(y) + begin * image.channels);
  }
  return part;
}

}  // namespace

ImageProcessor read_image_processor(const Config& config) {
  const Kind& kind = kind_named(type_in(config));
  Fields f(std::string(kind.name) + "ImageProcessor", config);
  f.pass({"image_processor_type", "feature_extractor_type", "processor_class", "data_format", "input_data_format",
          "return_tensors", "device", "disable_grouping", "default_to_square", "do_convert_rgb", "image_seq_length",
          "pad_size", "do_reduce_labels", "backend"});
  f.only("do_pad", "false");
  ImageProcessor steps;
  read_size(f, kind, steps);
  steps.interpolation = read_resample(f, kind.interpolation);
  steps.blue_first = f.flag("do_flip_channel_order", kind.blue_first);
  const double factor = f.number("rescale_factor", steps.scale);
  steps.scale = f.flag("do_rescale", true) ? factor : 1;
  const auto mean = read_colours(f, "image_mean", kind.clip_colours ? kClipMean : kHalves);
  const auto std = read_colours(f, "image_std", kind.clip_colours ? kClipStd : kHalves);
  if (f.flag("do_normalize", kind.normalizes)) {
    if (std::any_of(std.begin(), std.end(), [](float x) { return x == 0; })) f.refuse("image_std", "has a 0");
    steps.mean = mean;
    steps.std = std;
  }
  f.finish();
  return steps;
}

ImageProcessor folder_image_processor(const std::filesystem::path& folder) {
  const FolderConfig said = folder_config(folder);
  const auto read = [&](const std::filesystem::path& file, Config config) {
    const Kind* usual = kind_of(said.family->name);
    if (type_in(config).empty() && usual != nullptr) set_type(config, *usual);  // as old files have it
    ImageProcessor steps = core::with_context(file.string(), [&] { return read_image_processor(config); });
    Fields f(said.family->name, said.config);
    steps.channels = f.count("num_channels", 3);
    return steps;
  };
  const std::filesystem::path own = folder / "config.json";
  const auto timm = core::with_context(own.string(), [&] { return timm_image_processor(Config::read(own)); });
  if (timm) return *timm;
  if (std::filesystem::exists(folder / kFile)) return read(folder / kFile, Config::read(folder / kFile));
  const std::filesystem::path file = folder / "processor_config.json";
  const std::optional<Config> whole = std::filesystem::exists(file) ? std::optional(Config::read(file)) : std::nullopt;
  if (whole && whole->has("image_processor")) {
    return read(file, Config::parse(*whole->json_of("image_processor"), "field 'image_processor'"));
  }
  return core::with_context(folder.string(), [&] { return usual_processor(said); });
}

std::string describe(const ImageProcessor& steps) {
  const std::string how = steps.interpolation == Interpolation::bicubic ? " (bicubic)" : " (bilinear)";
  std::vector<std::string> parts;
  if (steps.channels == 1) parts.emplace_back("grey");
  if (steps.shorter != 0) parts.push_back("shorter side to " + std::to_string(steps.shorter) + how);
  if (steps.height != 0) parts.push_back("to " + pair(steps.width, steps.height) + how);
  if (steps.crop_height != 0) parts.push_back("middle " + pair(steps.crop_width, steps.crop_height));
  if (steps.blue_first) parts.emplace_back("blue first");
  parts.push_back(describe_scale(steps.mean, steps.std, steps.channels));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

Image sized(const Image& image, const ImageProcessor& steps) {
  Image part = steps.channels == 1 ? to_grey(image) : to_rgb(image);
  if (steps.shorter != 0 || steps.height != 0) {
    ResizeOptions size{.width = steps.width, .height = steps.height};
    if (steps.shorter != 0) size = shorter_side(part, steps.shorter);
    size.interpolation = steps.interpolation;
    part = resize(part, size);
  }
  if (steps.crop_height != 0) part = middle_of(part, steps.crop_width, steps.crop_height, steps.middle_rounds);
  if (!steps.blue_first || part.channels != 3) return part;
  for (std::size_t i = 0; i + 2 < part.pixels.size(); i += 3) std::swap(part.pixels[i], part.pixels[i + 2]);
  return part;
}

core::Tensor process(const Image& image, const ImageProcessor& steps) {
  const Image part = sized(image, steps);
  const auto plane = static_cast<std::size_t>(part.width * part.height);
  const auto channels = static_cast<std::size_t>(part.channels);
  std::vector<float> values(plane * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = 0; i < plane; ++i) {
      const auto scaled = static_cast<float>(static_cast<double>(part.pixels[i * channels + c]) * steps.scale);
      values[c * plane + i] = (scaled - steps.mean[c]) / steps.std[c];
    }
  }
  return core::from_values(std::span<const float>(values), core::Shape{part.channels, part.height, part.width},
                           {.device = core::Device("cpu")});
}

}  // namespace zoo
