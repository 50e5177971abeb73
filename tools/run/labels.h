#pragma once
// Names of classes and characters of tokens. Thread safety: pure functions.
// Use: std::vector<std::string> labels = read_labels("imagenet.txt");

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/value.h"

namespace cli {

/// One name a line (the last line may be empty); or JSON: a list of names, or an object with a member for each number
/// from 0: {"0": "tench"} or {"0": ["n01440764", "tench"]}. Errors: Error(io); Error(corrupt) for an empty list, or a
/// number that is missing.
std::vector<std::string> read_labels(const std::filesystem::path& path);

/// Tokens that are characters (or other short texts), by number.
class Vocabulary {
 public:
  explicit Vocabulary(std::vector<std::string> tokens);
  std::size_t size() const { return tokens_.size(); }
  bool empty() const { return tokens_.empty(); }
  const std::string& token(std::int64_t id) const { return tokens_.at(static_cast<std::size_t>(id)); }
  /// Error(usage) naming a character that it does not have.
  std::vector<std::int64_t> encode(std::string_view text) const;

 private:
  std::vector<std::string> tokens_;
  std::map<std::string, std::int64_t, std::less<>> ids_;
};

/// The distinct characters of a text in the order of their code points. Error(corrupt) for a file that is no UTF-8.
Vocabulary characters_of(const std::filesystem::path& path);

/// The one that a checkpoint carries, empty when there is none: a dict "stoi" of text to number, a dict or list "itos",
/// or a list or text "chars", "vocab" or "vocabulary", at the top or in a dict "meta" there.
Vocabulary vocabulary_in(const ckpt::Value& root);

}  // namespace cli
