#pragma once
// What a tokenizer is made of. Internal to zoo/text. Thread safety: immutable once made.
// Use: auto parts = std::make_shared<TokenizerParts>(); parts->model = make_bpe(...);

#include <filesystem>

#include "zoo/text/added_tokens.h"
#include "zoo/text/steps.h"
#include "zoo/text/token_model.h"
#include "zoo/text/tokenizer.h"

namespace zoo::text {

struct TokenizerParts {
  AddedTokens added;           ///< with the normalizer
  PreTokenizer pre_tokenizer;  ///< null: the text is one piece
  TokenModelPtr model;
  PostProcessor post_processor;  ///< null: nothing is put around
  Decoder decoder;               ///< null: tokens with a space between
};

/// What tokenizer_config.json says of a SentencePiece model's tokens.
struct SentencePieceOptions {
  bool bos = false;
  bool eos = false;
  std::vector<AddedToken> added = {};
};

/// By Debian's SentencePiece. Errors: Error(corrupt), Error(refused).
Tokenizer open_sentence_piece(const std::filesystem::path& path, SentencePieceOptions options);

/// {"id": 1, "content": "<s>", ...}; `id` where the object has none.
AddedToken added_token_from(ckpt::JsonView json, std::optional<std::int64_t> id);

/// A file of text of at most 256 MiB. Errors: Error(io), Error(refused).
std::string read_text(const std::filesystem::path& path);

}  // namespace zoo::text
