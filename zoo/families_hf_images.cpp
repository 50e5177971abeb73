// Models of images under Hugging Face's names, by the fields of their config.json.

#include "zoo/beit.h"
#include "zoo/convnextv2.h"
#include "zoo/dinov2.h"
#include "zoo/family.h"
#include "zoo/hf_fields.h"
#include "zoo/hf_vit.h"
#include "zoo/mobilevit.h"

namespace zoo::detail {
namespace {

HFViTOptions read_image_encoder(Fields& f, HFViTOptions o) {
  pass_beside(f);
  f.pass({"encoder_stride"});
  o.image_size = f.count("image_size", o.image_size);
  o.patch_size = f.count("patch_size", o.patch_size);
  read_layers(f, o);
  o.num_labels = read_labels(f, o.num_labels);
  o.in_channels = f.count("num_channels", o.in_channels);
  o.layer_norm_eps = f.number("layer_norm_eps", o.layer_norm_eps);
  o.qkv_bias = f.flag("qkv_bias", o.qkv_bias);
  o.dropout = f.probability("hidden_dropout_prob", o.dropout);
  o.attention_dropout = f.probability("attention_probs_dropout_prob", o.attention_dropout);
  o.pooler_size = f.count("pooler_output_size", o.pooler_size);
  o.pooler_act = read_activation(f, "pooler_act", o.pooler_act);
  f.divides("num_attention_heads", o.num_attention_heads, "hidden_size", o.hidden_size);
  f.divides("patch_size", o.patch_size, "image_size", o.image_size);
  return o;
}

HFViTOptions read_hf_vit(Fields& f) {
  return read_image_encoder(f, {});
}

HFViTOptions read_deit(Fields& f) {
  return read_image_encoder(f, {.kind = "DeiT"});
}

/// What BEiT and DINOv2 share, beside the sizes of their layers.
void read_encoder_of_any_size(Fields& f, HFViTOptions& v) {
  v.image_size = f.square("image_size", v.image_size);
  v.patch_size = f.square("patch_size", v.patch_size);
  v.num_labels = read_labels(f, v.num_labels);
  v.in_channels = f.count("num_channels", v.in_channels);
  v.layer_norm_eps = f.number("layer_norm_eps", v.layer_norm_eps);
  v.dropout = f.probability("hidden_dropout_prob", v.dropout);
  v.attention_dropout = f.probability("attention_probs_dropout_prob", v.attention_dropout);
  f.divides("num_attention_heads", v.num_attention_heads, "hidden_size", v.hidden_size);
  if (v.image_size < v.patch_size) f.refuse("patch_size", "is larger than 'image_size'");
}

BeitOptions read_beit(Fields& f) {
  BeitOptions o;
  pass_beside(f);
  // Of segmentation and of use as a backbone.
  f.pass({"pool_scales", "use_auxiliary_head", "auxiliary_loss_weight", "auxiliary_channels", "auxiliary_num_convs",
          "auxiliary_concat_input", "semantic_loss_ignore_index", "stage_names", "out_features", "out_indices",
          "add_fpn", "reshape_hidden_states", "segmentation_indices"});
  HFViTOptions& v = o.vit;
  read_layers(f, v);
  read_encoder_of_any_size(f, v);
  o.use_mask_token = f.flag("use_mask_token", o.use_mask_token);
  o.use_absolute_position_embeddings = f.flag("use_absolute_position_embeddings", false);
  o.use_relative_position_bias = f.flag("use_relative_position_bias", false);
  o.use_shared_relative_position_bias = f.flag("use_shared_relative_position_bias", false);
  o.layer_scale_init_value = f.number("layer_scale_init_value", o.layer_scale_init_value);
  o.drop_path_rate = f.probability("drop_path_rate", o.drop_path_rate);
  o.use_mean_pooling = f.flag("use_mean_pooling", o.use_mean_pooling);
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  return o;
}

Dinov2Options read_dinov2(Fields& f) {
  Dinov2Options o;
  pass_beside(f);
  f.pass({"apply_layernorm", "reshape_hidden_states", "stage_names", "out_features", "out_indices"});
  HFViTOptions& v = o.vit;
  v.hidden_size = f.count("hidden_size", v.hidden_size);
  v.num_hidden_layers = f.depth("num_hidden_layers", v.num_hidden_layers);
  v.num_attention_heads = f.count("num_attention_heads", v.num_attention_heads);
  v.hidden_act = read_activation(f, "hidden_act", v.hidden_act);
  v.intermediate_size = f.count("mlp_ratio", 4) * v.hidden_size;
  o.use_swiglu_ffn = f.flag("use_swiglu_ffn", o.use_swiglu_ffn);
  if (o.use_swiglu_ffn) v.intermediate_size = (v.intermediate_size * 2 / 3 + 7) / 8 * 8;
  v.qkv_bias = f.flag("qkv_bias", v.qkv_bias);
  read_encoder_of_any_size(f, v);
  o.layerscale_value = f.number("layerscale_value", o.layerscale_value);
  o.drop_path_rate = f.probability("drop_path_rate", o.drop_path_rate);
  o.use_mask_token = f.flag("use_mask_token", o.use_mask_token);
  return o;
}

ConvNextV2Options read_convnextv2(Fields& f) {
  ConvNextV2Options o;
  pass_beside(f);
  f.pass({"image_size", "stage_names", "out_features", "out_indices"});
  o.num_channels = f.count("num_channels", o.num_channels);
  o.patch_size = f.count("patch_size", o.patch_size);
  o.hidden_sizes = f.counts("hidden_sizes", o.hidden_sizes);
  o.depths = f.depths("depths", o.depths);
  o.hidden_act = read_activation(f, "hidden_act", o.hidden_act);
  o.layer_norm_eps = f.number("layer_norm_eps", o.layer_norm_eps);
  o.drop_path_rate = f.probability("drop_path_rate", o.drop_path_rate);
  o.num_labels = read_labels(f, o.num_labels);
  const std::int64_t stages = f.count("num_stages", static_cast<std::int64_t>(o.depths.size()));
  if (static_cast<std::size_t>(stages) != o.depths.size() || o.depths.size() != o.hidden_sizes.size()) {
    f.refuse("num_stages", "is not the number of 'depths' and of 'hidden_sizes'");
  }
  return o;
}

MobileViTOptions read_mobilevit(Fields& f) {
  MobileViTOptions o;
  pass_beside(f);
  f.pass({"image_size", "aspp_out_channels", "atrous_rates", "aspp_dropout_prob", "semantic_loss_ignore_index"});
  o.num_channels = f.count("num_channels", o.num_channels);
  o.patch_size = f.square("patch_size", o.patch_size);
  o.hidden_sizes = f.counts("hidden_sizes", o.hidden_sizes);
  o.neck_hidden_sizes = f.counts("neck_hidden_sizes", o.neck_hidden_sizes);
  if (o.hidden_sizes.size() != 3) f.refuse("hidden_sizes", "has not three numbers");
  if (o.neck_hidden_sizes.size() != 7) f.refuse("neck_hidden_sizes", "has not seven numbers");
  o.num_attention_heads = f.count("num_attention_heads", o.num_attention_heads);
  for (std::int64_t width : o.hidden_sizes) {
    f.divides("num_attention_heads", o.num_attention_heads, "hidden_sizes", width);
  }
  o.mlp_ratio = f.factor("mlp_ratio", o.mlp_ratio);
  if (o.mlp_ratio < 1) f.refuse("mlp_ratio", "is below 1");
  o.expand_ratio = f.factor("expand_ratio", o.expand_ratio);
  o.hidden_act = read_activation(f, "hidden_act", o.hidden_act);
  o.conv_kernel_size = f.count("conv_kernel_size", o.conv_kernel_size);
  if (o.conv_kernel_size % 2 == 0) f.refuse("conv_kernel_size", "is even, and the size of the image is kept");
  o.output_stride = f.count("output_stride", o.output_stride);
  if (o.output_stride != 8 && o.output_stride != 16 && o.output_stride != 32) {
    f.refuse("output_stride", "is none of 8, 16 and 32");
  }
  o.hidden_dropout = f.probability("hidden_dropout_prob", o.hidden_dropout);
  o.attention_dropout = f.probability("attention_probs_dropout_prob", o.attention_dropout);
  o.classifier_dropout = f.probability("classifier_dropout_prob", o.classifier_dropout);
  o.layer_norm_eps = f.number("layer_norm_eps", o.layer_norm_eps);
  o.qkv_bias = f.flag("qkv_bias", o.qkv_bias);
  o.num_labels = read_labels(f, o.num_labels);
  return o;
}

using enum Input;
using enum Answer;

constexpr Family kFamilies[] = {
    {"ViTModel", images, values, made<HFViTModel, read_hf_vit>, {}, "num_channels", {}, "ViTForImageClassification"},
    {"DeiTModel", images, values, made<HFViTModel, read_deit>, {}, "num_channels"},
    {"DeiTForImageClassification", images, classes, made<DeiTForImageClassification, read_deit>, "num_labels",
     "num_channels"},
    {"DeiTForImageClassificationWithTeacher", images, classes, made<DeiTForImageClassificationWithTeacher, read_deit>,
     "num_labels", "num_channels"},
    {"BeitModel", images, values, made<BeitModel, read_beit>, {}, "num_channels", {}, "BeitForImageClassification"},
    {"BeitForImageClassification", images, classes, made<BeitForImageClassification, read_beit>, "num_labels",
     "num_channels"},
    {"BeitForMaskedImageModeling", images, values, made<BeitForMaskedImageModeling, read_beit>, {}, "num_channels"},
    {"MobileViTModel", images, values, made<MobileViTModel, read_mobilevit>, {}, "num_channels"},
    {"MobileViTForImageClassification", images, classes, made<MobileViTForImageClassification, read_mobilevit>,
     "num_labels", "num_channels"},
    {"Dinov2Model",
     images,
     values,
     made<Dinov2Model, read_dinov2>,
     {},
     "num_channels",
     {},
     "Dinov2ForImageClassification"},
    {"Dinov2ForImageClassification", images, classes, made<Dinov2ForImageClassification, read_dinov2>, "num_labels",
     "num_channels"},
    {"ConvNextV2ForImageClassification", images, classes, made<ConvNextV2ForImageClassification, read_convnextv2>,
     "num_labels", "num_channels"},
    {"ViTForImageClassification", images, classes, made<HFViTForImageClassification, read_hf_vit>, "num_labels",
     "num_channels"},
};

}  // namespace

std::span<const Family> hf_image_families() {
  return kFamilies;
}

}  // namespace zoo::detail
