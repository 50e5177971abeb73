#pragma once
// BERT and RoBERTa with some of their heads, under Hugging Face's names. Sources: Devlin, Chang, Lee, Toutanova 2018;
// Liu et al. 2019.
// Thread safety: as core::Module. Use: zoo::BertModel net({}); core::Tensor states = net(tokens);

#include <cstdint>
#include <memory>
#include <string>

#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/language_blocks.h"
#include "zoo/text_classifier.h"

namespace zoo {

struct BertOptions {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  std::int64_t num_labels = 2;
  std::string hidden_act = "gelu";
  double layer_norm_eps = 1e-12;
  std::int64_t pad_token_id = 0;  ///< whose vector begins as 0; -1: none
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double classifier_dropout = 0.1;
  bool tie_word_embeddings = true;
  /// What the names of classes begin with. "Roberta" counts positions from behind the padding token, and leaves padding
  /// at its own.
  std::string kind = "Bert";
};

/// What accompanies the tokens.
struct BertInputs {
  core::Tensor token_types = {};     ///< (n, t), int64; zeros unless given
  core::Tensor attention_mask = {};  ///< (n, t); 0 hides a token
};

namespace bert {

struct BertEmbeddings : core::ModuleOf<BertEmbeddings> {
  std::string kind;
  core::Embedding word_embeddings, position_embeddings, token_type_embeddings;
  core::LayerNorm norm;
  core::Dropout dropout;
  core::Tensor position_ids, token_type_ids;  ///< (1, max_position_embeddings), not in files
  explicit BertEmbeddings(const BertOptions& o);
  std::string class_name() const override { return kind + "Embeddings"; }
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& tokens, const core::Tensor& token_types);

 private:
  core::Tensor positions(const core::Tensor& tokens) const;
};

struct BertEncoder : core::ModuleOf<BertEncoder> {
  std::string kind;
  core::ModuleList layer;
  explicit BertEncoder(const BertOptions& o);
  std::string class_name() const override { return kind + "Encoder"; }
  void members(core::Members& m) override { m.child("layer", layer); }
  /// bias: added to the scores, or undefined.
  core::Tensor forward(const core::Tensor& x, const core::Tensor& bias);
};

/// The state of the first token through a linear layer. (n, t, hidden) -> (n, hidden).
struct BertPooler : core::ModuleOf<BertPooler> {
  std::string kind;
  core::Linear dense;
  core::Tanh activation;
  explicit BertPooler(const BertOptions& o) : kind(o.kind), dense(o.hidden_size, o.hidden_size) {}
  std::string class_name() const override { return kind + "Pooler"; }
  void members(core::Members& m) override { m.child("dense", dense).child("activation", activation); }
  core::Tensor forward(const core::Tensor& x) { return activation(dense(x.select(1, 0))); }
};

struct BertPredictionHeadTransform : core::ModuleOf<BertPredictionHeadTransform> {
  core::Linear dense;
  std::shared_ptr<core::Module> transform_act_fn;
  core::LayerNorm norm;
  explicit BertPredictionHeadTransform(const BertOptions& o);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x) { return norm(transform_act_fn->call(dense(x))); }
};

/// (n, t, hidden) -> logits of each token (n, t, vocab_size).
struct BertLMPredictionHead : core::ModuleOf<BertLMPredictionHead> {
  core::Parameter bias;  ///< that of the decoder
  BertPredictionHeadTransform transform;
  core::Linear decoder;  ///< its weight is that of the word embeddings, unless they are not tied
  BertLMPredictionHead(const BertOptions& o, const core::Parameter& words);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x) { return decoder(transform(x)); }
};

struct BertOnlyMLMHead : core::ModuleOf<BertOnlyMLMHead> {
  BertLMPredictionHead predictions;
  BertOnlyMLMHead(const BertOptions& o, const core::Parameter& words) : predictions(o, words) {}
  void members(core::Members& m) override { m.child("predictions", predictions); }
};

struct BertPreTrainingHeads : core::ModuleOf<BertPreTrainingHeads> {
  BertLMPredictionHead predictions;
  core::Linear seq_relationship;
  BertPreTrainingHeads(const BertOptions& o, const core::Parameter& words)
      : predictions(o, words), seq_relationship(o.hidden_size, 2) {}
  void members(core::Members& m) override {
    m.child("predictions", predictions).child("seq_relationship", seq_relationship);
  }
};

}  // namespace bert

struct BertModel : core::ModuleOf<BertModel> {
  std::string kind;
  bert::BertEmbeddings embeddings;
  bert::BertEncoder encoder;
  std::shared_ptr<bert::BertPooler> pooler;  ///< absent in models that do not read it

  explicit BertModel(const BertOptions& o, bool pooling = true);
  std::string class_name() const override { return kind + "Model"; }
  void members(core::Members& m) override;
  /// tokens (n, t), int64 -> states (n, t, hidden_size).
  core::Tensor forward(const core::Tensor& tokens, const BertInputs& inputs = {});
  /// The same summed up in the first token: (n, hidden_size). REQUIRES: a pooler.
  core::Tensor pooled(const core::Tensor& tokens, const BertInputs& inputs = {});
};

/// tokens (n, t) -> logits of each token (n, t, vocab_size).
struct BertForMaskedLM : core::ModuleOf<BertForMaskedLM> {
  BertModel bert;
  zoo::bert::BertOnlyMLMHead cls;
  explicit BertForMaskedLM(const BertOptions& o);
  void members(core::Members& m) override { m.child("bert", bert).child("cls", cls); }
  core::Tensor forward(const core::Tensor& tokens, const BertInputs& inputs = {});
};

/// tokens (n, t) -> logits of each token (n, t, vocab_size); follows() -> whether the second sentence follows (n, 2).
struct BertForPreTraining : core::ModuleOf<BertForPreTraining> {
  BertModel bert;
  zoo::bert::BertPreTrainingHeads cls;
  explicit BertForPreTraining(const BertOptions& o);
  void members(core::Members& m) override { m.child("bert", bert).child("cls", cls); }
  core::Tensor forward(const core::Tensor& tokens, const BertInputs& inputs = {});
  core::Tensor follows(const core::Tensor& tokens, const BertInputs& inputs = {});
};

/// tokens (n, t) -> logits (n, num_labels).
struct BertForSequenceClassification : core::ModuleOf<BertForSequenceClassification>, TextClassifier {
  BertModel bert;
  core::Dropout dropout;
  core::Linear classifier;
  explicit BertForSequenceClassification(const BertOptions& o);
  void members(core::Members& m) override {
    m.child("bert", bert).child("dropout", dropout).child("classifier", classifier);
  }
  core::Tensor forward(const core::Tensor& tokens, const BertInputs& inputs = {});
  core::Tensor classified(const core::Tensor& tokens, const core::Tensor& mask) override {
    return (*this)(tokens, BertInputs{.token_types = {}, .attention_mask = mask});
  }
};

namespace roberta {

/// (n, t, hidden) -> logits of each token (n, t, vocab_size).
struct RobertaLMHead : core::ModuleOf<RobertaLMHead> {
  core::Parameter bias;  ///< that of the decoder
  core::Linear dense;
  core::LayerNorm layer_norm;
  core::Linear decoder;  ///< its weight is that of the word embeddings, unless they are not tied
  RobertaLMHead(const BertOptions& o, const core::Parameter& words);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};

/// Reads the first token. (n, t, hidden) -> logits (n, num_labels).
struct RobertaClassificationHead : core::ModuleOf<RobertaClassificationHead> {
  core::Linear dense;
  core::Dropout dropout;
  core::Linear out_proj;
  explicit RobertaClassificationHead(const BertOptions& o);
  void members(core::Members& m) override {
    m.child("dense", dense).child("dropout", dropout).child("out_proj", out_proj);
  }
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace roberta

/// tokens (n, t) -> logits of each token (n, t, vocab_size). REQUIRES: options of kind "Roberta".
struct RobertaForMaskedLM : core::ModuleOf<RobertaForMaskedLM> {
  BertModel roberta;
  zoo::roberta::RobertaLMHead lm_head;
  explicit RobertaForMaskedLM(const BertOptions& o);
  void members(core::Members& m) override { m.child("roberta", roberta).child("lm_head", lm_head); }
  core::Tensor forward(const core::Tensor& tokens, const BertInputs& inputs = {});
};

/// tokens (n, t) -> logits (n, num_labels). REQUIRES: options of kind "Roberta".
struct RobertaForSequenceClassification : core::ModuleOf<RobertaForSequenceClassification>, TextClassifier {
  BertModel roberta;
  zoo::roberta::RobertaClassificationHead classifier;
  explicit RobertaForSequenceClassification(const BertOptions& o);
  void members(core::Members& m) override { m.child("roberta", roberta).child("classifier", classifier); }
  core::Tensor forward(const core::Tensor& tokens, const BertInputs& inputs = {});
  core::Tensor classified(const core::Tensor& tokens, const core::Tensor& mask) override {
    return (*this)(tokens, BertInputs{.token_types = {}, .attention_mask = mask});
  }
};

}  // namespace zoo
