#pragma once
// The vision transformer of vit.h under Hugging Face's names, alone and with a classifier; and DeiT, which has a second
// token that learns from a teacher; and what others have of them. Sources: Dosovitskiy et al. 2020; Touvron et al.
// 2020. Thread safety: as core::Module. Use: zoo::HFViTForImageClassification net({.num_labels = 10}); core::Tensor
// logits = net(images);

#include <cstdint>
#include <memory>
#include <string>

#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace zoo {

struct HFViTOptions {
  std::int64_t image_size = 224;
  std::int64_t patch_size = 16;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t num_labels = 2;
  std::int64_t in_channels = 3;
  std::string hidden_act = "gelu";
  double layer_norm_eps = 1e-12;
  bool qkv_bias = true;
  bool key_bias = true;  ///< of qkv_bias, for keys too
  double dropout = 0;
  double attention_dropout = 0;
  std::int64_t pooler_size = 0;  ///< of the pooler's output; 0: hidden_size
  std::string pooler_act = "tanh";
  std::string kind = "ViT";  ///< what the names of classes begin with; "DeiT" has a second token
};

namespace hf_vit {

struct ViTPatchEmbeddings : core::ModuleOf<ViTPatchEmbeddings> {
  std::string kind;
  core::Conv2d projection;
  explicit ViTPatchEmbeddings(const HFViTOptions& o);
  std::string class_name() const override { return kind + "PatchEmbeddings"; }
  void members(core::Members& m) override { m.child("projection", projection); }
  /// (n, channels, size, size) -> (n, patches, hidden).
  core::Tensor forward(const core::Tensor& x) { return projection(x).flatten(2).transpose(1, 2); }
};

struct ViTEmbeddings : core::ModuleOf<ViTEmbeddings> {
  std::string kind;
  core::Parameter cls_token;            ///< (1, 1, hidden)
  core::Parameter position_embeddings;  ///< (1, patches + 1, hidden); of DeiT patches + 2
  core::Parameter distillation_token;   ///< (1, 1, hidden) of DeiT
  ViTPatchEmbeddings patch_embeddings;
  core::Dropout dropout;
  explicit ViTEmbeddings(const HFViTOptions& o);
  std::string class_name() const override { return kind + "Embeddings"; }
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

/// (1, 1 + side * side, hidden) -> (1, 1 + rows * columns, hidden): positions of so many patches, between those that
/// were learnt, as cubic interpolation in f32 gives them; the first one is not a patch's.
core::Tensor resized_positions(const core::Tensor& positions, std::int64_t rows, std::int64_t columns);

struct ViTAttention : core::ModuleOf<ViTAttention> {
  std::string kind;
  std::int64_t heads;
  double dropout;
  core::Linear q_proj, k_proj, v_proj, o_proj;
  explicit ViTAttention(const HFViTOptions& o);
  std::string class_name() const override { return kind + "Attention"; }
  void members(core::Members& m) override {
    m.child("q_proj", q_proj).child("k_proj", k_proj).child("v_proj", v_proj).child("o_proj", o_proj);
  }
  /// (n, tokens, hidden) -> the same; `bias` (1, heads, tokens, tokens), where there is one, is added to the scores.
  core::Tensor forward(const core::Tensor& x, const core::Tensor& bias = {});
};

struct ViTMLP : core::ModuleOf<ViTMLP> {
  std::string kind;
  std::shared_ptr<core::Module> activation_fn;
  core::Linear fc1, fc2;
  explicit ViTMLP(const HFViTOptions& o);
  std::string class_name() const override { return kind + "MLP"; }
  void members(core::Members& m) override {
    m.child("activation_fn", activation_fn).child("fc1", fc1).child("fc2", fc2);
  }
  core::Tensor forward(const core::Tensor& x) { return fc2(activation_fn->call(fc1(x))); }
};

struct ViTPooler : core::ModuleOf<ViTPooler> {
  std::string kind;
  core::Linear dense;
  std::shared_ptr<core::Module> activation;
  explicit ViTPooler(const HFViTOptions& o);
  std::string class_name() const override { return kind + "Pooler"; }
  void members(core::Members& m) override { m.child("dense", dense).child("activation", activation); }
  core::Tensor forward(const core::Tensor& x) { return activation->call(dense(x.select(1, 0))); }
};

}  // namespace hf_vit

struct HFViTModel : core::ModuleOf<HFViTModel> {
  std::string kind;
  hf_vit::ViTEmbeddings embeddings;
  core::ModuleList layers;
  core::LayerNorm layernorm;
  std::shared_ptr<hf_vit::ViTPooler> pooler;  ///< absent below a classifier

  explicit HFViTModel(const HFViTOptions& o, bool pooling = true);
  std::string class_name() const override { return kind + "Model"; }
  void members(core::Members& m) override;
  /// (n, channels, size, size) -> states (n, patches + 1, hidden); of DeiT (n, patches + 2, hidden).
  core::Tensor forward(const core::Tensor& x);
};

struct HFViTForImageClassification : core::ModuleOf<HFViTForImageClassification> {
  HFViTModel vit;
  core::Linear classifier;

  explicit HFViTForImageClassification(const HFViTOptions& o);
  std::string class_name() const override { return "ViTForImageClassification"; }
  void members(core::Members& m) override { m.child("vit", vit).child("classifier", classifier); }
  /// (n, channels, size, size) -> logits (n, num_labels).
  core::Tensor forward(const core::Tensor& x) { return classifier(vit(x).select(1, 0)); }
};

/// Reads the first token. (n, channels, size, size) -> logits (n, num_labels). REQUIRES: options of kind "DeiT".
struct DeiTForImageClassification : core::ModuleOf<DeiTForImageClassification> {
  HFViTModel deit;
  core::Linear classifier;

  explicit DeiTForImageClassification(const HFViTOptions& o);
  void members(core::Members& m) override { m.child("deit", deit).child("classifier", classifier); }
  core::Tensor forward(const core::Tensor& x) { return classifier(deit(x).select(1, 0)); }
};

/// The mean of what the first token says and what the second does. As DeiTForImageClassification.
struct DeiTForImageClassificationWithTeacher : core::ModuleOf<DeiTForImageClassificationWithTeacher> {
  HFViTModel deit;
  core::Linear cls_classifier, distillation_classifier;

  explicit DeiTForImageClassificationWithTeacher(const HFViTOptions& o);
  void members(core::Members& m) override {
    m.child("deit", deit).child("cls_classifier", cls_classifier);
    m.child("distillation_classifier", distillation_classifier);
  }
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo
