#pragma once
// tokenizer.model and spiece.model: a SentencePiece model, a message of protocol buffers of which only what tokenizers
// of llama.cpp know is looked at. Internal to libckpt/hub. Thread safety: pure.
// Use: std::vector<SentencePiece> pieces = read_sentence_model(bytes).pieces;

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// Types of tokens: numbers of SentencePiece and of tokenizer.ggml.token_type.
enum class TokenType : std::int32_t { normal = 1, unknown, control, user_defined, unused, byte };

struct SentencePiece {
  std::string text;
  float score = 0;
  TokenType type = TokenType::normal;
};

struct SentenceModel {
  std::vector<SentencePiece> pieces;
  bool unigram = true;             ///< the likeliest pieces, else BPE by scores
  bool add_space = true;           ///< before a text
  bool remove_blanks = true;       ///< those at the ends, and all but one of several
  core::ByteVector charsmap = {};  ///< which characters become which, first; empty: all stay
};

/// Errors: Error(corrupt) for bytes that are no such message, and for one without pieces.
SentenceModel read_sentence_model(core::Bytes model);

/// A model that SentencePiece loads, with bytes for what has no piece where there are pieces for them.
core::ByteVector write_sentence_model(const SentenceModel& model);

}  // namespace ckpt::detail
