#include "zoo/text/tokenizer.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/parts.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";

/// Added tokens have the number that the model's vocabulary gives them, as the package has it.
std::vector<AddedToken> added_tokens_in(const Fields& root, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (!root.has("added_tokens")) return tokens;
  for (const ckpt::JsonView& json : root.list("added_tokens")) {
    tokens.push_back(added_token_from(json, std::nullopt));
    AddedToken& token = tokens.back();
    token.id = vocabulary.id_of(token.text).value_or(token.id);
    const std::string* other = vocabulary.text_of(token.id);
    if (other == nullptr || *other == token.text) continue;
    throw Error(ErrorCode::corrupt, "the added token " + core::quote(token.text, 60) + " has number " +
                                        std::to_string(token.id) + ", which the vocabulary gives to " +
                                        core::quote(*other, 60));
  }
  return tokens;
}

std::string text_of_token(const TokenizerParts& parts, std::int64_t id) {
  if (const AddedToken* token = parts.added.find(id)) return token->text;
  const std::string* text = parts.model->vocabulary().text_of(id);
  return text == nullptr ? std::string() : *text;
}

}  // namespace

AddedToken added_token_from(ckpt::JsonView json, std::optional<std::int64_t> id) {
  const Fields fields(json, "an added token",
                      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"});
  AddedToken token;
  token.text = fields.text("content");
  token.id = id ? *id : id_of(fields.at("id"), "'id' of the added token " + core::quote(token.text, 60));
  token.special = fields.flag_or("special", false);
  token.single_word = fields.flag_or("single_word", false);
  token.lstrip = fields.flag_or("lstrip", false);
  token.rstrip = fields.flag_or("rstrip", false);
  token.normalized = fields.flag_or("normalized", !token.special);
  return token;
}

Tokenizer Tokenizer::from_json(std::string_view text) {
  const ckpt::JsonDocument document = ckpt::JsonDocument::parse(text);
  const Fields root(document.root(), "the tokenizer",
                    {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                     "post_processor", "decoder", "model"});
  auto parts = std::make_shared<TokenizerParts>();
  parts->model = make_token_model(root.at("model"));
  Normalizer normalizer;
  if (root.has("normalizer")) normalizer = make_normalizer(root.at("normalizer"));
  if (root.has("pre_tokenizer")) parts->pre_tokenizer = make_pre_tokenizer(root.at("pre_tokenizer"));
  if (root.has("post_processor")) parts->post_processor = make_post_processor(root.at("post_processor"));
  if (root.has("decoder")) parts->decoder = make_decoder(root.at("decoder"));
  parts->added = AddedTokens(added_tokens_in(root, parts->model->vocabulary()), normalizer);
  return Tokenizer(std::move(parts));
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool special) const {
  std::vector<std::int64_t> ids;
  for (const Cut& part : parts_->added.cut(mend(text))) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    std::vector<Piece> pieces{part.piece};
    if (parts_->pre_tokenizer) pieces = parts_->pre_tokenizer(std::move(pieces));
    for (const Piece& piece : pieces) {
      if (!piece.text.empty()) parts_->model->encode(piece.text, ids);
    }
  }
  return special && parts_->post_processor ? parts_->post_processor(std::move(ids)) : ids;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (std::int64_t id : ids) {
    if (!token(id) || (skip_special && is_special(id))) continue;
    tokens.push_back(text_of_token(*parts_, id));
  }
  if (!parts_->decoder) return core::join(tokens, " ");
  return core::join(parts_->decoder(std::move(tokens)), "");
}

std::optional<std::int64_t> Tokenizer::id_of(std::string_view text) const {
  if (const AddedToken* added = parts_->added.find(text)) return added->id;
  return parts_->model->vocabulary().id_of(text);
}

std::optional<std::string> Tokenizer::token(std::int64_t id) const {
  if (parts_->added.find(id) == nullptr && parts_->model->vocabulary().text_of(id) == nullptr) return std::nullopt;
  return text_of_token(*parts_, id);
}

bool Tokenizer::is_special(std::int64_t id) const {
  const AddedToken* added = parts_->added.find(id);
  return added != nullptr && added->special;
}

std::int64_t Tokenizer::rows() const {
  return std::max(parts_->added.end(), parts_->model->vocabulary().end());
}

std::string whole_characters(std::string_view bytes) {
  return mend(bytes);
}

TextStream::TextStream(Tokenizer tokenizer, std::vector<std::int64_t> before)
    : tokenizer_(std::move(tokenizer)), ids_(std::move(before)), given_(count_points(tokenizer_.decode(ids_))) {}

std::string TextStream::rest(bool whole) {
  std::string all = tokenizer_.decode(ids_);
  if (!whole) {
    while (all.ends_with(kUnfinished)) all.erase(all.size() - kUnfinished.size());
  }
  // A token may make others of the characters before, which have been given out: those behind them count.
  const std::vector<Point> chars = points(all);
  if (chars.size() <= given_) return "";
  std::string more = all.substr(chars[given_].begin);
  given_ = chars.size();
  text_ += more;
  return more;
}

std::string TextStream::push(std::int64_t id) {
  ids_.push_back(id);
  // A run of tokens that are bytes is a text or none as a whole.
  const std::string token = tokenizer_.token(id).value_or("");
  if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) return "";
  return rest(false);
}

std::string TextStream::finish() {
  return rest(true);
}

}  // namespace zoo::text
