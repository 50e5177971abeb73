#pragma once
// DistilBERT under Hugging Face's names, alone and with two heads. Source: Sanh, Debut, Chaumond, Wolf 2019.
// Thread safety: as core::Module. Use: zoo::DistilBertModel net({}); core::Tensor states = net(tokens);

#include <cstdint>
#include <memory>
#include <string>

#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/loss.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/text_classifier.h"

namespace zoo {

struct DistilBertOptions {
  std::int64_t vocab_size = 30522;
  std::int64_t max_position_embeddings = 512;
  std::int64_t n_layers = 6;
  std::int64_t n_heads = 12;
  std::int64_t dim = 768;
  std::int64_t hidden_dim = 3072;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double seq_classif_dropout = 0.2;
  std::string activation = "gelu";
  std::int64_t pad_token_id = 0;  ///< whose vector begins as 0; -1: none
  std::int64_t num_labels = 2;
  bool tie_word_embeddings = true;
};

namespace distilbert {

struct Embeddings : core::ModuleOf<Embeddings> {
  core::Embedding word_embeddings, position_embeddings;
  core::LayerNorm norm;
  core::Dropout dropout;
  core::Tensor position_ids;  ///< (1, max_position_embeddings), not in files
  explicit Embeddings(const DistilBertOptions& o);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& tokens);
};

struct Transformer : core::ModuleOf<Transformer> {
  core::ModuleList layer;
  explicit Transformer(const DistilBertOptions& o);
  void members(core::Members& m) override { m.child("layer", layer); }
  /// bias: added to the scores, or undefined.
  core::Tensor forward(const core::Tensor& x, const core::Tensor& bias);
};

}  // namespace distilbert

struct DistilBertModel : core::ModuleOf<DistilBertModel> {
  distilbert::Embeddings embeddings;
  distilbert::Transformer transformer;

  explicit DistilBertModel(const DistilBertOptions& o);
  void members(core::Members& m) override { m.child("embeddings", embeddings).child("transformer", transformer); }
  /// tokens (n, t), int64 -> states (n, t, dim). mask: (n, t), 0 hides a token.
  core::Tensor forward(const core::Tensor& tokens, const core::Tensor& mask = {});
};

/// tokens (n, t) -> logits of each token (n, t, vocab_size).
struct DistilBertForMaskedLM : core::ModuleOf<DistilBertForMaskedLM> {
  std::shared_ptr<core::Module> activation;
  DistilBertModel distilbert;
  core::Linear vocab_transform;
  core::LayerNorm vocab_layer_norm;
  core::Linear vocab_projector;  ///< its weight is that of the word embeddings, unless they are not tied
  core::CrossEntropyLoss mlm_loss_fct;

  explicit DistilBertForMaskedLM(const DistilBertOptions& o);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& tokens);
};

/// tokens (n, t) -> logits (n, num_labels).
struct DistilBertForSequenceClassification : core::ModuleOf<DistilBertForSequenceClassification>, TextClassifier {
  DistilBertModel distilbert;
  core::Linear pre_classifier, classifier;
  core::Dropout dropout;

  explicit DistilBertForSequenceClassification(const DistilBertOptions& o);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& tokens, const core::Tensor& mask = {});
  core::Tensor classified(const core::Tensor& tokens, const core::Tensor& mask) override {
    return (*this)(tokens, mask);
  }
};

}  // namespace zoo
