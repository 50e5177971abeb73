#include "zoo/text/added_tokens.h"

#include <algorithm>

#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

bool ends_in_word(std::string_view text) {
  const std::vector<Point> chars = points(text);
  return !chars.empty() && is_word(chars.back().value);
}

bool begins_with_word(std::string_view text) {
  const std::vector<Point> chars = points(text);
  return !chars.empty() && is_word(chars.front().value);
}

std::size_t spaces_before(std::string_view text) {
  const std::vector<Point> chars = points(text);
  std::size_t at = chars.size();
  while (at > 0 && is_space(chars[at - 1].value)) --at;
  return at == chars.size() ? text.size() : chars[at].begin;
}

std::size_t spaces_behind(std::string_view text) {
  for (const Point& point : points(text)) {
    if (!is_space(point.value)) return point.begin;
  }
  return text.size();
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, Normalizer normalizer) : normalizer_(std::move(normalizer)) {
  for (AddedToken& token : tokens) {
    if (token.text.empty()) continue;
    const std::int64_t id = token.id;
    by_id_[id] = std::move(token);
  }
  for (const auto& [id, token] : by_id_) {
    const std::string text = token.normalized && normalizer_ ? normalizer_(token.text) : token.text;
    if (!text.empty()) (token.normalized ? normal_ : raw_)[text.front()].push_back({text, &token});
  }
  for (ByFirstByte* wanted : {&raw_, &normal_}) {  // the longest is looked for first
    for (auto& [byte, list] : *wanted) {
      std::stable_sort(list.begin(), list.end(),
                       [](const Wanted& a, const Wanted& b) { return a.text.size() > b.text.size(); });
    }
  }
}

std::vector<Cut> AddedTokens::cut_at(const std::string& text, bool first, const ByFirstByte& wanted) {
  const std::string_view all = text;
  std::vector<Cut> out;
  std::size_t done = 0;
  const auto between = [&](std::size_t end) {
    if (done < end) out.push_back({-1, {text.substr(done, end - done), first && done == 0}});
  };
  for (std::size_t at = 0; at < all.size();) {
    const auto list = wanted.find(all[at]);
    const Wanted* found = nullptr;
    if (list != wanted.end()) {
      const auto hit = std::find_if(list->second.begin(), list->second.end(),
                                    [&](const Wanted& one) { return all.substr(at).starts_with(one.text); });
      if (hit != list->second.end()) found = &*hit;
    }
    if (found == nullptr) {
      ++at;
      continue;
    }
    const AddedToken& token = *found->token;
    std::size_t begin = at;
    std::size_t end = at + found->text.size();
    at = end;
    if (token.single_word && (ends_in_word(all.substr(0, begin)) || begins_with_word(all.substr(end)))) continue;
    if (token.lstrip) begin = std::max(done, spaces_before(all.substr(0, begin)));
    if (token.rstrip) end += spaces_behind(all.substr(end));
    between(begin);
    out.push_back({token.id, {}});
    done = end;
  }
  between(all.size());
  return out;
}

std::vector<Cut> AddedTokens::cut(const std::string& text) const {
  std::vector<Cut> out;
  for (Cut& part : cut_at(text, true, raw_)) {
    if (part.id >= 0) {
      out.push_back(std::move(part));
      continue;
    }
    const std::string normal = normalizer_ ? normalizer_(part.piece.text) : part.piece.text;
    for (Cut& inner : cut_at(normal, part.piece.first, normal_)) out.push_back(std::move(inner));
  }
  return out;
}

const AddedToken* AddedTokens::find(std::int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

const AddedToken* AddedTokens::find(std::string_view text) const {
  for (const auto& [id, token] : by_id_) {
    if (token.text == text) return &token;
  }
  return nullptr;
}

}  // namespace zoo::text
