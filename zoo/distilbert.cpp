#include "zoo/distilbert.h"

#include "libcore/ops/activation.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace distilbert {

namespace {

core::LayerNorm norm_of(const DistilBertOptions& o) {
  return core::LayerNorm({o.dim}, {.eps = 1e-12});
}

}  // namespace

Embeddings::Embeddings(const DistilBertOptions& o)
    : word_embeddings(o.vocab_size, o.dim, detail::padded_by(o.pad_token_id)),
      position_embeddings(o.max_position_embeddings, o.dim),
      norm(norm_of(o)),
      dropout(o.dropout),
      position_ids(core::arange(o.max_position_embeddings).unsqueeze(0)) {}

void Embeddings::members(core::Members& m) {
  m.child("word_embeddings", word_embeddings).child("position_embeddings", position_embeddings);
  m.child("LayerNorm", norm).child("dropout", dropout).buffer("position_ids", position_ids, false);
}

Tensor Embeddings::forward(const Tensor& tokens) {  // (n, t)
  return dropout(norm(word_embeddings(tokens) + position_embeddings(position_ids.slice(1, 0, tokens.size(1)))));
}

struct DistilBertSelfAttention : core::ModuleOf<DistilBertSelfAttention> {
  std::int64_t heads;
  Linear q_lin, k_lin, v_lin, out_lin;
  core::Dropout dropout;

  explicit DistilBertSelfAttention(const DistilBertOptions& o)
      : heads(o.n_heads),
        q_lin(o.dim, o.dim),
        k_lin(o.dim, o.dim),
        v_lin(o.dim, o.dim),
        out_lin(o.dim, o.dim),
        dropout(o.attention_dropout) {}
  void members(core::Members& m) override {
    m.child("q_lin", q_lin).child("k_lin", k_lin).child("v_lin", v_lin).child("out_lin", out_lin);
    m.child("dropout", dropout);
  }
  Tensor forward(const Tensor& x, const Tensor& bias) {
    Tensor q = detail::split_heads(q_lin(x), heads), k = detail::split_heads(k_lin(x), heads);
    const double p = is_training() ? dropout.p : 0.0;
    Tensor v = detail::split_heads(v_lin(x), heads);
    return out_lin(detail::join_heads(core::scaled_dot_product_attention(q, k, v, {.mask = bias, .dropout = p})));
  }
};

struct FFN : core::ModuleOf<FFN> {
  core::Dropout dropout;
  Linear lin1, lin2;
  std::shared_ptr<core::Module> activation;

  explicit FFN(const DistilBertOptions& o)
      : dropout(o.dropout),
        lin1(o.dim, o.hidden_dim),
        lin2(o.hidden_dim, o.dim),
        activation(detail::text_activation(o.activation)) {}
  void members(core::Members& m) override {
    m.child("dropout", dropout).child("lin1", lin1).child("lin2", lin2).child("activation", activation);
  }
  Tensor forward(const Tensor& x) { return dropout(lin2(activation->call(lin1(x)))); }
};

/// (n, t, dim) -> the same.
struct TransformerBlock : core::ModuleOf<TransformerBlock> {
  DistilBertSelfAttention attention;
  core::LayerNorm sa_layer_norm;
  FFN ffn;
  core::LayerNorm output_layer_norm;

  explicit TransformerBlock(const DistilBertOptions& o)
      : attention(o), sa_layer_norm(norm_of(o)), ffn(o), output_layer_norm(norm_of(o)) {}
  void members(core::Members& m) override {
    m.child("attention", attention).child("sa_layer_norm", sa_layer_norm).child("ffn", ffn);
    m.child("output_layer_norm", output_layer_norm);
  }
  Tensor forward(const Tensor& x, const Tensor& bias) {
    Tensor h = sa_layer_norm(attention(x, bias) + x);
    return output_layer_norm(ffn(h) + h);
  }
};

Transformer::Transformer(const DistilBertOptions& o) {
  for (std::int64_t i = 0; i < o.n_layers; ++i) layer.push_back(TransformerBlock(o));
}

Tensor Transformer::forward(const Tensor& x, const Tensor& bias) {
  Tensor h = x;
  for (const auto& block : layer) h = static_cast<TransformerBlock&>(*block.second)(h, bias);
  return h;
}

}  // namespace distilbert

DistilBertModel::DistilBertModel(const DistilBertOptions& o) : embeddings(o), transformer(o) {
  detail::init_language(*this, 0.02);
}

Tensor DistilBertModel::forward(const Tensor& tokens, const Tensor& mask) {
  const Tensor x = embeddings(tokens);  // (n, t, dim)
  return transformer(x, detail::bias_of_mask(mask, x.dtype()));
}

DistilBertForMaskedLM::DistilBertForMaskedLM(const DistilBertOptions& o)
    : activation(detail::text_activation(o.activation)),
      distilbert(o),
      vocab_transform(o.dim, o.dim),
      vocab_layer_norm({o.dim}, {.eps = 1e-12}),
      vocab_projector(o.dim, o.vocab_size) {
  if (o.tie_word_embeddings) vocab_projector.weight = distilbert.embeddings.word_embeddings.weight;
  detail::init_language(*this, 0.02);
}

void DistilBertForMaskedLM::members(core::Members& m) {
  m.child("activation", activation).child("distilbert", distilbert).child("vocab_transform", vocab_transform);
  m.child("vocab_layer_norm", vocab_layer_norm).child("vocab_projector", vocab_projector);
  m.child("mlm_loss_fct", mlm_loss_fct);
}

Tensor DistilBertForMaskedLM::forward(const Tensor& tokens) {
  return vocab_projector(vocab_layer_norm(activation->call(vocab_transform(distilbert(tokens)))));
}

DistilBertForSequenceClassification::DistilBertForSequenceClassification(const DistilBertOptions& o)
    : distilbert(o), pre_classifier(o.dim, o.dim), classifier(o.dim, o.num_labels), dropout(o.seq_classif_dropout) {
  detail::init_language(*this, 0.02);
}

void DistilBertForSequenceClassification::members(core::Members& m) {
  m.child("distilbert", distilbert).child("pre_classifier", pre_classifier).child("classifier", classifier);
  m.child("dropout", dropout);
}

Tensor DistilBertForSequenceClassification::forward(const Tensor& tokens, const Tensor& mask) {  // (n, t)
  Tensor first = distilbert(tokens, mask).select(1, 0);                                          // (n, dim)
  return classifier(dropout(core::relu(pre_classifier(first))));
}

}  // namespace zoo
