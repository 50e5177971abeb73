#include "zoo/whisper.h"

#include <cmath>
#include <memory>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace whisper {

namespace {

/// Sines of slower and slower waves beside their cosines: (length, width), in float as the reference has it.
Tensor sinusoids(std::int64_t length, std::int64_t width) {
  const auto step = static_cast<float>(-std::log(10000.0) / static_cast<double>(width / 2 - 1));
  std::vector<float> values;
  for (std::int64_t time = 0; time < length; ++time) {
    for (std::int64_t i = 0; i < width; ++i) {
      const float speed = std::exp(step * static_cast<float>(i % (width / 2)));
      const float angle = static_cast<float>(time) * speed;
      values.push_back(i < width / 2 ? std::sin(angle) : std::cos(angle));
    }
  }
  return core::from_values(values).reshape({length, width});
}

detail::HeadsAttention attention(const WhisperOptions& o, std::int64_t heads) {
  return detail::HeadsAttention(
      {.kind = "Whisper", .width = o.d_model, .heads = heads, .dropout = o.attention_dropout, .key_bias = false});
}

}  // namespace

/// What both kinds of layers do last.
struct FeedForward {
  std::shared_ptr<core::Module> activation_fn;
  Linear fc1, fc2;
  core::LayerNorm final_layer_norm;
  double dropout, activation_dropout;

  FeedForward(const WhisperOptions& o, std::int64_t wide)
      : activation_fn(detail::text_activation(o.activation_function)),
        fc1(o.d_model, wide),
        fc2(wide, o.d_model),
        final_layer_norm({o.d_model}),
        dropout(o.dropout),
        activation_dropout(o.activation_dropout) {}
  Tensor add(const Tensor& x, bool training) {
    Tensor h = core::dropout(activation_fn->call(fc1(final_layer_norm(x))), activation_dropout, training);
    return x + core::dropout(fc2(h), dropout, training);
  }
};

/// (n, t, d_model) -> the same.
struct WhisperEncoderLayer : core::ModuleOf<WhisperEncoderLayer> {
  detail::HeadsAttention self_attn;
  core::LayerNorm self_attn_layer_norm;
  FeedForward last;

  explicit WhisperEncoderLayer(const WhisperOptions& o)
      : self_attn(attention(o, o.encoder_attention_heads)),
        self_attn_layer_norm({o.d_model}),
        last(o, o.encoder_ffn_dim) {}
  void members(core::Members& m) override {
    m.child("self_attn", self_attn).child("self_attn_layer_norm", self_attn_layer_norm);
    m.child("activation_fn", last.activation_fn).child("fc1", last.fc1).child("fc2", last.fc2);
    m.child("final_layer_norm", last.final_layer_norm);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = x + core::dropout(self_attn(self_attn_layer_norm(x)), last.dropout, is_training());
    return last.add(h, is_training());
  }
};

struct WhisperDecoderLayer : core::ModuleOf<WhisperDecoderLayer> {
  detail::HeadsAttention self_attn;
  core::LayerNorm self_attn_layer_norm;
  detail::HeadsAttention encoder_attn;
  core::LayerNorm encoder_attn_layer_norm;
  FeedForward last;

  explicit WhisperDecoderLayer(const WhisperOptions& o)
      : self_attn(attention(o, o.decoder_attention_heads)),
        self_attn_layer_norm({o.d_model}),
        encoder_attn(attention(o, o.decoder_attention_heads)),
        encoder_attn_layer_norm({o.d_model}),
        last(o, o.decoder_ffn_dim) {}
  void members(core::Members& m) override {
    m.child("self_attn", self_attn).child("activation_fn", last.activation_fn);
    m.child("self_attn_layer_norm", self_attn_layer_norm).child("encoder_attn", encoder_attn);
    m.child("encoder_attn_layer_norm", encoder_attn_layer_norm).child("fc1", last.fc1).child("fc2", last.fc2);
    m.child("final_layer_norm", last.final_layer_norm);
  }
  Tensor forward(const Tensor& x, const Tensor& states, DecoderCache::Layer* own, DecoderCache::Layer* other) {
    auto dropped = [this](const Tensor& y) { return core::dropout(y, last.dropout, is_training()); };
    Tensor h = x + dropped(self_attn.causal(self_attn_layer_norm(x), own));
    h = h + dropped(encoder_attn.across(encoder_attn_layer_norm(h), states, other));
    return last.add(h, is_training());
  }
};

WhisperEncoder::WhisperEncoder(const WhisperOptions& o)
    : conv1(o.num_mel_bins, o.d_model, 3, {.padding = 1}),
      conv2(o.d_model, o.d_model, 3, {.stride = 2, .padding = 1}),
      embed_positions(o.max_source_positions, o.d_model),
      layer_norm({o.d_model}),
      dropout(o.dropout) {
  for (std::int64_t i = 0; i < o.encoder_layers; ++i) layers.push_back(WhisperEncoderLayer(o));
  detail::init_language(*this, 0.02);
  embed_positions.weight.detach().copy_(sinusoids(o.max_source_positions, o.d_model));
  embed_positions.weight.requires_grad_(false);
}

void WhisperEncoder::members(core::Members& m) {
  m.child("conv1", conv1).child("conv2", conv2).child("embed_positions", embed_positions);
  m.child("layers", layers).child("layer_norm", layer_norm);
}

Tensor WhisperEncoder::forward(const Tensor& features) {  // (n, mel bins, frames)
  const std::int64_t frames = 2 * embed_positions.num_embeddings;
  if (features.size(-1) != frames) {
    throw core::Error(core::ErrorCode::value, "Whisper expects the mel input features to be of length " +
                                                  std::to_string(frames) + ", but found " +
                                                  std::to_string(features.size(-1)));
  }
  Tensor h = core::gelu(conv2(core::gelu(conv1(features)))).permute({0, 2, 1});  // (n, t, d_model)
  h = core::dropout(h + embed_positions.weight, dropout, is_training());
  for (const auto& layer : layers) h = layer.second->call(h);
  return layer_norm(h);
}

WhisperDecoder::WhisperDecoder(const WhisperOptions& o)
    : embed_tokens(o.vocab_size, o.d_model, detail::padded_by(o.pad_token_id)),
      embed_positions(o.max_target_positions, o.d_model),
      layer_norm({o.d_model}),
      dropout(o.dropout) {
  for (std::int64_t i = 0; i < o.decoder_layers; ++i) layers.push_back(WhisperDecoderLayer(o));
  detail::init_language(*this, 0.02);
}

void WhisperDecoder::members(core::Members& m) {
  m.child("embed_tokens", embed_tokens).child("embed_positions", embed_positions).child("layers", layers);
  m.child("layer_norm", layer_norm);
}

Tensor WhisperDecoder::forward(const Tensor& tokens, const Tensor& states, DecoderCache* cache) {  // (n, t)
  const std::int64_t before = cache == nullptr ? 0 : cache->length(), all = before + tokens.size(1);
  if (all > embed_positions.num_embeddings) {
    throw core::Error(core::ErrorCode::value, std::to_string(all) + " tokens are more than the decoder's " +
                                                  std::to_string(embed_positions.num_embeddings) + " positions");
  }
  Tensor h = embed_tokens(tokens) + embed_positions.weight.slice(0, before, all);  // (n, t, d_model)
  h = core::dropout(h, dropout, is_training());
  std::size_t at = 0;
  for (const auto& layer : layers) {
    DecoderCache::Layer* other = detail::source_of(cache, at);
    h = static_cast<WhisperDecoderLayer&>(*layer.second)(h, states, detail::layer_of(cache, at), other);
    ++at;
  }
  return layer_norm(h);
}

}  // namespace whisper

WhisperForConditionalGeneration::WhisperForConditionalGeneration(const WhisperOptions& o)
    : model(o), proj_out(o.d_model, o.vocab_size, {.bias = false}) {
  if (o.tie_word_embeddings) {
    proj_out.weight = model.decoder.embed_tokens.weight;
  } else {
    detail::init_language(proj_out, 0.02);
  }
}

}  // namespace zoo
