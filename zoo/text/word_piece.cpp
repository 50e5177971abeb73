#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/token_model.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

std::int64_t unknown_in(const Vocabulary& vocabulary, const std::string& unknown) {
  const auto id = vocabulary.id_of(unknown);
  if (id) return *id;
  throw core::Error(core::ErrorCode::unsupported,
                    "the vocabulary has no " + core::quote(unknown) + " for unknown words");
}

/// The longest token that a word begins with, then the longest of the rest, which has a prefix.
class WordPiece final : public TokenModel {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options)
      : TokenModel(std::move(vocabulary)), options_(std::move(options)) {}

  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const override {
    std::vector<std::int64_t> found;
    const std::vector<Point> chars = points(piece);
    std::size_t from = chars.size() > options_.longest ? chars.size() : 0;
    while (from < chars.size()) {
      std::size_t to = chars.size();
      std::optional<std::int64_t> id;
      for (; to > from; --to) {
        const std::string_view part = piece.substr(chars[from].begin, chars[to - 1].end - chars[from].begin);
        id = from == 0 ? vocabulary().id_of(part) : vocabulary().id_of(options_.prefix + std::string(part));
        if (id) break;
      }
      if (!id) {
        found.clear();
        break;
      }
      found.push_back(*id);
      from = to;
    }
    if (found.empty()) found.push_back(unknown_in(vocabulary(), options_.unknown));
    ids.insert(ids.end(), found.begin(), found.end());
  }

 private:
  WordPieceOptions options_;
};

/// A word is a token or unknown.
class WordLevel final : public TokenModel {
 public:
  WordLevel(Vocabulary vocabulary, std::string unknown)
      : TokenModel(std::move(vocabulary)), unknown_(std::move(unknown)) {}

  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const override {
    const auto id = vocabulary().id_of(piece);
    ids.push_back(id ? *id : unknown_in(vocabulary(), unknown_));
  }

 private:
  std::string unknown_;
};

}  // namespace

TokenModelPtr make_word_piece(Vocabulary vocabulary, WordPieceOptions options) {
  return std::make_shared<WordPiece>(std::move(vocabulary), std::move(options));
}

TokenModelPtr word_piece_from(const Fields& fields) {
  WordPieceOptions options;
  options.unknown = fields.text_or("unk_token", options.unknown);
  options.prefix = fields.text_or("continuing_subword_prefix", options.prefix);
  options.longest = fields.count_or("max_input_chars_per_word", options.longest);
  return make_word_piece(Vocabulary::from_json(fields.at("vocab")), std::move(options));
}

TokenModelPtr word_level_from(const Fields& fields) {
  return std::make_shared<WordLevel>(Vocabulary::from_json(fields.at("vocab")), fields.text("unk_token"));
}

}  // namespace zoo::text
