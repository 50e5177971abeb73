#pragma once
// Tokens that are found in the text as they are written, before the model sees what lies between them.
// Thread safety: immutable once made. Use: AddedTokens added(list, normalizer); added.cut(text);

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "zoo/text/steps.h"

namespace zoo::text {

struct AddedToken {
  std::int64_t id = 0;
  std::string text = {};
  bool special = false;      ///< left out of decoded texts
  bool single_word = false;  ///< only where no letter is beside it
  bool lstrip = false;       ///< takes the spaces before it along
  bool rstrip = false;       ///< takes those behind it
  bool normalized = false;   ///< looked for in the text that the normalizer made
};

/// A part of a text: one added token, or text between them (id -1), normalized.
struct Cut {
  std::int64_t id = -1;
  Piece piece;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;  // no copies: what is looked for points to tokens
  /// `normalizer`: what all text goes through; null for none.
  AddedTokens(std::vector<AddedToken> tokens, Normalizer normalizer);

  std::vector<Cut> cut(const std::string& text) const;
  const AddedToken* find(std::int64_t id) const;
  const AddedToken* find(std::string_view text) const;
  /// One past the largest number.
  std::int64_t end() const { return by_id_.empty() ? 0 : by_id_.rbegin()->first + 1; }

 private:
  struct Wanted {
    std::string text;  ///< as it stands in the text
    const AddedToken* token = nullptr;
  };
  using ByFirstByte = std::map<char, std::vector<Wanted>>;

  static std::vector<Cut> cut_at(const std::string& text, bool first, const ByFirstByte& wanted);

  std::map<std::int64_t, AddedToken> by_id_;
  Normalizer normalizer_;
  ByFirstByte raw_;
  ByFirstByte normal_;
};

}  // namespace zoo::text
