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
  Conv1D c_attn, c_proj;
  core::Dropout attn_dropout, resid_dropout;

  explicit GPT2Attention(const Options& o)
      : heads(o.n_head),
        c_attn(3 * o.n_embd, o.n_embd),
        c_proj(o.n_embd, o.n_embd),
        attn_dropout(o.dropout),
        resid_dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("c_attn", c_attn).child("c_proj", c_proj);
    m.child("attn_dropout", attn_dropout).child("resid_dropout", resid_dropout);
  }
  Tensor forward(const Tensor& x, DecoderCache::Layer* cache = nullptr) {
    std::vector<Tensor> qkv = c_attn(x).split(x.size(2), 2);  // 3 of (n, t, width)
    for (Tensor& part : qkv) part = detail::split_heads(part, heads);
    Tensor mixed = detail::causal_attention({qkv[0], qkv[1], qkv[2]}, is_training() ? attn_dropout.p : 0.0, cache);
    return resid_dropout(c_proj(detail::join_heads(mixed)));
  }
};

struct GPT2MLP : core::ModuleOf<GPT2MLP> {
  Conv1D c_fc, c_proj;
  detail::NewGELUActivation act;
  core::Dropout dropout;

  explicit GPT2MLP(const Options& o)
      : c_fc(4 * o.n_embd, o.n_embd), c_proj(o.n_embd, 4 * o.n_embd), dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("c_fc", c_fc).child("c_proj", c_proj).child("act", act).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x) { return dropout(c_proj(act(c_fc(x)))); }
};

struct GPT2Block : core::ModuleOf<GPT2Block> {
  core::LayerNorm ln_1;
  GPT2Attention attn;
  core::LayerNorm ln_2;
  GPT2MLP mlp;

  explicit GPT2Block(const Options& o) : ln_1({o.n_embd}), attn(o), ln_2({o.n_embd}), mlp(o) {}
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
    : wte(o.vocab_size, o.n_embd), wpe(o.n_positions, o.n_embd), drop(o.dropout), ln_f({o.n_embd}) {
  for (std::int64_t i = 0; i < o.n_layer; ++i) h.push_back(gpt2::GPT2Block(o));
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
  lm_head.weight = transformer.wte.weight;
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
