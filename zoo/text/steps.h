#pragma once
// The steps around a tokenizer's model, each made from its JSON: what changes the text, cuts it into pieces, puts
// tokens around it, and joins tokens to text again.
// Errors of all make_ functions: Error(unsupported) naming a kind or a field that is not here; Error(corrupt).
// Thread safety: the functions that are returned are pure.
// Use: Normalizer lower = make_normalizer(json.at("normalizer")); lower("ABC") == "abc";

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/json.h"

namespace zoo::text {

using Normalizer = std::function<std::string(std::string text)>;
Normalizer make_normalizer(ckpt::JsonView json);

/// A part of the text. `first`: the text begins with it.
struct Piece {
  std::string text;
  bool first = false;
};
using PreTokenizer = std::function<std::vector<Piece>(std::vector<Piece> pieces)>;
PreTokenizer make_pre_tokenizer(ckpt::JsonView json);

using PostProcessor = std::function<std::vector<std::int64_t>(std::vector<std::int64_t> ids)>;
PostProcessor make_post_processor(ckpt::JsonView json);

using Decoder = std::function<std::vector<std::string>(std::vector<std::string> tokens)>;
Decoder make_decoder(ckpt::JsonView json);

/// Each byte as a character that can be seen, as GPT-2 writes it: ' ' is U+0120.
std::string visible_bytes(std::string_view bytes);
/// The other way; false when a character stands for no byte.
bool try_bytes_of(std::string_view visible, std::string& bytes);

/// A Normalizer, PreTokenizer, ... that is a sequence of others.
template <class Step>
Step in_turn(std::vector<Step> steps) {
  return [steps = std::move(steps)](auto value) {
    for (const Step& step : steps) value = step(std::move(value));
    return value;
  };
}

}  // namespace zoo::text
