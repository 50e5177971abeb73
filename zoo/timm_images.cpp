#include "zoo/timm_images.h"

#include <algorithm>
#include <cmath>

#include "libckpt/io/json.h"

namespace zoo {
namespace {

/// The part of the file that speaks of images; older files have its fields at the top.
std::optional<Config> images_in(const Config& file) {
  if (!file.text_of("architecture")) return std::nullopt;
  if (const std::string* part = file.json_of("pretrained_cfg")) return Config::parse(*part, "field 'pretrained_cfg'");
  return file.has("input_size") ? std::optional(file) : std::nullopt;
}

std::array<float, 3> read_colours(Fields& f, std::string_view name, std::array<float, 3> fallback) {
  const std::optional<ckpt::JsonDocument> value = f.value(name);
  if (!value) return fallback;
  std::vector<float> numbers;
  if (value->root().is(ckpt::JsonView::Kind::array)) {
    for (const ckpt::JsonView& item : value->root().items()) {
      const bool number = item.is(ckpt::JsonView::Kind::real) || item.is(ckpt::JsonView::Kind::integer);
      numbers.push_back(number ? static_cast<float>(item.as_real()) : std::nanf(""));
    }
  }
  if (numbers.size() == 1) numbers.resize(3, numbers[0]);
  const bool good = numbers.size() == 3 && std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); });
  if (!good) f.refuse(name, "is not one number for each of three colours");
  return {numbers[0], numbers[1], numbers[2]};
}

}  // namespace

std::optional<ImageProcessor> timm_image_processor(const Config& file) {
  const std::optional<Config> said = images_in(file);
  if (!said) return std::nullopt;
  Fields f("timm's pretrained_cfg", *said);
  const std::vector<std::int64_t> size = f.counts("input_size", {3, 224, 224});
  if (size.size() != 3 || (size[0] != 1 && size[0] != 3))
    f.refuse("input_size", "is not [3, height, width] or [1, ...]");
  const double share = f.number("crop_pct", 0.875);
  constexpr double kLeastShare = 0.01;
  if (!(share >= kLeastShare && share <= 1)) f.refuse("crop_pct", "is not from 0.01 to 1");
  const std::string mode = f.word("crop_mode", "center");
  const std::string how = f.word("interpolation", "bicubic");
  ImageProcessor steps{.channels = size[0], .middle_rounds = true};
  if (how != "bilinear" && how != "bicubic")
    f.refuse("interpolation", "is '" + how + "', and only bilinear and bicubic are here");
  steps.interpolation = how == "bicubic" ? Interpolation::bicubic : Interpolation::bilinear;
  steps.crop_height = size[1];
  steps.crop_width = size[2];
  const auto whole = [&](std::int64_t side) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(side) / share));
  };
  if (mode == "squash") {
    steps.height = whole(size[1]);
    steps.width = whole(size[2]);
  } else if (mode == "center" && size[1] == size[2]) {
    steps.shorter = whole(size[1]);
  } else {
    f.refuse(mode == "center" ? "input_size" : "crop_mode",
             mode == "center" ? "is no square, whose middle is not taken here"
                              : "is '" + mode + "', and only center and squash are here");
  }
  steps.mean = read_colours(f, "mean", {0.485F, 0.456F, 0.406F});
  steps.std = read_colours(f, "std", {0.229F, 0.224F, 0.225F});
  if (std::ranges::any_of(steps.std, [](float x) { return x == 0; })) f.refuse("std", "has a 0");
  return steps;
}

std::vector<std::string> timm_class_names(const Config& file) {
  std::vector<std::string> names;
  const std::optional<Config> images = images_in(file);
  for (const Config* part : {&file, images ? &*images : nullptr}) {
    const std::string* json = part == nullptr ? nullptr : part->json_of("label_names");
    if (json == nullptr || !names.empty()) continue;
    const auto document = ckpt::JsonDocument::parse(std::string_view(*json), {.what = "field 'label_names'"});
    if (!document.root().is(ckpt::JsonView::Kind::array)) continue;
    for (const ckpt::JsonView& name : document.root().items()) {
      names.emplace_back(name.is(ckpt::JsonView::Kind::text) ? name.as_text() : std::string_view());
    }
  }
  return names;
}

}  // namespace zoo
