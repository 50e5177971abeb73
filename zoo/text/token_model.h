#pragma once
// What takes a piece of text apart into tokens: byte-pair merges, the longest pieces of a word, or the likeliest way
// through a lattice. Thread safety: immutable. Use: auto model = zoo::text::make_token_model(json.at("model"));

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zoo/text/fields.h"
#include "zoo/text/vocabulary.h"

namespace zoo::text {

class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;
  virtual ~TokenModel() = default;
  /// Puts the numbers of a piece behind those of `ids`. Error(unsupported) where the piece needs an unknown token and
  /// the model has none.
  virtual void encode(std::string_view piece, std::vector<std::int64_t>& ids) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

using TokenModelPtr = std::shared_ptr<const TokenModel>;
using MergePairs = std::vector<std::pair<std::string, std::string>>;

struct BpeOptions {
  std::string unknown = {};  ///< token for what has none; empty: such characters are left out
  std::string prefix = {};   ///< of what does not begin a word
  std::string suffix = {};   ///< of what ends a word
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  ///< a piece that is a token stays whole, whatever the merges say
};

struct WordPieceOptions {
  std::string unknown = "[UNK]";
  std::string prefix = "##";
  std::uint64_t longest = 100;  ///< characters of a word that is looked at
};

/// Error(corrupt) for merges of tokens that are not there.
TokenModelPtr make_bpe(Vocabulary vocabulary, const MergePairs& merges, BpeOptions options);
TokenModelPtr make_word_piece(Vocabulary vocabulary, WordPieceOptions options);

/// "model" of a tokenizer.json. Errors: Error(unsupported) naming the kind or a field that is not here; Error(corrupt).
TokenModelPtr make_token_model(ckpt::JsonView model);

// One for each kind, with its members.
TokenModelPtr bpe_from(const Fields& fields);
TokenModelPtr word_piece_from(const Fields& fields);
TokenModelPtr word_level_from(const Fields& fields);
TokenModelPtr unigram_from(const Fields& fields);

/// "a b" as the line of a merges.txt has it. Error(corrupt) for another form.
std::pair<std::string, std::string> merge_in(std::string_view line);

}  // namespace zoo::text
