#include <algorithm>
#include <queue>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/token_model.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;

struct Merge {
  std::size_t rank = 0;
  std::int64_t id = 0;
};

/// A token on its way: the ones beside it, and whether it has been merged into another.
struct Symbol {
  std::int64_t id = 0;
  std::ptrdiff_t before = -1;
  std::ptrdiff_t after = -1;
  bool gone = false;
};

/// A merge that could be made; the lowest rank first, then the leftmost.
struct Candidate {
  std::size_t rank = 0;
  std::size_t at = 0;
  std::int64_t id = 0;
  bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
};

class Bpe final : public TokenModel {
 public:
  Bpe(Vocabulary vocabulary, const MergePairs& merges, BpeOptions options);
  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const override;

 private:
  static std::uint64_t key(std::int64_t left, std::int64_t right) {
    return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint64_t>(right);
  }
  const Merge* merge_of(std::int64_t left, std::int64_t right) const {
    const auto found = merges_.find(key(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }
  std::vector<Symbol> symbols_of(std::string_view piece) const;
  void merge_all(std::vector<Symbol>& symbols) const;

  BpeOptions options_;
  std::unordered_map<std::uint64_t, Merge> merges_;
};

Bpe::Bpe(Vocabulary vocabulary, const MergePairs& merges, BpeOptions options)
    : TokenModel(std::move(vocabulary)), options_(std::move(options)) {
  const Vocabulary& tokens = this->vocabulary();
  const auto known = [&](const std::string& text) {
    const auto id = tokens.id_of(text);
    if (!id) throw Error(ErrorCode::corrupt, "a merge has " + core::quote(text, 60) + ", which the vocabulary has not");
    return *id;
  };
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const std::int64_t first = known(left);
    const std::int64_t second = known(right);
    const std::string whole = left + right.substr(std::min(options_.prefix.size(), right.size()));
    merges_[key(first, second)] = {rank, known(whole)};
  }
}

std::vector<Symbol> Bpe::symbols_of(std::string_view piece) const {
  std::vector<Symbol> symbols;
  std::optional<std::int64_t> unknown;
  const auto add = [&](std::int64_t id) {
    const auto at = static_cast<std::ptrdiff_t>(symbols.size());
    if (at > 0) symbols.back().after = at;
    symbols.push_back({.id = id, .before = at - 1});
  };
  for (const Point& point : points(piece)) {
    const std::string_view bytes = piece.substr(point.begin, point.end - point.begin);
    std::string text = (point.begin == 0 ? "" : options_.prefix) + std::string(bytes);
    if (point.end == piece.size()) text += options_.suffix;
    if (const auto id = vocabulary().id_of(text)) {
      if (unknown) add(*unknown);
      unknown.reset();
      add(*id);
      continue;
    }
    if (options_.byte_fallback) {
      if (const auto ids = vocabulary().ids_of_bytes(text)) {
        for (std::int64_t id : *ids) add(id);
        continue;
      }
    }
    if (options_.unknown.empty()) continue;
    if (unknown && !options_.fuse_unknown) add(*unknown);
    unknown = vocabulary().id_of(options_.unknown);
    if (!unknown)
      throw Error(ErrorCode::unsupported,
                  "the vocabulary has no " + core::quote(options_.unknown) + " for unknown characters");
  }
  if (unknown) add(*unknown);
  return symbols;
}

void Bpe::merge_all(std::vector<Symbol>& symbols) const {
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::ptrdiff_t left, std::ptrdiff_t right) {
    if (left < 0 || right < 0) return;
    const Merge* merge =
        merge_of(symbols[static_cast<std::size_t>(left)].id, symbols[static_cast<std::size_t>(right)].id);
    if (merge != nullptr) queue.push({merge->rank, static_cast<std::size_t>(left), merge->id});
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
    offer(static_cast<std::ptrdiff_t>(i), static_cast<std::ptrdiff_t>(i + 1));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.at];
    if (left.gone || left.after < 0) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.after)];
    const Merge* merge = merge_of(left.id, right.id);
    if (merge == nullptr || merge->id != best.id) continue;  // one of the two has changed since
    left.id = best.id;
    left.after = right.after;
    right.gone = true;
    const auto at = static_cast<std::ptrdiff_t>(best.at);
    if (left.after >= 0) symbols[static_cast<std::size_t>(left.after)].before = at;
    offer(left.before, at);
    offer(at, left.after);
  }
}

void Bpe::encode(std::string_view piece, std::vector<std::int64_t>& ids) const {
  if (options_.ignore_merges) {
    if (const auto id = vocabulary().id_of(piece)) {
      ids.push_back(*id);
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(piece);
  merge_all(symbols);
  for (const Symbol& symbol : symbols) {
    if (!symbol.gone) ids.push_back(symbol.id);
  }
}

}  // namespace

TokenModelPtr make_bpe(Vocabulary vocabulary, const MergePairs& merges, BpeOptions options) {
  return std::make_shared<Bpe>(std::move(vocabulary), merges, std::move(options));
}

std::pair<std::string, std::string> merge_in(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw Error(ErrorCode::corrupt, "the merge " + core::quote(line, 60) + " is not two tokens with a space between");
  }
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

TokenModelPtr bpe_from(const Fields& fields) {
  if (fields.has("dropout") &&
      (!fields.at("dropout").is(ckpt::JsonView::Kind::real) || fields.at("dropout").as_real() != 0)) {
    throw Error(ErrorCode::unsupported, "the model has a dropout of merges, which makes tokens random and is not here");
  }
  MergePairs merges;
  for (const ckpt::JsonView& merge : fields.list("merges")) {
    if (merge.is(ckpt::JsonView::Kind::text)) {
      merges.push_back(merge_in(merge.as_text()));
      continue;
    }
    const auto pair = merge.is(ckpt::JsonView::Kind::array) ? merge.items() : std::vector<ckpt::JsonView>();
    if (pair.size() != 2) throw Error(ErrorCode::corrupt, "a merge is neither a text nor a pair of texts");
    merges.emplace_back(text_of(pair[0], "a merge"), text_of(pair[1], "a merge"));
  }
  BpeOptions options;
  options.unknown = fields.text_or("unk_token", "");
  options.prefix = fields.text_or("continuing_subword_prefix", "");
  options.suffix = fields.text_or("end_of_word_suffix", "");
  options.fuse_unknown = fields.flag_or("fuse_unk", false);
  options.byte_fallback = fields.flag_or("byte_fallback", false);
  options.ignore_merges = fields.flag_or("ignore_merges", false);
  return make_bpe(Vocabulary::from_json(fields.at("vocab")), merges, std::move(options));
}

}  // namespace zoo::text
