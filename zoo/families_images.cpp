// Models of images, by the keyword arguments that torchvision's constructors take. Blocks that Python hands over as
// objects are lists of numbers here, in the order of the objects' arguments.

#include <algorithm>
#include <cmath>
#include <optional>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "zoo/alexnet.h"
#include "zoo/convnext.h"
#include "zoo/densenet.h"
#include "zoo/efficientnet.h"
#include "zoo/family.h"
#include "zoo/googlenet.h"
#include "zoo/inception.h"
#include "zoo/mobilenet.h"
#include "zoo/regnet.h"
#include "zoo/resnet.h"
#include "zoo/segmentation.h"
#include "zoo/shufflenet.h"
#include "zoo/squeezenet.h"
#include "zoo/swin.h"
#include "zoo/unet.h"
#include "zoo/vgg.h"
#include "zoo/vit.h"

namespace zoo::detail {
namespace {

using ckpt::JsonView;

/// What every builder of torchvision takes; weights come from files here.
template <class Options>
void read_builder(Fields& f, Options& o) {
  f.only("weights", "null");
  f.pass({"progress"});
  o.num_classes = f.count("num_classes", o.num_classes);
  o.in_channels = f.count("in_channels", o.in_channels);
}

/// A number of a row; null and false are 0, true is 1, and so are the words that say which of two.
std::optional<std::int64_t> number_of(const JsonView& item) {
  if (item.is(JsonView::Kind::null)) return 0;
  if (item.is(JsonView::Kind::boolean)) return item.as_boolean() ? 1 : 0;
  if (item.is(JsonView::Kind::text)) {
    const std::string_view word = item.as_text();
    if (word == "HS" || word == "FusedMBConv") return 1;
    return word == "RE" || word == "MBConv" ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  return item.is_count() && item.as_integer() <= 1 << 24 ? std::optional<std::int64_t>(item.as_integer())
                                                         : std::nullopt;
}

/// The values of a row that is a list, or an object with such fields.
std::vector<std::int64_t> read_row(const JsonView& row, const std::vector<std::string_view>& fields) {
  std::vector<std::int64_t> numbers;
  if (row.is(JsonView::Kind::array)) {
    for (const JsonView& item : row.items()) {
      const auto number = number_of(item);
      if (!number) return {};
      numbers.push_back(*number);
    }
    // The first field may be left out where it is 0 for most.
    if (numbers.size() + 1 == fields.size() && fields[0] == "block") numbers.insert(numbers.begin(), 0);
    return numbers;
  }
  if (!row.is(JsonView::Kind::object)) return {};
  for (std::string_view field : fields) {
    const auto number = row.has(field) ? number_of(row.at(field)) : 0;
    if (!number) return {};
    numbers.push_back(*number);
  }
  for (const auto& [name, value] : row.members()) {
    if (std::find(fields.begin(), fields.end(), name) == fields.end()) return {};
  }
  return numbers;
}

/// Of these 0 and null say that there is none: of the last stage no stage follows.
bool may_be_nothing(std::string_view field) {
  constexpr std::string_view kNothing[] = {"block", "use_se", "activation", "dilation", "out_channels"};
  return std::find(std::begin(kNothing), std::end(kNothing), field) != std::end(kNothing);
}

/// A list of rows; none when it is absent.
std::vector<std::vector<std::int64_t>> read_rows(Fields& f, std::string_view name,
                                                 const std::vector<std::string_view>& fields) {
  std::vector<std::vector<std::int64_t>> rows;
  const auto value = f.value(name);
  if (!value) return rows;
  std::string wrong = "is no list of rows of ";
  for (std::string_view field : fields) wrong += (field == fields[0] ? "" : ", ") + std::string(field);
  if (!value->root().is(JsonView::Kind::array)) f.refuse(name, wrong);
  for (const JsonView& row : value->root().items()) {
    rows.push_back(read_row(row, fields));
    if (rows.back().size() != fields.size()) f.refuse(name, wrong);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::int64_t number = rows.back()[i];
      if (number == 0 && !may_be_nothing(fields[i])) f.refuse(name, "has a row without " + std::string(fields[i]));
      const bool counts_layers = fields[i] == "num_layers" || fields[i] == "n";
      if (counts_layers && number > Fields::kDeepest) f.refuse(name, "has a row of too many layers");
    }
  }
  if (rows.empty()) f.refuse(name, "is an empty list");
  return rows;
}

AlexNet::Options read_alexnet(Fields& f) {
  AlexNet::Options o;
  read_builder(f, o);
  o.dropout = f.probability("dropout", o.dropout);
  return o;
}

/// "A", "B", "D" or "E" of the paper, or a list of widths and "M".
std::vector<std::int64_t> read_vgg_plan(Fields& f, std::vector<std::int64_t> fallback) {
  const auto value = f.value("cfg");
  if (!value) return fallback;
  if (value->root().is(JsonView::Kind::text)) {
    const std::string letter = f.choice("cfg", "A", {"A", "B", "D", "E"});
    const std::size_t late = letter == "A" || letter == "B" ? 2 : letter == "D" ? 3 : 4;
    const std::size_t depths[] = {letter == "A" ? 1U : 2U, letter == "A" ? 1U : 2U, late, late, late};
    constexpr std::int64_t kWidths[] = {64, 128, 256, 512, 512};
    std::vector<std::int64_t> plan;
    for (std::size_t i = 0; i < 5; ++i) {
      plan.insert(plan.end(), depths[i], kWidths[i]);
      plan.push_back(0);
    }
    return plan;
  }
  if (!value->root().is(JsonView::Kind::array)) f.refuse("cfg", "is neither a letter nor a list");
  std::vector<std::int64_t> plan;
  for (const JsonView& item : value->root().items()) {
    const bool halves = item.is(JsonView::Kind::text) && item.as_text() == "M";
    if (!halves && !(item.is_count() && item.as_integer() > 0 && item.as_integer() <= 1 << 20)) {
      f.refuse("cfg", "has an entry that is neither a number of channels nor \"M\"");
    }
    plan.push_back(halves ? 0 : item.as_integer());
  }
  return plan;
}

VGG::Options read_vgg(Fields& f) {
  VGG::Options o;
  read_builder(f, o);
  o.plan = read_vgg_plan(f, o.plan);
  o.batch_norm = f.flag("batch_norm", o.batch_norm);
  o.dropout = f.probability("dropout", o.dropout);
  f.only("init_weights", "true");
  return o;
}

void read_resnet_stages(Fields& f, ResNet::Options& o) {
  o.bottleneck = f.choice("block", "BasicBlock", {"BasicBlock", "Bottleneck"}) == "Bottleneck";
  const std::vector<std::int64_t> layers = f.depths("layers", {2, 2, 2, 2});
  if (layers.size() != 4) f.refuse("layers", "has " + std::to_string(layers.size()) + " stages, and four are here");
  std::copy(layers.begin(), layers.end(), o.depths.begin());
  o.groups = f.count("groups", o.groups);
  o.width_per_group = f.count("width_per_group", o.width_per_group);
  if (!o.bottleneck && (o.groups != 1 || o.width_per_group != 64)) {
    f.refuse(o.groups != 1 ? "groups" : "width_per_group", "is for blocks of kind \"Bottleneck\" alone");
  }
}

ResNet::Options read_resnet(Fields& f) {
  ResNet::Options o;
  read_builder(f, o);
  read_resnet_stages(f, o);
  o.zero_init_residual = f.flag("zero_init_residual", false);
  const std::vector<bool> dilate = f.flags("replace_stride_with_dilation", {false, false, false});
  if (dilate.size() != 3) f.refuse("replace_stride_with_dilation", "has not three entries");
  std::copy(dilate.begin(), dilate.end(), o.dilate.begin());
  if (!o.bottleneck && (dilate[0] || dilate[1] || dilate[2])) {
    f.refuse("replace_stride_with_dilation", "is for blocks of kind \"Bottleneck\" alone");
  }
  return o;
}

std::shared_ptr<core::Module> make_squeezenet(Fields& f) {
  SqueezeNet::Options o;
  read_builder(f, o);
  o.dropout = f.probability("dropout", o.dropout);
  const bool first = f.choice("version", "1_0", {"1_0", "1_1"}) == "1_0";
  f.finish();
  return std::make_shared<SqueezeNet>(first ? SqueezeNet::Version::v1_0 : SqueezeNet::Version::v1_1, o);
}

DenseNet::Options read_densenet(Fields& f) {
  DenseNet::Options o;
  read_builder(f, o);
  o.growth = f.count("growth_rate", o.growth);
  o.depths = f.depths("block_config", o.depths);
  o.first = f.count("num_init_features", o.first);
  o.bottleneck = f.count("bn_size", o.bottleneck);
  o.dropout = f.probability("drop_rate", o.dropout);
  f.pass({"memory_efficient"});
  return o;
}

/// What the two models with auxiliary heads have in common.
template <class Options>
Options read_auxiliary(Fields& f) {
  Options o;
  read_builder(f, o);
  o.aux_logits = f.flag("aux_logits", o.aux_logits);
  o.transform_input = f.flag("transform_input", o.transform_input);
  o.dropout = f.probability("dropout", o.dropout);
  f.only("init_weights", "true");
  return o;
}

GoogLeNet::Options read_googlenet(Fields& f) {
  auto o = read_auxiliary<GoogLeNet::Options>(f);
  o.dropout_aux = f.probability("dropout_aux", o.dropout_aux);
  return o;
}

MobileNetV2::Options read_mobilenet_v2(Fields& f) {
  MobileNetV2::Options o;
  read_builder(f, o);
  o.width_mult = f.factor("width_mult", o.width_mult);
  o.round_nearest = f.count("round_nearest", o.round_nearest);
  o.dropout = f.probability("dropout", o.dropout);
  const auto rows = read_rows(f, "inverted_residual_setting", {"t", "c", "n", "s"});
  if (!rows.empty()) o.stages.clear();
  for (const auto& row : rows) o.stages.push_back({row[0], row[1], row[2], row[3]});
  return o;
}

std::shared_ptr<core::Module> make_mobilenet_v3(Fields& f) {
  MobileNetV3::Options o;
  read_builder(f, o);
  const bool small = f.choice("arch", "large", {"small", "large"}) == "small";
  o.last_channel = f.count("last_channel", o.last_channel);
  for (const auto& r : read_rows(f, "inverted_residual_setting",
                                 {"input_channels", "kernel", "expanded_channels", "out_channels", "use_se",
                                  "activation", "stride", "dilation"})) {
    o.blocks.push_back({r[0], r[1], r[2], r[3], r[4] == 1, r[5] == 1, r[6], std::max<std::int64_t>(1, r[7])});
  }
  o.width_mult = f.factor("width_mult", o.width_mult);
  o.reduced_tail = f.flag("reduced_tail", o.reduced_tail);
  o.dilated = f.flag("dilated", o.dilated);
  o.norm_eps = f.number("norm_eps", o.norm_eps);
  o.dropout = f.probability("dropout", o.dropout);
  f.finish();
  return std::make_shared<MobileNetV3>(small ? MobileNetV3::Size::small : MobileNetV3::Size::large, o);
}

ShuffleNetV2::Options read_shufflenet(Fields& f) {
  ShuffleNetV2::Options o;
  read_builder(f, o);
  o.repeats = f.depths("stages_repeats", o.repeats);
  o.widths = f.counts("stages_out_channels", o.widths);
  return o;
}

/// Rows with "FusedMBConv", "MBConv" or nothing in front.
std::vector<EfficientNet::Stage> read_efficientnet_stages(Fields& f, std::vector<EfficientNet::Stage> fallback) {
  const auto rows =
      read_rows(f, "inverted_residual_setting",
                {"block", "expand_ratio", "kernel", "stride", "input_channels", "out_channels", "num_layers"});
  if (rows.empty()) return fallback;
  std::vector<EfficientNet::Stage> stages;
  for (const auto& r : rows) stages.push_back({r[1], r[2], r[3], r[4], r[5], r[6], r[0] == 1});
  return stages;
}

EfficientNet::Options read_efficientnet(Fields& f) {
  EfficientNet::Options o;
  read_builder(f, o);
  o.stages = read_efficientnet_stages(f, o.stages);
  o.width = f.factor("width_mult", o.width);
  o.depth = f.factor("depth_mult", o.depth);
  o.last_channel = f.count("last_channel", o.last_channel);
  o.dropout = f.probability("dropout", o.dropout);
  o.stochastic_depth = f.probability("stochastic_depth_prob", o.stochastic_depth);
  o.norm_eps = f.number("norm_eps", o.norm_eps);
  o.norm_momentum = f.number("norm_momentum", o.norm_momentum);
  return o;
}

/// Of BlockParams, which builders take apart and the class takes as an object.
void read_block_params(Fields& f, RegNet::Options& o) {
  o.depth = f.depth("depth", o.depth);
  o.first = f.count("w_0", o.first);
  o.slope = f.number("w_a", o.slope, 0, 1'000'000);
  o.step = f.factor("w_m", o.step);
  o.group = f.count("group_width", o.group);
  o.squeeze = f.probability("se_ratio", o.squeeze);
  if (o.first % 8 != 0) f.refuse("w_0", "is no multiple of 8");
  if (!(o.step > 1)) f.refuse("w_m", "is not more than 1");
}

RegNet::Options read_regnet(Fields& f) {
  RegNet::Options o;
  read_builder(f, o);
  o.stem = f.count("stem_width", o.stem);
  read_block_params(f, o);
  if (const auto value = f.value("block_params")) {
    const Config config = Config::parse(value->text(), "block_params");
    Fields inner("RegNet's block_params", config);
    read_block_params(inner, o);
    inner.finish();
  }
  return o;
}

ConvNeXt::Options read_convnext(Fields& f) {
  ConvNeXt::Options o;
  read_builder(f, o);
  const auto rows = read_rows(f, "block_setting", {"input_channels", "out_channels", "num_layers"});
  if (!rows.empty()) o.widths.clear(), o.depths.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool follows = rows[i][1] == 0 ? i + 1 == rows.size() : i + 1 < rows.size() && rows[i][1] == rows[i + 1][0];
    if (!follows) f.refuse("block_setting", "has a stage whose channels out are not those that the next takes");
    o.widths.push_back(rows[i][0]);
    o.depths.push_back(rows[i][2]);
  }
  o.layer_scale = f.number("layer_scale", o.layer_scale);
  o.stochastic_depth = f.probability("stochastic_depth_prob", o.stochastic_depth);
  return o;
}

VisionTransformer::Options read_vit(Fields& f) {
  VisionTransformer::Options o;
  read_builder(f, o);
  o.image_size = f.count("image_size", o.image_size);
  o.patch_size = f.count("patch_size", o.patch_size);
  o.num_layers = f.depth("num_layers", o.num_layers);
  o.num_heads = f.count("num_heads", o.num_heads);
  o.hidden_dim = f.count("hidden_dim", o.hidden_dim);
  o.mlp_dim = f.count("mlp_dim", o.mlp_dim);
  o.dropout = f.probability("dropout", o.dropout);
  o.attention_dropout = f.probability("attention_dropout", o.attention_dropout);
  o.representation = f.count("representation_size", o.representation);
  f.divides("num_heads", o.num_heads, "hidden_dim", o.hidden_dim);
  f.divides("patch_size", o.patch_size, "image_size", o.image_size);
  return o;
}

SwinTransformer::Options read_swin(Fields& f) {
  SwinTransformer::Options o;
  read_builder(f, o);
  o.patch_size = f.square("patch_size", o.patch_size);
  o.window = f.square("window_size", o.window);
  o.width = f.count("embed_dim", o.width);
  o.depths = f.depths("depths", o.depths);
  o.heads = f.counts("num_heads", o.heads);
  o.mlp_ratio = f.factor("mlp_ratio", o.mlp_ratio);
  o.dropout = f.probability("dropout", o.dropout);
  o.attention_dropout = f.probability("attention_dropout", o.attention_dropout);
  o.stochastic_depth = f.probability("stochastic_depth_prob", o.stochastic_depth);
  if (o.heads.size() != o.depths.size()) f.refuse("num_heads", "has not as many entries as 'depths'");
  if (o.depths.size() > 16) f.refuse("depths", "has more than 16 stages");
  std::int64_t width = o.width;
  for (std::int64_t heads : o.heads) {
    f.divides("num_heads", heads, "width of its stage", width);
    width *= 2;
  }
  return o;
}

/// backbone: the block and the layers of a ResNet.
template <auto make>
std::shared_ptr<core::Module> made_segmentation(Fields& f) {
  SegmentationOptions o;
  read_builder(f, o);
  f.only("weights_backbone", "null");
  f.only("aux_loss", "false");
  const std::string name = f.choice("backbone", "resnet50", {"resnet50", "resnet101"});
  const Model* backbone = find(name);
  const Config config = Config::parse(backbone->config);
  Fields parts(backbone->family->name, config);
  read_resnet_stages(parts, o.backbone);
  f.finish();
  return make(o);
}

UNetOptions read_unet(Fields& f) {
  UNetOptions o;
  o.n_channels = f.count("n_channels", o.n_channels);
  o.n_classes = f.count("n_classes", o.n_classes);
  o.bilinear = f.flag("bilinear", o.bilinear);
  o.width = f.count("width", o.width);
  o.conv_bias = f.flag("conv_bias", o.conv_bias);
  return o;
}

using enum Input;
using enum Answer;

template <class M, auto read>
constexpr Family classifier(std::string_view name) {
  return {name, images, classes, made<M, read>, "num_classes", "in_channels"};
}

constexpr Family kFamilies[] = {
    classifier<AlexNet, read_alexnet>("AlexNet"),
    classifier<VGG, read_vgg>("VGG"),
    classifier<ResNet, read_resnet>("ResNet"),
    {"SqueezeNet", images, classes, make_squeezenet, "num_classes", "in_channels"},
    classifier<DenseNet, read_densenet>("DenseNet"),
    classifier<GoogLeNet, read_googlenet>("GoogLeNet"),
    classifier<Inception3, read_auxiliary<Inception3::Options>>("Inception3"),
    classifier<MobileNetV2, read_mobilenet_v2>("MobileNetV2"),
    {"MobileNetV3", images, classes, make_mobilenet_v3, "num_classes", "in_channels"},
    classifier<ShuffleNetV2, read_shufflenet>("ShuffleNetV2"),
    classifier<EfficientNet, read_efficientnet>("EfficientNet"),
    classifier<RegNet, read_regnet>("RegNet"),
    classifier<ConvNeXt, read_convnext>("ConvNeXt"),
    classifier<VisionTransformer, read_vit>("VisionTransformer"),
    classifier<SwinTransformer, read_swin>("SwinTransformer"),
    {"FCN", images, pixels, made_segmentation<make_fcn>, "num_classes", "in_channels"},
    {"DeepLabV3", images, pixels, made_segmentation<make_deeplabv3>, "num_classes", "in_channels"},
    {"UNet", images, pixels, made<UNet, read_unet>, "n_classes", "n_channels"},
};

}  // namespace

std::span<const Family> image_families() {
  return kFamilies;
}

}  // namespace zoo::detail
