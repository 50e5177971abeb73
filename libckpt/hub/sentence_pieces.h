#pragma once
// tokenizer.model: the pieces of a SentencePiece model, a message of protocol buffers of which only what tokenizers of
// llama.cpp know is looked at. Internal to libckpt/hub. Thread safety: pure.
// Use: std::vector<SentencePiece> pieces = read_sentence_pieces(bytes);

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

/// Errors: Error(corrupt) for bytes that are no such message, and for one without pieces.
std::vector<SentencePiece> read_sentence_pieces(core::Bytes model);

/// A model that SentencePiece loads: BPE by scores, with bytes for what has no piece, and a blank before a text where
/// `add_space` says so.
core::ByteVector write_sentence_pieces(const std::vector<SentencePiece>& pieces, bool add_space);

}  // namespace ckpt::detail
