#include "libckpt/hub/gguf_tokenizer.h"

#include <algorithm>
#include <map>
#include <set>

#include "libckpt/hub/sentence_pieces.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using Kind = JsonView::Kind;

constexpr std::string_view kBlank = "\xe2\x96\x81";  // U+2581, which stands for a space
constexpr std::int64_t kMostTokens = 1 << 24;
constexpr float kAddedScore = -1000;
constexpr float kUnusedScore = -10000;

/// Names of gguf-py for ids of tokens that have another name in transformers.
constexpr std::pair<std::string_view, std::string_view> kIdKeys[] = {
    {"bos", "bos"},     {"eos", "eos"},   {"unk", "unknown"}, {"sep", "seperator"},
    {"pad", "padding"}, {"mask", "mask"}, {"eot", "eot"}};
constexpr std::string_view kAddedKeys[] = {"bos", "eos", "sep"};

struct Token {
  std::string text;
  float score = 0;
  TokenType type = TokenType::normal;
};

using Tokens = std::vector<Token>;

/// "model" of tokenizer.json, or an empty name.
std::string model_type(const TokenizerFiles& files) {
  std::optional<JsonView> model = files.tokenizer ? member(files.tokenizer->root(), "model") : std::nullopt;
  if (!model) return "";
  const std::string type = member_text(*model, "type").value_or("");
  return type.empty() && model->has("merges") ? "BPE" : type;
}

bool falls_back_to_bytes(const TokenizerFiles& files) {
  std::optional<JsonView> model = member(files.tokenizer->root(), "model");
  return model && member_flag(*model, "byte_fallback");
}

/// Whole texts that control a model although their files do not say so.
bool looks_special(std::string_view text) {
  constexpr std::string_view kWide = "\xef\xbd\x9c";  // the full-width '|'
  auto between = [&](const std::string& begin, const std::string& end) {
    return text.starts_with(begin) && text.ends_with(end);
  };
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" || between("<|", "|>") ||
         between("<" + std::string(kWide), std::string(kWide) + ">") || between("<unused", ">");
}

std::string with_spaces(std::string text) {
  for (std::size_t at = text.find(kBlank); at != std::string::npos; at = text.find(kBlank, at + 1)) {
    text.replace(at, kBlank.size(), " ");
  }
  return text;
}

/// A token that was added to the vocabulary.
struct AddedToken {
  std::int64_t id = 0;
  std::string text;
  bool special = false;
};

std::vector<AddedToken> added_tokens(const TokenizerFiles& files) {
  std::vector<AddedToken> out;
  std::optional<JsonView> list = member(files.tokenizer->root(), "added_tokens");
  if (!list || !list->is(Kind::array)) return out;
  for (const JsonView& token : list->items()) {
    std::optional<JsonView> id = member(token, "id");
    std::optional<std::string> text = member_text(token, "content");
    if (!id || !id->is_count() || !text) {
      throw Error(ErrorCode::corrupt, "tokenizer.json has an added token without 'id' or 'content'");
    }
    out.push_back({id->as_integer(), *text, member_flag(token, "special")});
  }
  return out;
}

/// Texts and ids of "vocab".
std::vector<std::pair<std::string, std::int64_t>> vocabulary(const TokenizerFiles& files) {
  std::vector<std::pair<std::string, std::int64_t>> out;
  JsonView vocab = files.tokenizer->root().at("model").at("vocab");
  if (!vocab.is(Kind::object)) throw Error(ErrorCode::corrupt, "tokenizer.json has a 'vocab' that is no object");
  for (const auto& [text, id] : vocab.members()) {
    if (!id.is_count()) throw Error(ErrorCode::corrupt, "tokenizer.json has a token without a number");
    out.emplace_back(std::string(text), id.as_integer());
  }
  return out;
}

/// `count` tokens "[PAD7]" that nothing uses.
Tokens unused_tokens(std::int64_t count, float score) {
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back({"[PAD" + std::to_string(i) + "]", score, TokenType::unused});
  }
  return tokens;
}

std::int64_t size_for(std::int64_t needed, std::int64_t vocab_size) {
  if (needed > kMostTokens) {
    throw Error(ErrorCode::corrupt, "the tokenizer gives a token the number " + std::to_string(needed - 1));
  }
  if (vocab_size >= 0 && needed > vocab_size) {
    throw Error(ErrorCode::value, "the tokenizer has " + core::format_count(static_cast<std::uint64_t>(needed)) +
                                      " tokens, and the model " +
                                      core::format_count(static_cast<std::uint64_t>(vocab_size)));
  }
  return vocab_size >= 0 ? vocab_size : needed;
}

/// Of byte-level BPE and WordPiece.
Tokens plain_tokens(const TokenizerFiles& files, std::int64_t vocab_size) {
  const auto vocab = vocabulary(files);
  const std::vector<AddedToken> added = added_tokens(files);
  std::int64_t needed = 0;
  for (const auto& [text, id] : vocab) needed = std::max(needed, id + 1);
  for (const AddedToken& token : added) needed = std::max(needed, token.id + 1);
  Tokens tokens = unused_tokens(size_for(needed, vocab_size), 0);
  for (const auto& [text, id] : vocab) tokens[static_cast<std::size_t>(id)] = {text, 0, TokenType::normal};
  for (const AddedToken& token : added) {
    const bool control = token.special || looks_special(token.text);
    tokens[static_cast<std::size_t>(token.id)] = {control ? token.text : with_spaces(token.text), 0,
                                                  control ? TokenType::control : TokenType::user_defined};
  }
  return tokens;
}

bool is_byte_token(std::string_view text) {
  auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); };
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' && hex(text[3]) && hex(text[4]);
}

/// Texts of the tokens that tokenizer_config.json names: "bos_token" and so on.
std::set<std::string> named_specials(const TokenizerFiles& files) {
  std::set<std::string> out;
  if (!files.settings) return out;
  for (const auto& [name, value] : files.settings->root().members()) {
    if (name.ends_with("_token") && value.is(Kind::text)) out.emplace(value.as_text());
    if (name.ends_with("_token") && member_text(value, "content")) out.insert(*member_text(value, "content"));
    const bool list = name == "additional_special_tokens" || name == "extra_special_tokens";
    if (!list || !value.is(Kind::array)) continue;
    for (const JsonView& item : value.items()) {
      if (item.is(Kind::text)) out.emplace(item.as_text());
    }
  }
  return out;
}

/// Of BPE that falls back to bytes, without the scores of tokenizer.model.
Tokens byte_fallback_tokens(const TokenizerFiles& files, std::int64_t vocab_size) {
  Tokens tokens = plain_tokens(files, vocab_size);
  const std::set<std::string> specials = named_specials(files);
  std::set<std::int64_t> base;
  for (const auto& [text, id] : vocabulary(files)) base.insert(id);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    Token& token = tokens[id];
    token.score = kAddedScore;
    if (token.type == TokenType::unused) continue;
    const bool in_base = base.contains(static_cast<std::int64_t>(id));
    if (is_byte_token(token.text)) {
      token.type = TokenType::byte;
    } else if (specials.contains(token.text)) {
      token.type = TokenType::control;
    } else {
      token.type = in_base ? TokenType::normal : TokenType::user_defined;
    }
  }
  return tokens;
}

/// Tokens of "added_tokens_decoder" or "added_tokens", over those of tokenizer.model.
void put_added(Tokens& tokens, std::int64_t id, const std::string& text, bool special, bool guess) {
  if (id < 0 || static_cast<std::size_t>(id) >= tokens.size()) return;
  const bool control = special || (guess && looks_special(text));
  tokens[static_cast<std::size_t>(id)] = {control || !guess ? text : with_spaces(text), kAddedScore,
                                          control ? TokenType::control : TokenType::user_defined};
}

void put_named(Tokens& tokens, const TokenizerFiles& files, bool guess) {
  std::optional<JsonView> decoder =
      files.settings ? member(files.settings->root(), "added_tokens_decoder") : std::nullopt;
  if (!decoder || !decoder->is(Kind::object)) return;
  for (const auto& [number, token] : decoder->members()) {
    std::int64_t id = 0;
    for (char c : number) {
      if (c < '0' || c > '9' || id > kMostTokens) {
        throw Error(ErrorCode::corrupt,
                    "tokenizer_config.json has an added token with the number " + core::quote(number));
      }
      id = id * 10 + (c - '0');
    }
    put_added(tokens, id, member_text(token, "content").value_or(""), member_flag(token, "special"), guess);
  }
}

/// The pieces of a SentencePiece model, and over them those of added_tokens.json.
Tokens piece_tokens(const std::vector<SentencePiece>& pieces, const TokenizerFiles& files, std::int64_t vocab_size) {
  const auto count = static_cast<std::int64_t>(pieces.size());
  Tokens tokens = unused_tokens(vocab_size >= 0 ? vocab_size : count, kUnusedScore);
  for (std::size_t i = 0; i < std::min(pieces.size(), tokens.size()); ++i) {
    const bool user_defined = pieces[i].type == TokenType::user_defined;
    tokens[i] = {pieces[i].text, pieces[i].score, user_defined ? TokenType::normal : pieces[i].type};
  }
  if (files.added) {
    for (const auto& [text, id] : files.added->root().members()) {
      if (!id.is_count() || id.as_integer() >= static_cast<std::int64_t>(tokens.size())) continue;
      tokens[static_cast<std::size_t>(id.as_integer())] = {std::string(text), kAddedScore, TokenType::user_defined};
    }
  }
  return tokens;
}

/// `phi3`: the converter takes added tokens of tokenizer.json too, and their texts as they are.
Tokens sentence_tokens(const TokenizerFiles& files, std::int64_t vocab_size, bool phi3) {
  Tokens tokens = piece_tokens(read_sentence_model(*files.pieces).pieces, files, vocab_size);
  put_named(tokens, files, !phi3);
  if (phi3 && files.tokenizer) {
    for (const AddedToken& token : added_tokens(files)) put_added(tokens, token.id, token.text, token.special, false);
  }
  return tokens;
}

/// "a b" for a pair; spaces in parts as byte-level BPE writes them.
std::vector<std::string> merges_of(const TokenizerFiles& files) {
  std::vector<std::string> out;
  std::optional<JsonView> list = member(files.tokenizer->root().at("model"), "merges");
  if (!list || !list->is(Kind::array)) return out;
  auto part = [](std::string_view text) {
    std::string part_text;
    for (char c : text) c == ' ' ? part_text += "\xc4\xa0" : part_text += c;
    return part_text;
  };
  for (const JsonView& item : list->items()) {
    if (item.is(Kind::text)) {
      out.emplace_back(item.as_text());
      continue;
    }
    std::vector<JsonView> pair = item.is(Kind::array) ? item.items() : std::vector<JsonView>();
    if (pair.size() != 2 || !pair[0].is(Kind::text) || !pair[1].is(Kind::text)) {
      throw Error(ErrorCode::corrupt, "tokenizer.json has a merge that is no pair of texts");
    }
    out.push_back(part(pair[0].as_text()) + " " + part(pair[1].as_text()));
  }
  return out;
}

void add_tokens(GgufValues& values, const Tokens& tokens, bool scores) {
  std::vector<std::string> texts;
  std::vector<float> numbers;
  std::vector<std::int32_t> types;
  for (const Token& token : tokens) {
    texts.push_back(token.text);
    numbers.push_back(token.score);
    types.push_back(static_cast<std::int32_t>(token.type));
  }
  values.add_texts("tokenizer.ggml.tokens", texts);
  if (scores) values.add_floats("tokenizer.ggml.scores", numbers);
  values.add_integers("tokenizer.ggml.token_type", types);
}

void add_specials(GgufValues& values, const TokenizerFiles& files, std::optional<std::int64_t> count) {
  const SpecialTokens special = find_special_tokens(files, count);
  for (const auto& [type, id] : special.ids) {
    for (const auto& [known, key] : kIdKeys) {
      if (known == type) {
        values.add_u32("tokenizer.ggml." + std::string(key) + "_token_id", static_cast<double>(id));
      }
    }
  }
  for (const auto& [type, value] : special.added) {
    if (std::ranges::find(kAddedKeys, type) == std::end(kAddedKeys)) continue;
    values.add_flag("tokenizer.ggml.add_" + type + "_token", value);
  }
  if (files.chat_template) values.add_text("tokenizer.chat_template", *files.chat_template);
  if (special.lowercase) values.add_flag("tokenizer.ggml.normalizer.lowercase", *special.lowercase);
  if (special.strip_accents) values.add_flag("tokenizer.ggml.normalizer.strip_accents", *special.strip_accents);
}

void add_names(GgufValues& values, std::string_view model, std::string_view pre) {
  values.add_text("tokenizer.ggml.model", model);
  values.add_text("tokenizer.ggml.pre", pre);
}

void add_byte_level(GgufValues& values, const TokenizerFiles& files, std::int64_t vocab_size,
                    std::vector<std::string>& notes) {
  std::optional<JsonView> cut = member(files.tokenizer->root(), "pre_tokenizer");
  const PreTokenizer* pre = cut ? match_pre_tokenizer(*cut) : nullptr;
  if (pre == nullptr) {
    notes.push_back(
        "how tokenizer.json cuts text before BPE is not known here, so tokenizer.ggml.pre is 'default': llama.cpp may "
        "cut it otherwise; if you know its name there, set it with 'ckpt meta'");
  }
  add_names(values, "gpt2", pre == nullptr ? "default" : pre->name);
  add_tokens(values, plain_tokens(files, vocab_size), false);
  std::vector<std::string> merges = merges_of(files);
  if (!merges.empty()) values.add_texts("tokenizer.ggml.merges", merges);
  add_specials(values, files, std::nullopt);
}

void add_token_types(GgufValues& values, const TokenizerFiles& files) {
  std::optional<double> kinds = files.config ? files.config->number("type_vocab_size") : std::nullopt;
  values.add_u32("tokenizer.ggml.token_type_count", kinds.value_or(1));
}

void add_word_pieces(GgufValues& values, const TokenizerFiles& files, std::int64_t vocab_size) {
  add_token_types(values, files);
  Tokens tokens = plain_tokens(files, vocab_size);
  for (Token& token : tokens) {
    if (token.type == TokenType::control) continue;
    token.text = token.text.starts_with("##") ? token.text.substr(2) : std::string(kBlank) + token.text;
  }
  add_names(values, "bert", "bert-bge");
  const auto count = static_cast<std::int64_t>(tokens.size());
  add_tokens(values, tokens, false);
  add_specials(values, files, count);
}

void add_scored(GgufValues& values, const TokenizerFiles& files, const Tokens& tokens) {
  add_names(values, "llama", "default");
  add_tokens(values, tokens, true);
  add_specials(values, files, static_cast<std::int64_t>(tokens.size()));
}

/// Of T5, whose tokens are the likeliest pieces of a text.
void add_unigram(GgufValues& values, const TokenizerFiles& files, const SentenceModel& model, std::int64_t vocab_size) {
  const Tokens tokens = piece_tokens(model.pieces, files, vocab_size);
  add_names(values, "t5", "default");
  add_tokens(values, tokens, true);
  values.add_flag("tokenizer.ggml.add_space_prefix", model.add_space);
  values.add_flag("tokenizer.ggml.remove_extra_whitespaces", model.remove_blanks);
  if (!model.charsmap.empty()) values.add_bytes("tokenizer.ggml.precompiled_charsmap", model.charsmap);
  add_specials(values, files, static_cast<std::int64_t>(tokens.size()));
}

}  // namespace

void add_tokenizer(GgufValues& values, const TokenizerFiles& files, const GgufArchitecture& architecture,
                   std::int64_t vocab_size, std::vector<std::string>& notes) {
  const bool llama = architecture.name == "llama";
  if (architecture.name == "gemma2") values.add_flag("tokenizer.ggml.add_space_prefix", false);
  std::optional<JsonView> space =
      llama && files.settings ? member(files.settings->root(), "add_prefix_space") : std::nullopt;
  if (space && space->is(Kind::boolean)) values.add_flag("tokenizer.ggml.add_space_prefix", space->as_boolean());
  const std::string type = model_type(files);
  const bool unigram = architecture.name == "t5" && files.pieces && read_sentence_model(*files.pieces).unigram;
  if (unigram) {
    add_unigram(values, files, read_sentence_model(*files.pieces), vocab_size);
  } else if (files.pieces && architecture.sentence_pieces) {
    add_scored(values, files, sentence_tokens(files, vocab_size, architecture.name == "phi3"));
  } else if (type == "WordPiece") {
    add_word_pieces(values, files, vocab_size);
  } else if (type == "BPE" && falls_back_to_bytes(files)) {
    add_scored(values, files, byte_fallback_tokens(files, vocab_size));
  } else if (type == "BPE") {
    add_byte_level(values, files, vocab_size, notes);
    if (architecture.name == "bert") add_token_types(values, files);
  } else {
    values.add_text("tokenizer.ggml.model", "none");
    notes.push_back(files.tokenizer ? "tokenizer.json is of type " + core::quote(type) +
                                          ", which is not written here: the file has no tokenizer"
                                    : "the folder has no tokenizer.json: the file has no tokenizer");
    if (architecture.name == "t5" && files.tokenizer) notes.back() += ", which T5's spiece.model would give it";
  }
}

}  // namespace ckpt::detail
