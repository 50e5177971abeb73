#pragma once
// Whisper under Hugging Face's names: an encoder that listens to the mel spectrum of half a minute, and a decoder that
// writes what was said. Source: Radford et al. 2022. Thread safety: as core::Module.
// Use: zoo::WhisperForConditionalGeneration net({}); core::Tensor logits = net(spectra, written);

#include <cstdint>
#include <string>

#include "libcore/module/conv_nd.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "zoo/decoder.h"

namespace zoo {

/// Those of the tiny model.
struct WhisperOptions {
  std::int64_t vocab_size = 51865;
  std::int64_t num_mel_bins = 80;
  std::int64_t d_model = 384;
  std::int64_t encoder_layers = 4;
  std::int64_t encoder_attention_heads = 6;
  std::int64_t encoder_ffn_dim = 1536;
  std::int64_t decoder_layers = 4;
  std::int64_t decoder_attention_heads = 6;
  std::int64_t decoder_ffn_dim = 1536;
  std::int64_t max_source_positions = 1500;  ///< half as many as there are frames
  std::int64_t max_target_positions = 448;
  std::int64_t pad_token_id = 50256;  ///< negative: none
  std::string activation_function = "gelu";
  double dropout = 0;
  double attention_dropout = 0;
  double activation_dropout = 0;
  bool tie_word_embeddings = true;
};

namespace whisper {

struct WhisperPositionalEmbedding : core::ModuleOf<WhisperPositionalEmbedding, core::Embedding> {
  WhisperPositionalEmbedding(std::int64_t positions, std::int64_t width) : ModuleOf(positions, width) {}
};

struct WhisperEncoder : core::ModuleOf<WhisperEncoder> {
  core::Conv1d conv1, conv2;
  core::Embedding embed_positions;  ///< sines and cosines, which are not learnt
  core::ModuleList layers;
  core::LayerNorm layer_norm;
  double dropout;

  explicit WhisperEncoder(const WhisperOptions& o);
  void members(core::Members& m) override;
  /// (n, num_mel_bins, 2 * max_source_positions) -> states (n, max_source_positions, d_model). Error(value) for another
  /// number of frames.
  core::Tensor forward(const core::Tensor& features);
};

struct WhisperDecoder : core::ModuleOf<WhisperDecoder> {
  core::Embedding embed_tokens;
  WhisperPositionalEmbedding embed_positions;
  core::ModuleList layers;
  core::LayerNorm layer_norm;
  double dropout;

  explicit WhisperDecoder(const WhisperOptions& o);
  void members(core::Members& m) override;
  /// tokens (n, t), int64, that follow those in `cache`, and what the encoder made -> states (n, t, d_model).
  /// Error(value) for more tokens than there are positions.
  core::Tensor forward(const core::Tensor& tokens, const core::Tensor& states, DecoderCache* cache);
};

}  // namespace whisper

struct WhisperModel : core::ModuleOf<WhisperModel>, TwoInputs {
  whisper::WhisperEncoder encoder;
  whisper::WhisperDecoder decoder;

  explicit WhisperModel(const WhisperOptions& o) : encoder(o), decoder(o) {}
  void members(core::Members& m) override { m.child("encoder", encoder).child("decoder", decoder); }
  /// features and what is written so far (n, t), int64 -> states (n, t, d_model).
  core::Tensor forward(const core::Tensor& features, const core::Tensor& written) {
    return decoder(written, encoder(features), nullptr);
  }
  core::Tensor with_second(const core::Tensor& features, const core::Tensor& written) override {
    return (*this)(features, written);
  }
};

struct WhisperForConditionalGeneration : core::ModuleOf<WhisperForConditionalGeneration>, EncoderDecoder {
  WhisperModel model;
  core::Linear proj_out;

  explicit WhisperForConditionalGeneration(const WhisperOptions& o);
  void members(core::Members& m) override { m.child("model", model).child("proj_out", proj_out); }
  /// features and what is written so far (n, t), int64 -> logits of the next token (n, t, vocab_size).
  core::Tensor forward(const core::Tensor& features, const core::Tensor& written) {
    return decoded(written, encoded(features), nullptr);
  }
  core::Tensor encoded(const core::Tensor& features) override { return model.encoder(features); }
  core::Tensor decoded(const core::Tensor& written, const core::Tensor& states, DecoderCache* cache) override {
    return proj_out(model.decoder(written, states, cache));
  }
  core::Tensor with_second(const core::Tensor& features, const core::Tensor& written) override {
    return (*this)(features, written);
  }
};

}  // namespace zoo
