#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/token_model.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;

constexpr double kUnknownPenalty = 10;

struct Scored {
  std::string text;
  double score = 0;
  std::int64_t id = 0;
};

/// Where the best way to a byte comes from.
struct Step {
  std::int64_t id = 0;
  double score = 0;
  std::ptrdiff_t from = -1;
};

/// The way through the text whose tokens' scores add up to the most.
class Unigram final : public TokenModel {
 public:
  Unigram(Vocabulary vocabulary, std::vector<Scored> tokens, std::optional<std::int64_t> unknown, bool byte_fallback)
      : TokenModel(std::move(vocabulary)),
        tokens_(std::move(tokens)),
        unknown_(unknown),
        byte_fallback_(byte_fallback) {
    lowest_ = std::numeric_limits<double>::infinity();
    for (const Scored& token : tokens_) lowest_ = std::min(lowest_, token.score);
    std::sort(tokens_.begin(), tokens_.end(), [](const Scored& a, const Scored& b) { return a.text < b.text; });
  }

  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const override;

 private:
  template <class See>
  void each_beginning(std::string_view rest, See see) const;
  std::vector<Step> best_steps(std::string_view piece) const;
  std::int64_t unknown() const {
    if (!unknown_)
      throw Error(ErrorCode::unsupported, "the text has a character that no token has, and the model no unknown token");
    return *unknown_;
  }

  std::vector<Scored> tokens_;  ///< by text
  std::optional<std::int64_t> unknown_;
  bool byte_fallback_;
  double lowest_ = 0;
};

/// Calls `see` with every token that `rest` begins with, the shortest first.
template <class See>
void Unigram::each_beginning(std::string_view rest, See see) const {
  auto begin = tokens_.begin();
  auto end = tokens_.end();
  for (std::size_t length = 1; length <= rest.size() && begin != end; ++length) {
    const auto byte = static_cast<unsigned char>(rest[length - 1]);
    const auto at = [&](const Scored& token) {
      return token.text.size() < length ? -1 : static_cast<int>(static_cast<unsigned char>(token.text[length - 1]));
    };
    begin = std::partition_point(begin, end, [&](const Scored& token) { return at(token) < byte; });
    end = std::partition_point(begin, end, [&](const Scored& token) { return at(token) == byte; });
    if (begin != end && begin->text.size() == length) see(*begin);
  }
}

std::vector<Step> Unigram::best_steps(std::string_view piece) const {
  std::vector<Step> best(piece.size() + 1);
  for (const Point& point : points(piece)) {
    const double here = best[point.begin].score;
    bool alone = false;
    const auto offer = [&](std::size_t to, double score, std::int64_t id) {
      Step& step = best[to];
      if (step.from >= 0 && score <= step.score) return;
      step = {id, score, static_cast<std::ptrdiff_t>(point.begin)};
    };
    each_beginning(piece.substr(point.begin), [&](const Scored& token) {
      const std::size_t to = point.begin + token.text.size();
      offer(to, token.score + here, token.id);
      alone = alone || to == point.end;
    });
    if (!alone) offer(point.end, lowest_ - kUnknownPenalty + here, unknown());
  }
  return best;
}

void Unigram::encode(std::string_view piece, std::vector<std::int64_t>& ids) const {
  const std::vector<Step> best = best_steps(piece);
  std::vector<std::string_view> parts;  // from the end; unknown ones that follow each other are one
  bool open = false;
  for (auto at = static_cast<std::ptrdiff_t>(piece.size()); at > 0;) {
    const Step& step = best[static_cast<std::size_t>(at)];
    const auto from = static_cast<std::size_t>(step.from);
    const bool is_unknown = unknown_ && step.id == *unknown_;
    if (is_unknown && open) {
      parts.back() = piece.substr(from, static_cast<std::size_t>(at) - from + parts.back().size());
    } else {
      parts.push_back(piece.substr(from, static_cast<std::size_t>(at) - from));
    }
    open = is_unknown;
    at = step.from;
  }
  std::reverse(parts.begin(), parts.end());
  for (std::string_view part : parts) {
    if (const auto id = vocabulary().id_of(part)) {
      ids.push_back(*id);
      continue;
    }
    const auto bytes = byte_fallback_ ? vocabulary().ids_of_bytes(part) : std::nullopt;
    if (bytes) {
      ids.insert(ids.end(), bytes->begin(), bytes->end());
    } else {
      ids.push_back(unknown());
    }
  }
}

}  // namespace

TokenModelPtr unigram_from(const Fields& fields) {
  Vocabulary vocabulary;
  std::vector<Scored> tokens;
  for (const ckpt::JsonView& row : fields.list("vocab")) {
    const auto pair = row.is(ckpt::JsonView::Kind::array) ? row.items() : std::vector<ckpt::JsonView>();
    using Kind = ckpt::JsonView::Kind;
    if (pair.size() != 2 || !pair[0].is(Kind::text) || (!pair[1].is(Kind::real) && !pair[1].is(Kind::integer))) {
      throw Error(ErrorCode::corrupt,
                  "token " + std::to_string(tokens.size()) + " of the vocabulary is not a text with its score");
    }
    const auto id = static_cast<std::int64_t>(tokens.size());
    tokens.push_back({std::string(pair[0].as_text()), pair[1].as_real(), id});
    vocabulary.add(tokens.back().text, id);
  }
  std::optional<std::int64_t> unknown;
  if (fields.has("unk_id")) {
    unknown = id_of(fields.at("unk_id"), "'unk_id' of the model");
    if (*unknown >= vocabulary.end())
      throw Error(ErrorCode::corrupt,
                  "'unk_id' of the model is past its " + core::format_count(tokens.size()) + " tokens");
  }
  return std::make_shared<Unigram>(std::move(vocabulary), std::move(tokens), unknown,
                                   fields.flag_or("byte_fallback", false));
}

TokenModelPtr make_token_model(ckpt::JsonView model) {
  const Fields any(model, "the model");
  // Files of the first years do not say the kind of a model.
  std::string kind = any.text_or("type", "");
  if (kind.empty()) kind = any.has("merges") ? "BPE" : any.has("unk_id") ? "Unigram" : "WordPiece";
  if (kind == "BPE") {
    return bpe_from(Fields(model, "the model",
                           {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                            "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  }
  if (kind == "WordPiece") {
    return word_piece_from(Fields(
        model, "the model", {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}));
  }
  if (kind == "WordLevel") return word_level_from(Fields(model, "the model", {"type", "unk_token", "vocab"}));
  if (kind == "Unigram") return unigram_from(Fields(model, "the model", {"type", "unk_id", "vocab", "byte_fallback"}));
  throw Error(ErrorCode::unsupported,
              "the model is of the kind " + core::quote(kind) + "; BPE, WordPiece, WordLevel and Unigram are here");
}

}  // namespace zoo::text
