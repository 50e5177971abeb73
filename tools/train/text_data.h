#pragma once
// A text as numbers: its different characters (code points), sorted, are the symbols.
// Thread safety: plain values. Use: train::TextData text = train::load_text("book.txt");

#include <cstdint>
#include <string>
#include <vector>

namespace train {

class Symbols {
 public:
  Symbols() = default;
  /// Of a text in UTF-8. Error(corrupt) for anything else.
  explicit Symbols(const std::string& text);

  std::int64_t count() const { return static_cast<std::int64_t>(points_.size()); }
  /// Error(usage) naming the first character that is no symbol.
  std::vector<std::int64_t> encode(const std::string& text) const;
  std::string decode(const std::vector<std::int64_t>& codes) const;
  /// All of them as a text.
  std::string text() const;

 private:
  std::vector<char32_t> points_;  ///< sorted
};

struct TextData {
  std::string source;
  Symbols symbols;
  std::vector<std::int64_t> train;  ///< the first nine tenths
  std::vector<std::int64_t> held;
};

/// With `known`, those are the symbols, and all of the text is held. Errors: Error(io); Error(corrupt) for a text that
/// is no UTF-8; Error(usage) for one that is too short to learn from `length` characters at a time, and for a character
/// that is not known.
TextData load_text(const std::string& file, std::int64_t length, const Symbols* known = nullptr);

}  // namespace train
