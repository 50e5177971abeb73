#include "zoo/bert.h"

#include "libcore/ops/activation.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace bert {

namespace {

core::LayerNorm norm_of(const BertOptions& o) {
  return core::LayerNorm({o.hidden_size}, {.eps = o.layer_norm_eps});
}

/// The bias of a head over the tokens: that of its decoder, which takes the weight of the word embeddings; where they
/// are not tied, one of its own, which no output reads.
core::Parameter head_bias(Linear& decoder, const BertOptions& o, const core::Parameter& words) {
  if (!o.tie_word_embeddings) return core::Parameter(core::zeros({o.vocab_size}));
  decoder.weight = words;
  return decoder.bias;
}

}  // namespace

BertEmbeddings::BertEmbeddings(const BertOptions& o)
    : kind(o.kind),
      word_embeddings(o.vocab_size, o.hidden_size, detail::padded_by(o.pad_token_id)),
      position_embeddings(o.max_position_embeddings, o.hidden_size,
                          detail::padded_by(o.kind == "Roberta" ? o.pad_token_id : -1)),
      token_type_embeddings(o.type_vocab_size, o.hidden_size),
      norm(norm_of(o)),
      dropout(o.dropout),
      position_ids(core::arange(o.max_position_embeddings).unsqueeze(0)),
      token_type_ids(core::zeros({1, o.max_position_embeddings}, {.dtype = core::DType::i64})) {}

void BertEmbeddings::members(core::Members& m) {
  m.child("word_embeddings", word_embeddings);
  if (kind != "Roberta") m.child("position_embeddings", position_embeddings);
  m.child("token_type_embeddings", token_type_embeddings).child("LayerNorm", norm).child("dropout", dropout);
  if (kind == "Roberta") m.child("position_embeddings", position_embeddings);
  m.buffer("position_ids", position_ids, false).buffer("token_type_ids", token_type_ids, false);
}

Tensor BertEmbeddings::forward(const Tensor& tokens, const Tensor& token_types) {  // (n, t)
  const std::int64_t t = tokens.size(1);
  Tensor types = token_types.defined() ? token_types : token_type_ids.slice(1, 0, t).expand(tokens.sizes());
  Tensor x = word_embeddings(tokens) + token_type_embeddings(types);  // (n, t, hidden)
  return dropout(norm(x + position_embeddings(positions(tokens))));
}

/// (1, t); of RoBERTa (n, t).
Tensor BertEmbeddings::positions(const Tensor& tokens) const {
  if (kind != "Roberta") return position_ids.slice(1, 0, tokens.size(1));
  const std::int64_t pad = word_embeddings.padding_idx.value_or(-1);
  Tensor real = core::ne(tokens, core::Scalar(pad)).to(core::DType::i64);
  return core::cumsum(real, 1) * real + pad;
}

struct BertSelfAttention : core::ModuleOf<BertSelfAttention> {
  std::string kind;
  std::int64_t heads;
  Linear query, key, value;
  core::Dropout dropout;

  explicit BertSelfAttention(const BertOptions& o)
      : kind(o.kind),
        heads(o.num_attention_heads),
        query(o.hidden_size, o.hidden_size),
        key(o.hidden_size, o.hidden_size),
        value(o.hidden_size, o.hidden_size),
        dropout(o.attention_dropout) {}
  std::string class_name() const override { return kind + "SelfAttention"; }
  void members(core::Members& m) override {
    m.child("query", query).child("key", key).child("value", value).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x, const Tensor& bias) {
    Tensor q = detail::split_heads(query(x), heads);  // (n, heads, t, d)
    Tensor k = detail::split_heads(key(x), heads), v = detail::split_heads(value(x), heads);
    const double p = is_training() ? dropout.p : 0.0;
    return detail::join_heads(core::scaled_dot_product_attention(q, k, v, {.mask = bias, .dropout = p}));
  }
};

/// A linear layer, then the input is added and all is normalised. (..., in) -> (..., hidden).
template <class Derived>
struct OutputOf : core::ModuleOf<Derived> {
  std::string kind;
  Linear dense;
  core::LayerNorm norm;
  core::Dropout dropout;

  OutputOf(std::int64_t in, const BertOptions& o)
      : core::ModuleOf<Derived>(core::OnBehalf()),
        kind(o.kind),
        dense(in, o.hidden_size),
        norm(norm_of(o)),
        dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("dense", dense).child("LayerNorm", norm).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x, const Tensor& input) { return norm(dropout(dense(x)) + input); }
};
struct BertSelfOutput : OutputOf<BertSelfOutput> {
  using OutputOf::OutputOf;
  std::string class_name() const override { return kind + "SelfOutput"; }
};
struct BertOutput : OutputOf<BertOutput> {
  using OutputOf::OutputOf;
  std::string class_name() const override { return kind + "Output"; }
};

struct BertAttention : core::ModuleOf<BertAttention> {
  std::string kind;
  BertSelfAttention self;
  BertSelfOutput output;

  explicit BertAttention(const BertOptions& o) : kind(o.kind), self(o), output(o.hidden_size, o) {}
  std::string class_name() const override { return kind + "Attention"; }
  void members(core::Members& m) override { m.child("self", self).child("output", output); }
  Tensor forward(const Tensor& x, const Tensor& bias) { return output(self(x, bias), x); }
};

struct BertIntermediate : core::ModuleOf<BertIntermediate> {
  std::string kind;
  Linear dense;
  std::shared_ptr<core::Module> intermediate_act_fn;

  explicit BertIntermediate(const BertOptions& o)
      : kind(o.kind),
        dense(o.hidden_size, o.intermediate_size),
        intermediate_act_fn(detail::text_activation(o.hidden_act)) {}
  std::string class_name() const override { return kind + "Intermediate"; }
  void members(core::Members& m) override { m.child("dense", dense).child("intermediate_act_fn", intermediate_act_fn); }
  Tensor forward(const Tensor& x) { return intermediate_act_fn->call(dense(x)); }
};

/// (n, t, hidden) -> the same.
struct BertLayer : core::ModuleOf<BertLayer> {
  std::string kind;
  BertAttention attention;
  BertIntermediate intermediate;
  BertOutput output;

  explicit BertLayer(const BertOptions& o)
      : kind(o.kind), attention(o), intermediate(o), output(o.intermediate_size, o) {}
  std::string class_name() const override { return kind + "Layer"; }
  void members(core::Members& m) override {
    m.child("attention", attention).child("intermediate", intermediate).child("output", output);
  }
  Tensor forward(const Tensor& x, const Tensor& bias) {
    Tensor h = attention(x, bias);
    return output(intermediate(h), h);
  }
};

BertEncoder::BertEncoder(const BertOptions& o) : kind(o.kind) {
  for (std::int64_t i = 0; i < o.num_hidden_layers; ++i) layer.push_back(BertLayer(o));
}

Tensor BertEncoder::forward(const Tensor& x, const Tensor& bias) {
  Tensor h = x;
  for (const auto& entry : layer) h = static_cast<BertLayer&>(*entry.second)(h, bias);
  return h;
}

BertPredictionHeadTransform::BertPredictionHeadTransform(const BertOptions& o)
    : dense(o.hidden_size, o.hidden_size), transform_act_fn(detail::text_activation(o.hidden_act)), norm(norm_of(o)) {}

void BertPredictionHeadTransform::members(core::Members& m) {
  m.child("dense", dense).child("transform_act_fn", transform_act_fn).child("LayerNorm", norm);
}

BertLMPredictionHead::BertLMPredictionHead(const BertOptions& o, const core::Parameter& words)
    : transform(o), decoder(o.hidden_size, o.vocab_size) {
  bias = head_bias(decoder, o, words);
}

void BertLMPredictionHead::members(core::Members& m) {
  m.parameter("bias", bias).child("transform", transform).child("decoder", decoder);
}

}  // namespace bert

BertModel::BertModel(const BertOptions& o, bool pooling)
    : kind(o.kind), embeddings(o), encoder(o), pooler(pooling ? std::make_shared<bert::BertPooler>(o) : nullptr) {
  detail::init_language(*this, 0.02);
}

void BertModel::members(core::Members& m) {
  m.child("embeddings", embeddings).child("encoder", encoder);
  if (pooler) m.child("pooler", pooler);
}

Tensor BertModel::forward(const Tensor& tokens, const BertInputs& inputs) {
  Tensor x = embeddings(tokens, inputs.token_types);                          // (n, t, hidden)
  return encoder(x, detail::bias_of_mask(inputs.attention_mask, x.dtype()));  // (n, t, hidden)
}

Tensor BertModel::pooled(const Tensor& tokens, const BertInputs& inputs) {
  return (*pooler)(forward(tokens, inputs));
}

BertForMaskedLM::BertForMaskedLM(const BertOptions& o)
    : bert(o, false), cls(o, bert.embeddings.word_embeddings.weight) {
  detail::init_language(*this, 0.02);
}

Tensor BertForMaskedLM::forward(const Tensor& tokens, const BertInputs& inputs) {
  return cls.predictions(bert.forward(tokens, inputs));
}

BertForPreTraining::BertForPreTraining(const BertOptions& o) : bert(o), cls(o, bert.embeddings.word_embeddings.weight) {
  detail::init_language(*this, 0.02);
}

Tensor BertForPreTraining::forward(const Tensor& tokens, const BertInputs& inputs) {
  return cls.predictions(bert.forward(tokens, inputs));
}

Tensor BertForPreTraining::follows(const Tensor& tokens, const BertInputs& inputs) {
  return cls.seq_relationship(bert.pooled(tokens, inputs));
}

BertForSequenceClassification::BertForSequenceClassification(const BertOptions& o)
    : bert(o), dropout(o.classifier_dropout), classifier(o.hidden_size, o.num_labels) {
  detail::init_language(*this, 0.02);
}

Tensor BertForSequenceClassification::forward(const Tensor& tokens, const BertInputs& inputs) {
  return classifier(dropout(bert.pooled(tokens, inputs)));
}

namespace roberta {

RobertaLMHead::RobertaLMHead(const BertOptions& o, const core::Parameter& words)
    : dense(o.hidden_size, o.hidden_size), layer_norm(bert::norm_of(o)), decoder(o.hidden_size, o.vocab_size) {
  bias = bert::head_bias(decoder, o, words);
}

void RobertaLMHead::members(core::Members& m) {
  m.parameter("bias", bias).child("dense", dense).child("layer_norm", layer_norm).child("decoder", decoder);
}

Tensor RobertaLMHead::forward(const Tensor& x) {
  return decoder(layer_norm(core::gelu(dense(x))));
}

RobertaClassificationHead::RobertaClassificationHead(const BertOptions& o)
    : dense(o.hidden_size, o.hidden_size), dropout(o.classifier_dropout), out_proj(o.hidden_size, o.num_labels) {}

Tensor RobertaClassificationHead::forward(const Tensor& x) {  // (n, t, hidden)
  return out_proj(dropout(core::tanh(dense(dropout(x.select(1, 0))))));
}

}  // namespace roberta

RobertaForMaskedLM::RobertaForMaskedLM(const BertOptions& o)
    : roberta(o, false), lm_head(o, roberta.embeddings.word_embeddings.weight) {
  detail::init_language(*this, 0.02);
}

Tensor RobertaForMaskedLM::forward(const Tensor& tokens, const BertInputs& inputs) {
  return lm_head(roberta.forward(tokens, inputs));
}

RobertaForSequenceClassification::RobertaForSequenceClassification(const BertOptions& o)
    : roberta(o, false), classifier(o) {
  detail::init_language(*this, 0.02);
}

Tensor RobertaForSequenceClassification::forward(const Tensor& tokens, const BertInputs& inputs) {
  return classifier(roberta.forward(tokens, inputs));
}

}  // namespace zoo
