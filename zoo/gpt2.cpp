#include "zoo/gpt2.h"

#include <cmath>

#include "libcore/module/init.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Tensor;

namespace gpt2 {

using Options = GPT2Model::Options;

/// A linear layer with its weight the other way round. (..., nx) -> (..., nf).
struct Conv1D : core::ModuleOf<Conv1D> {
  std::int64_t nf, nx;
  core::Parameter weight;  ///< (nx, nf)
  core::Parameter bias;    ///< (nf)

  Conv1D(std::int64_t out, std::int64_t in)
      : nf(out), nx(in), weight(core::init::normal_(core::empty({in, out}), 0, 0.02)), bias(core::zeros({out})) {}
  void members(core::Members& m) override { m.parameter("weight", weight).parameter("bias", bias); }
  std::string extra_repr() const override { return "nf=" + std::to_string(nf) + ", nx=" + std::to_string(nx); }
  Tensor forward(const Tensor& x) const { return core::matmul(x, weight) + bias; }
};

/// (n, t, width) -> the same.
struct GPT2Attention : core::ModuleOf<GPT2Attention> {
  std::int64_t heads;
  double scale;
  Conv1D c_attn, c_proj;
  core::Dropout attn_dropout, resid_dropout;

  GPT2Attention(const Options& o, std::int64_t layer)
      : heads(o.n_head),
        scale(scale_of(o, layer)),
        c_attn(3 * o.n_embd, o.n_embd),
        c_proj(o.n_embd, o.n_embd),
        attn_dropout(o.attn_pdrop),
        resid_dropout(o.resid_pdrop) {}
  /// Of the scores in this layer.
  static double scale_of(const Options& o, std::int64_t layer) {
    const double width = static_cast<double>(o.n_embd / o.n_head);
    const double scale = o.scale_attn_weights ? 1 / std::sqrt(width) : 1.0;
    return o.scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
  }
  void members(core::Members& m) override {
    m.child("c_attn", c_attn).child("c_proj", c_proj);
    m.child("attn_dropout", attn_dropout).child("resid_dropout", resid_dropout);
  }
  Tensor forward(const Tensor& x, DecoderCache::Layer* cache = nullptr) {
    std::vector<Tensor> qkv = c_attn(x).split(x.size(2), 2);  // 3 of (n, t, width)
    for (Tensor& part : qkv) part = detail::split_heads(part, heads);
    Tensor mixed = detail::causal_attention({qkv[0], qkv[1], qkv[2]},
                                            {.dropout = is_training() ? attn_dropout.p : 0.0, .scale = scale}, cache);
    return resid_dropout(c_proj(detail::join_heads(mixed)));
  }
};

struct GPT2MLP : core::ModuleOf<GPT2MLP> {
  Conv1D c_fc, c_proj;
  std::shared_ptr<core::Module> act;
  core::Dropout dropout;

  explicit GPT2MLP(const Options& o)
      : c_fc(inner(o), o.n_embd),
        c_proj(o.n_embd, inner(o)),
        act(detail::text_activation(o.activation)),
        dropout(o.resid_pdrop) {}
  static std::int64_t inner(const Options& o) { return o.n_inner != 0 ? o.n_inner : 4 * o.n_embd; }
  void members(core::Members& m) override {
    m.child("c_fc", c_fc).child("c_proj", c_proj).child("act", act).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x) { return dropout(c_proj(act->call(c_fc(x)))); }
};

struct GPT2Block : core::ModuleOf<GPT2Block> {
  core::LayerNorm ln_1;
  GPT2Attention attn;
  core::LayerNorm ln_2;
  GPT2MLP mlp;

  GPT2Block(const Options& o, std::int64_t layer)
      : ln_1({o.n_embd}, {.eps = o.layer_norm_epsilon}),
        attn(o, layer),
        ln_2({o.n_embd}, {.eps = o.layer_norm_epsilon}),
        mlp(o) {}
  void members(core::Members& m) override {
    m.child("ln_1", ln_1).child("attn", attn).child("ln_2", ln_2).child("mlp", mlp);
  }
  Tensor forward(const Tensor& x, DecoderCache::Layer* cache = nullptr) {
    Tensor y = x + attn(ln_1(x), cache);
    return y + mlp(ln_2(y));
  }
};

}  // namespace gpt2

GPT2Model::GPT2Model(const Options& o)
    : wte(o.vocab_size, o.n_embd),
      wpe(o.n_positions, o.n_embd),
      drop(o.embd_pdrop),
      ln_f({o.n_embd}, {.eps = o.layer_norm_epsilon}) {
  for (std::int64_t i = 0; i < o.n_layer; ++i) h.push_back(gpt2::GPT2Block(o, i));
  detail::init_language(*this, 0.02);
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(o.n_layer));
  for (const auto& [name, parameter] : named_parameters()) {
    if (name.ends_with("c_proj.weight")) core::init::normal_(parameter, 0, residual);
  }
}

void GPT2Model::members(core::Members& m) {
  m.child("wte", wte).child("wpe", wpe).child("drop", drop).child("h", h).child("ln_f", ln_f);
}

Tensor GPT2Model::run(const Tensor& tokens, DecoderCache* cache) {  // (n, t)
  const std::int64_t start = cache == nullptr ? 0 : cache->length();
  Tensor x = drop(wte(tokens) + wpe(detail::positions(tokens, start)));  // (n, t, width)
  std::size_t layer = 0;
  for (const auto& block : h) {  // (n, t, width)
    x = cache == nullptr ? block.second->call(x)
                         : static_cast<gpt2::GPT2Block&>(*block.second)(x, detail::layer_of(cache, layer++));
  }
  return ln_f(x);
}

GPT2LMHeadModel::GPT2LMHeadModel(const Options& o) : transformer(o), lm_head(o.n_embd, o.vocab_size, {.bias = false}) {
  if (o.tie_word_embeddings) {
    lm_head.weight = transformer.wte.weight;
  } else {
    detail::init_language(lm_head, 0.02);
  }
}

void GPT2LMHeadModel::members(core::Members& m) {
  m.child("transformer", transformer).child("lm_head", lm_head);
}

Tensor GPT2LMHeadModel::forward(const Tensor& tokens) {
  return lm_head(transformer(tokens));
}

Tensor GPT2LMHeadModel::forward(const Tensor& tokens, DecoderCache& cache) {
  return lm_head(transformer(tokens, cache));
}

}  // namespace zoo
