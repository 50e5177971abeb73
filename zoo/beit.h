#pragma once
// BEiT under Hugging Face's names: a vision transformer with biases of the scores by where patches lie to each other
// and scaled branches. Source: Bao et al. 2021. Thread safety: as core::Module.
// Use: zoo::BeitForImageClassification net({}); core::Tensor logits = net(images);

#include <cstdint>
#include <memory>

#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/hf_vit.h"

namespace zoo {

/// Those of the base model.
struct BeitOptions {
  HFViTOptions vit = {.key_bias = false, .kind = "Beit"};
  bool use_mask_token = false;
  bool use_absolute_position_embeddings = false;
  bool use_relative_position_bias = false;         ///< one in each layer
  bool use_shared_relative_position_bias = false;  ///< one for all layers
  double layer_scale_init_value = 0.1;             ///< 0: branches are not scaled
  double drop_path_rate = 0.1;                     ///< of the last layer; the others in proportion
  bool use_mean_pooling = true;    ///< the mean of the patches speaks for the image, not the first token
  std::int64_t vocab_size = 8192;  ///< of what is predicted of hidden patches
};

namespace beit {

struct BeitEmbeddings : core::ModuleOf<BeitEmbeddings> {
  core::Parameter cls_token;            ///< (1, 1, hidden)
  core::Parameter mask_token;           ///< (1, 1, hidden), for training alone
  core::Parameter position_embeddings;  ///< (1, patches + 1, hidden)
  hf_vit::ViTPatchEmbeddings patch_embeddings;
  core::Dropout dropout;
  explicit BeitEmbeddings(const BeitOptions& o);
  void members(core::Members& m) override;
  /// (n, channels, height, width) -> (n, patches + 1, hidden).
  core::Tensor forward(const core::Tensor& x);
};

struct BeitRelativePositionBias : core::ModuleOf<BeitRelativePositionBias> {
  core::Parameter relative_position_bias_table;  ///< ((2 * side - 1)^2 + 3, heads)
  std::int64_t side;                             ///< patches in a row
  explicit BeitRelativePositionBias(const BeitOptions& o);
  void members(core::Members& m) override { m.parameter("relative_position_bias_table", relative_position_bias_table); }
  /// (1, heads, 1 + rows * columns, 1 + rows * columns) for an image of so many patches.
  core::Tensor forward(std::int64_t rows, std::int64_t columns) const;
};

struct BeitPooler : core::ModuleOf<BeitPooler> {
  std::shared_ptr<core::LayerNorm> layernorm;  ///< of the patches' mean
  explicit BeitPooler(const BeitOptions& o);
  void members(core::Members& m) override {
    if (layernorm) m.child("layernorm", layernorm);
  }
  /// (n, patches + 1, hidden) -> (n, hidden).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace beit

struct BeitModel : core::ModuleOf<BeitModel> {
  beit::BeitEmbeddings embeddings;
  std::shared_ptr<beit::BeitRelativePositionBias> shared_position_bias;
  core::ModuleList layers;
  std::shared_ptr<core::Module> layernorm;  ///< Identity where the pooler has one
  std::shared_ptr<beit::BeitPooler> pooler;

  explicit BeitModel(const BeitOptions& o, bool pooling = true);
  void members(core::Members& m) override;
  /// (n, channels, height, width) -> states (n, patches + 1, hidden).
  core::Tensor forward(const core::Tensor& x);
};

struct BeitForImageClassification : core::ModuleOf<BeitForImageClassification> {
  BeitModel beit;
  core::Linear classifier;

  explicit BeitForImageClassification(const BeitOptions& o);
  void members(core::Members& m) override { m.child("beit", beit).child("classifier", classifier); }
  /// (n, channels, height, width) -> logits (n, num_labels).
  core::Tensor forward(const core::Tensor& x) { return classifier((*beit.pooler)(beit(x))); }
};

/// Says of each patch which token of another model's vocabulary it is.
struct BeitForMaskedImageModeling : core::ModuleOf<BeitForMaskedImageModeling> {
  BeitModel beit;
  core::LayerNorm layernorm;
  core::Linear lm_head;

  explicit BeitForMaskedImageModeling(const BeitOptions& o);
  void members(core::Members& m) override {
    m.child("beit", beit).child("layernorm", layernorm).child("lm_head", lm_head);
  }
  /// (n, channels, height, width) -> logits (n, patches, vocab_size).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo
