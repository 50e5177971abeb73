// Golden data set transforms: what is drawn and computed for images, beside torchvision's, each from a seed.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/support/golden_arrays.h"
#include "tests/support/golden_json.h"
#include "zoo/data/augment.h"
#include "zoo/data/transforms.h"

namespace {

namespace tv = zoo::transforms;
using core::Tensor;
using test::Json;

/// The arguments of one transform, with defaults as torchvision has them.
struct Args {
  Json json;

  bool has(const char* name) const { return test::has(json, name); }
  Json at(const char* name) const { return test::member(json, name); }
  core::Shape shape(const char* name) const { return has(name) ? test::shape(at(name)) : core::Shape(); }
  std::vector<double> numbers(const char* name, std::vector<double> otherwise = {}) const {
    return has(name) ? test::numbers(at(name)) : otherwise;
  }
  double number(const char* name, double otherwise) const { return has(name) ? test::number(at(name)) : otherwise; }
  bool flag(const char* name, bool otherwise) const { return has(name) ? test::boolean(at(name)) : otherwise; }
  std::string text(const char* name, const char* otherwise) const {
    return has(name) ? test::text(at(name)) : otherwise;
  }
  std::optional<tv::Range> maybe(const char* name) const {
    if (!has(name)) return {};
    return range(name, {});
  }
  tv::Range range(const char* name, tv::Range otherwise) const {
    if (!has(name)) return otherwise;
    const std::vector<double> two = test::numbers(at(name));
    return {two.at(0), two.at(1)};
  }
  std::optional<std::int64_t> count(const char* name) const {
    return has(name) ? std::optional(test::integer(at(name))) : std::nullopt;
  }
};

tv::Transform made(const std::string& op, const Args& a);

std::vector<tv::Transform> parts_of(const Args& a) {
  std::vector<tv::Transform> all;
  for (const Json part : test::items(a.at("transforms"))) {
    all.push_back(made(test::text(test::member(part, "op")), {test::member(part, "args")}));
  }
  return all;
}

tv::RandomCropOptions crop_options(const Args& a) {
  return {.padding = a.shape("padding"),
          .pad_if_needed = a.flag("pad_if_needed", false),
          .fill = a.numbers("fill", {0}),
          .padding_mode = a.text("padding_mode", "constant")};
}

tv::RandomResizedCropOptions resized_crop_options(const Args& a) {
  return {.scale = a.range("scale", {0.08, 1}),
          .ratio = a.range("ratio", {3.0 / 4, 4.0 / 3}),
          .interpolation = a.text("interpolation", "bilinear"),
          .antialias = a.flag("antialias", true)};
}

tv::RandomAffineOptions affine_options(const Args& a) {
  return {.translate = a.maybe("translate"),
          .scale = a.maybe("scale"),
          .shear = a.numbers("shear"),
          .interpolation = a.text("interpolation", "nearest"),
          .fill = a.numbers("fill", {0}),
          .center = a.maybe("center")};
}

using Maker = std::function<tv::Transform(const Args&)>;

tv::AutoAugment auto_augment(const Args& a) {
  const std::string policy = a.text("policy", "imagenet");
  tv::AutoAugmentOptions o{.interpolation = a.text("interpolation", "nearest"), .fill = a.numbers("fill")};
  if (policy == "cifar10") o.policy = tv::AutoAugmentPolicy::cifar10;
  if (policy == "svhn") o.policy = tv::AutoAugmentPolicy::svhn;
  return tv::AutoAugment(o);
}

/// Those of augment.h.
const std::map<std::string, Maker>& level_makers() {
  static const std::map<std::string, Maker> kMakers = {
      {"RandomInvert", [](const Args& a) { return tv::RandomInvert(a.number("p", 0.5)); }},
      {"RandomEqualize", [](const Args& a) { return tv::RandomEqualize(a.number("p", 0.5)); }},
      {"RandomAutocontrast", [](const Args& a) { return tv::RandomAutocontrast(a.number("p", 0.5)); }},
      {"RandomPosterize",
       [](const Args& a) { return tv::RandomPosterize(a.count("bits").value(), a.number("p", 0.5)); }},
      {"RandomSolarize",
       [](const Args& a) { return tv::RandomSolarize(a.number("threshold", 0), a.number("p", 0.5)); }},
      {"RandomAdjustSharpness",
       [](const Args& a) { return tv::RandomAdjustSharpness(a.number("sharpness_factor", 1), a.number("p", 0.5)); }},
      {"AutoAugment", auto_augment},
      {"RandAugment",
       [](const Args& a) {
         return tv::RandAugment({.num_ops = a.count("num_ops").value_or(2),
                                 .magnitude = a.count("magnitude").value_or(9),
                                 .num_magnitude_bins = a.count("num_magnitude_bins").value_or(31),
                                 .interpolation = a.text("interpolation", "nearest"),
                                 .fill = a.numbers("fill")});
       }},
      {"TrivialAugmentWide", [](const Args& a) { return tv::TrivialAugmentWide({.fill = a.numbers("fill")}); }},
  };
  return kMakers;
}

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> kMakers = {
      {"Compose", [](const Args& a) { return tv::Compose(parts_of(a)); }},
      {"RandomApply", [](const Args& a) { return tv::RandomApply(parts_of(a), a.number("p", 0.5)); }},
      {"RandomChoice", [](const Args& a) { return tv::RandomChoice(parts_of(a), a.numbers("p")); }},
      {"RandomOrder", [](const Args& a) { return tv::RandomOrder(parts_of(a)); }},
      {"ToDtype", [](const Args& a) { return tv::ToDtype(test::dtype(a.at("dtype")), a.flag("scale", false)); }},
      {"Normalize", [](const Args& a) { return tv::Normalize(a.numbers("mean"), a.numbers("std")); }},
      {"Resize",
       [](const Args& a) {
         return tv::Resize(a.shape("size"), {.interpolation = a.text("interpolation", "bilinear"),
                                             .max_size = a.count("max_size"),
                                             .antialias = a.flag("antialias", true)});
       }},
      {"CenterCrop", [](const Args& a) { return tv::CenterCrop(a.shape("size")); }},
      {"Pad",
       [](const Args& a) {
         return tv::Pad(a.shape("padding"), a.numbers("fill", {0}), a.text("padding_mode", "constant"));
       }},
      {"RandomCrop", [](const Args& a) { return tv::RandomCrop(a.shape("size"), crop_options(a)); }},
      {"RandomResizedCrop",
       [](const Args& a) { return tv::RandomResizedCrop(a.shape("size"), resized_crop_options(a)); }},
      {"RandomHorizontalFlip", [](const Args& a) { return tv::RandomHorizontalFlip(a.number("p", 0.5)); }},
      {"RandomVerticalFlip", [](const Args& a) { return tv::RandomVerticalFlip(a.number("p", 0.5)); }},
      {"RandomRotation",
       [](const Args& a) {
         return tv::RandomRotation(a.range("degrees", {}), {.interpolation = a.text("interpolation", "nearest"),
                                                            .expand = a.flag("expand", false),
                                                            .center = a.maybe("center"),
                                                            .fill = a.numbers("fill", {0})});
       }},
      {"RandomAffine", [](const Args& a) { return tv::RandomAffine(a.range("degrees", {}), affine_options(a)); }},
      {"ColorJitter",
       [](const Args& a) {
         return tv::ColorJitter({.brightness = a.maybe("brightness"),
                                 .contrast = a.maybe("contrast"),
                                 .saturation = a.maybe("saturation"),
                                 .hue = a.maybe("hue")});
       }},
      {"Grayscale", [](const Args& a) { return tv::Grayscale(a.count("num_output_channels").value_or(1)); }},
      {"RandomGrayscale", [](const Args& a) { return tv::RandomGrayscale(a.number("p", 0.1)); }},
      {"GaussianBlur",
       [](const Args& a) {
         return tv::GaussianBlur(a.shape("kernel_size"), a.range("sigma", {0.1, 2}));
       }},
      {"RandomErasing",
       [](const Args& a) {
         return tv::RandomErasing({.p = a.number("p", 0.5),
                                   .scale = a.range("scale", {0.02, 0.33}),
                                   .ratio = a.range("ratio", {0.3, 3.3}),
                                   .value = a.numbers("value", {0})});
       }},
  };
  return kMakers;
}

bool is_known(const std::string& op) {
  return makers().contains(op) || level_makers().contains(op);
}

tv::Transform made(const std::string& op, const Args& a) {
  return (level_makers().contains(op) ? level_makers() : makers()).at(op)(a);
}

Tensor tensor_of(const test::GoldenArray& array) {
  return core::from_bytes(array.bytes, array.shape, array.dtype);
}

/// Empty, or what differs. Whole numbers are equal, but that a sum of many weights may be rounded to the other side;
/// floats differ by no more than what their order of sums makes.
std::string difference(const Tensor& got, const Tensor& wanted, bool sums) {
  if (got.dtype() != wanted.dtype()) return "type " + std::string(core::name(got.dtype()));
  if (got.sizes() != wanted.sizes())
    return "sizes " + core::to_list(got.sizes()) + " for " + core::to_list(wanted.sizes());
  if (got.numel() == 0) return "";
  const double most = core::max(core::abs(got.to(core::DType::f64) - wanted.to(core::DType::f64))).item<double>();
  const double allowed = core::is_floating(got.dtype()) ? 4e-6 : sums ? 1 : 0;
  return most <= allowed ? "" : "differs by " + std::to_string(most);
}

bool sums_weights(const std::string& op) {
  return op == "GaussianBlur" || op == "RandomAdjustSharpness" || op.find("Augment") != std::string::npos;
}

std::string check(Json json, const test::GoldenArrays& arrays) {
  const auto text = [&](const char* name) { return test::text(test::member(json, name)); };
  const Tensor input = tensor_of(arrays.at(text("input")));
  const tv::Transform transform = made(text("op"), {test::member(json, "args")});
  core::manual_seed(static_cast<std::uint64_t>(test::integer(test::member(json, "seed"))));
  const Tensor output = transform(input);
  const double next = core::rand({1}, {.dtype = core::DType::f64}).item<double>();
  if (next != test::number(test::member(json, "next"))) return "the generator stands elsewhere";
  return difference(output, tensor_of(arrays.at(text("output"))), sums_weights(text("op")));
}

std::string check_error(Json json, const test::GoldenArrays& arrays) {
  try {
    check(json, arrays);
  } catch (const core::Error& error) {
    const std::string wanted = test::text(test::member(json, "error"));
    return error.message() == wanted ? "" : error.message() + " | " + wanted;
  }
  return "no error";
}

}  // namespace

int main() {
  return test::golden_main("transforms", "transforms/cases.json", [](Json root, test::GoldenRun& run) {
    const test::GoldenArrays arrays(*test::golden_file("transforms/cases.safetensors"));
    for (const Json json : test::items(test::member(root, "cases"))) {
      const std::string id = test::text(test::member(json, "id"));
      if (!is_known(test::text(test::member(json, "op")))) {
        run.skip(id, "no such transform");
        continue;
      }
      test::guarded(run, id, [&] {
        const std::string why = test::has(json, "error") ? check_error(json, arrays) : check(json, arrays);
        run.check(id, why.empty(), why);
      });
    }
  });
}
