#include "zoo/t5.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "libcore/module/init.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/index.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace t5 {

/// Of self attention, and of the decoder's over what the encoder made.
struct T5Attention : core::ModuleOf<T5Attention> {
  std::int64_t heads;
  double dropout;
  Linear q, k, v, o;
  std::shared_ptr<core::Embedding> relative_attention_bias;  ///< (buckets, heads), of a stack's first layer

  T5Attention(const T5Options& options, bool has_bias)
      : heads(options.num_heads),
        dropout(options.dropout),
        q(options.d_model, heads * options.d_kv, {.bias = false}),
        k(options.d_model, heads * options.d_kv, {.bias = false}),
        v(options.d_model, heads * options.d_kv, {.bias = false}),
        o(heads * options.d_kv, options.d_model, {.bias = false}) {
    const double narrow = 1 / std::sqrt(static_cast<double>(options.d_model));
    core::init::normal_(q.weight, 0, narrow / std::sqrt(static_cast<double>(options.d_kv)));
    for (Linear* linear : {&k, &v}) core::init::normal_(linear->weight, 0, narrow);
    core::init::normal_(o.weight, 0, 1 / std::sqrt(static_cast<double>(heads * options.d_kv)));
    if (!has_bias) return;
    relative_attention_bias = std::make_shared<core::Embedding>(options.buckets, heads);
    core::init::normal_(relative_attention_bias->weight, 0, narrow);
  }
  void members(core::Members& m) override {
    m.child("q", q).child("k", k).child("v", v).child("o", o);
    if (relative_attention_bias) m.child("relative_attention_bias", relative_attention_bias);
  }
  /// x (n, t, d_model), bias (1, heads, t, all) -> the same as x.
  Tensor forward(const Tensor& x, const Tensor& bias, bool causal, DecoderCache::Layer* cache) {
    const detail::Heads own{detail::split_heads(q(x), heads), detail::split_heads(k(x), heads),
                            detail::split_heads(v(x), heads)};
    const double p = is_training() ? dropout : 0.0;
    if (causal) {
      return o(detail::join_heads(detail::causal_attention(own, {.dropout = p, .scale = 1, .bias = bias}, cache)));
    }
    return o(detail::join_heads(core::scaled_dot_product_attention(own.queries, own.keys, own.values,
                                                                   {.mask = bias, .dropout = p, .scale = 1})));
  }
  /// x (n, t, d_model), states (n, s, d_model) -> the same as x.
  Tensor across(const Tensor& x, const Tensor& states, DecoderCache::Layer* cache) {
    return o(detail::join_heads(detail::cross_attention(
        detail::split_heads(q(x), heads),
        [&] {
          return detail::Heads{{}, detail::split_heads(k(states), heads), detail::split_heads(v(states), heads)};
        },
        {.dropout = is_training() ? dropout : 0.0, .scale = 1}, cache)));
  }
};

struct T5LayerSelfAttention : core::ModuleOf<T5LayerSelfAttention> {
  T5Attention attention;
  T5LayerNorm layer_norm;
  core::Dropout dropout;
  T5LayerSelfAttention(const T5Options& o, bool has_bias) : attention(o, has_bias), layer_norm(o), dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("SelfAttention", attention).child("layer_norm", layer_norm).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x, const Tensor& bias, bool causal, DecoderCache::Layer* cache) {
    return x + dropout(attention(layer_norm(x), bias, causal, cache));
  }
};

struct T5LayerCrossAttention : core::ModuleOf<T5LayerCrossAttention> {
  T5Attention attention;
  T5LayerNorm layer_norm;
  core::Dropout dropout;
  explicit T5LayerCrossAttention(const T5Options& o) : attention(o, false), layer_norm(o), dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("EncDecAttention", attention).child("layer_norm", layer_norm).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x, const Tensor& states, DecoderCache::Layer* cache) {
    return x + dropout(attention.across(layer_norm(x), states, cache));
  }
};

/// wi and wo, or a gate wi_0 beside wi_1.
struct T5Dense : core::ModuleOf<T5Dense> {
  std::shared_ptr<Linear> wi, wi_0, wi_1;
  Linear wo;
  core::Dropout dropout;
  std::shared_ptr<core::Module> act;

  explicit T5Dense(const T5Options& o)
      : wo(o.d_ff, o.d_model, {.bias = false}), dropout(o.dropout), act(detail::text_activation(o.activation)) {
    auto widening = [&] {
      auto linear = std::make_shared<Linear>(o.d_model, o.d_ff, core::LinearOptions{.bias = false});
      core::init::normal_(linear->weight, 0, 1 / std::sqrt(static_cast<double>(o.d_model)));
      return linear;
    };
    core::init::normal_(wo.weight, 0, 1 / std::sqrt(static_cast<double>(o.d_ff)));
    if (o.gated) {
      wi_0 = widening(), wi_1 = widening();
    } else {
      wi = widening();
    }
  }
  std::string class_name() const override { return wi ? "T5DenseActDense" : "T5DenseGatedActDense"; }
  void members(core::Members& m) override {
    if (wi) {
      m.child("wi", wi);
    } else {
      m.child("wi_0", wi_0).child("wi_1", wi_1);
    }
    m.child("wo", wo).child("dropout", dropout).child("act", act);
  }
  Tensor forward(const Tensor& x) { return wo(dropout(wi ? act->call((*wi)(x)) : act->call((*wi_0)(x)) * (*wi_1)(x))); }
};

struct T5LayerFF : core::ModuleOf<T5LayerFF> {
  T5Dense dense;
  T5LayerNorm layer_norm;
  core::Dropout dropout;
  explicit T5LayerFF(const T5Options& o) : dense(o), layer_norm(o), dropout(o.dropout) {}
  void members(core::Members& m) override {
    m.child("DenseReluDense", dense).child("layer_norm", layer_norm).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x) { return x + dropout(dense(layer_norm(x))); }
};

struct T5Block : core::ModuleOf<T5Block> {
  core::ModuleList layer;

  T5Block(const T5Options& o, bool has_bias, bool is_decoder) {
    layer.push_back(T5LayerSelfAttention(o, has_bias));
    if (is_decoder) layer.push_back(T5LayerCrossAttention(o));
    layer.push_back(T5LayerFF(o));
  }
  void members(core::Members& m) override { m.child("layer", layer); }
  T5LayerSelfAttention& self_attention() { return static_cast<T5LayerSelfAttention&>(layer[0]); }
  Tensor forward(const Tensor& x, const Tensor& bias, const Tensor& states, DecoderCache::Layer* own,
                 DecoderCache::Layer* other) {
    Tensor h = self_attention()(x, bias, states.defined(), own);
    if (states.defined()) h = static_cast<T5LayerCrossAttention&>(layer[1])(h, states, other);
    return static_cast<T5LayerFF&>(layer[layer.size() - 1])(h);
  }
};

namespace {

/// The number of the bucket for a position that lies `ahead` of the one that looks. In float, as the reference has it.
std::int64_t bucket_of(std::int64_t ahead, bool both_ways, std::int64_t buckets, std::int64_t max_distance) {
  std::int64_t first = 0;
  std::int64_t distance = std::max<std::int64_t>(0, -ahead);
  if (both_ways) {
    buckets /= 2;
    if (ahead > 0) first = buckets;
    distance = std::abs(ahead);
  }
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  const float share = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const auto far = exact + static_cast<std::int64_t>(share * static_cast<float>(buckets - exact));
  return first + std::min(far, buckets - 1);
}

}  // namespace

T5Stack::T5Stack(const T5Options& o, bool is_decoder)
    : embed_tokens(o.vocab_size, o.d_model),
      final_layer_norm(o),
      dropout(o.dropout),
      buckets(o.buckets),
      max_distance(o.max_distance),
      writes(is_decoder) {
  const std::int64_t depth = is_decoder ? o.num_decoder_layers : o.num_layers;
  for (std::int64_t i = 0; i < depth; ++i) block.push_back(T5Block(o, i == 0, is_decoder));
}

void T5Stack::members(core::Members& m) {
  m.child("embed_tokens", embed_tokens).child("block", block);
  m.child("final_layer_norm", final_layer_norm).child("dropout", dropout);
}

/// What is added to the scores of `now` positions behind `before` others: (1, heads, now, before + now).
Tensor T5Stack::bias(std::int64_t before, std::int64_t now, core::DType dtype) {
  // Beyond the largest distance all are alike. The table follows the length only where a file asks for a vast one: a
  // model that is exported has the same one for every text.
  constexpr std::int64_t kAlwaysThere = 4096;
  const std::int64_t reach = std::min(max_distance, std::max(before + now, kAlwaysThere));
  std::vector<std::int64_t> numbers;  // of each distance
  for (std::int64_t ahead = -reach; ahead <= reach; ++ahead) {
    numbers.push_back(bucket_of(ahead, !writes, buckets, max_distance));
  }
  const Tensor from = core::arange(before, before + now).unsqueeze(1), to = core::arange(before + now);
  const Tensor place = core::clamp(to - from, -reach, reach) + reach;
  core::Embedding& table = *static_cast<T5Block&>(block[0]).self_attention().attention.relative_attention_bias;
  const Tensor places = core::index_select(core::from_values(numbers), 0, place.reshape({-1}))
                            .reshape({now, before + now})
                            .to(table.weight.device());
  return table(places).permute({2, 0, 1}).unsqueeze(0).to(dtype);
}

Tensor T5Stack::forward(const Tensor& tokens, const Tensor& states, DecoderCache* cache) {  // (n, t)
  Tensor x = dropout(embed_tokens(tokens));                                                 // (n, t, d_model)
  const Tensor places = bias(cache == nullptr ? 0 : cache->length(), tokens.size(1), x.dtype());
  std::size_t at = 0;
  for (const auto& each : block) {
    DecoderCache::Layer* other = detail::source_of(cache, at);
    x = static_cast<T5Block&>(*each.second)(x, places, states, detail::layer_of(cache, at), other);
    ++at;
  }
  return dropout(final_layer_norm(x));
}

}  // namespace t5

T5ForConditionalGeneration::T5ForConditionalGeneration(const T5Options& o)
    : shared(o.vocab_size, o.d_model),
      encoder(o, false),
      decoder(o, true),
      lm_head(o.d_model, o.vocab_size, {.bias = false}),
      scale(o.scale_outputs ? 1 / std::sqrt(static_cast<double>(o.d_model)) : 1) {
  encoder.embed_tokens.weight = decoder.embed_tokens.weight = shared.weight;
  if (!o.own_head) lm_head.weight = shared.weight;
}

Tensor T5ForConditionalGeneration::decoded(const Tensor& written, const Tensor& states, DecoderCache* cache) {
  const Tensor h = decoder(written, states, cache);
  return lm_head(scale == 1 ? h : h * scale);
}

T5EncoderModel::T5EncoderModel(const T5Options& o) : shared(o.vocab_size, o.d_model), encoder(o, false) {
  encoder.embed_tokens.weight = shared.weight;
}

}  // namespace zoo
