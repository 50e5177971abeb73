#pragma once
// Text as the numbers of tokens and back, as the `tokenizers` package and SentencePiece do it, from the files that lie
// beside a model: tokenizer.json; vocab.json with merges.txt; vocab.txt; a SentencePiece model.
// Thread safety: immutable. Use: auto t = zoo::text::Tokenizer::open("llama"); t.decode(t.encode("Hello")) == "Hello";

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zoo::text {

struct TokenizerParts;

class Tokenizer {
 public:
  /// A folder, or one of the files. Of several, tokenizer.json goes first. Errors: Error(unsupported) that lists the
  /// files looked for when there is none, and for what is not here (a kind of step, a field), by its name;
  /// Error(corrupt); Error(refused) for files past 256 MiB or JSON nested too deep.
  static Tokenizer open(const std::filesystem::path& path);
  /// Whether open() would find a file in this folder.
  static bool is_in(const std::filesystem::path& folder);
  /// The text of a tokenizer.json. "truncation" and "padding" count as not there, as in transformers.
  static Tokenizer from_json(std::string_view text);

  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

  /// `special`: with what the model expects around a text (<s>, [CLS]). Bytes that are no UTF-8 become U+FFFD. Errors:
  /// Error(unsupported) for a character that has no token in a model without an unknown one.
  std::vector<std::int64_t> encode(std::string_view text, bool special = true) const;
  /// Numbers that no token has are left out; and special tokens, unless they are wanted.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special = true) const;

  std::optional<std::int64_t> id_of(std::string_view token) const;
  /// As it stands in the vocabulary, not decoded: "Ġthe", "▁the".
  std::optional<std::string> token(std::int64_t id) const;
  bool is_special(std::int64_t id) const;
  /// How many rows of an embedding the numbers need: one past the largest.
  std::int64_t rows() const;

 private:
  std::shared_ptr<const TokenizerParts> parts_;
};

/// Bytes that are no UTF-8 become U+FFFD.
std::string whole_characters(std::string_view bytes);

/// Text that grows token by token and is given out in whole characters: what could still change waits.
/// Use: TextStream stream(tokenizer, ids); std::string more = stream.push(id); more = stream.finish();
class TextStream {
 public:
  /// `before`: tokens whose text is not given out.
  TextStream(Tokenizer tokenizer, std::vector<std::int64_t> before);
  /// What the token adds, "" while a character is not whole.
  std::string push(std::int64_t id);
  /// What waited.
  std::string finish();
  /// All that was given out.
  const std::string& text() const { return text_; }

 private:
  std::string rest(bool whole);

  Tokenizer tokenizer_;
  std::vector<std::int64_t> ids_;
  std::size_t given_ = 0;  ///< characters of the text before, and of what was given out
  std::string text_;
};

}  // namespace zoo::text
