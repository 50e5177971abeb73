// GGUF's tokenizer as the files of a Hugging Face folder.

#include <algorithm>
#include <map>
#include <optional>

#include "libckpt/hub/gguf_tokenizer.h"
#include "libckpt/hub/sentence_pieces.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kWordBlank = "\xe2\x96\x81";

core::ByteVector bytes_of(std::string_view text) {
  core::ByteVector out;
  core::append(out, core::as_bytes(text));
  return out;
}

/// The lists of a tokenizer, of one length.
struct StoredTokens {
  std::vector<SentencePiece> tokens;

  explicit StoredTokens(const GgufValues& values) {
    const std::vector<std::string> texts = values.texts("tokenizer.ggml.tokens");
    const std::vector<double> scores = values.numbers("tokenizer.ggml.scores");
    const std::vector<double> types = values.numbers("tokenizer.ggml.token_type");
    const bool fits =
        (scores.empty() || scores.size() == texts.size()) && (types.empty() || types.size() == texts.size());
    if (!fits) throw Error(ErrorCode::corrupt, "the lists of tokens, scores and types differ in length");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const double type = types.empty() ? 1 : types[i];
      if (!(type >= 0 && type <= 6))
        throw Error(ErrorCode::corrupt, "a token has the type " + core::python_float(type));
      tokens.push_back({texts[i], scores.empty() ? 0 : static_cast<float>(scores[i]),
                        type < 1 ? TokenType::normal : static_cast<TokenType>(static_cast<int>(type))});
    }
  }
  std::string text_of(std::optional<double> id) const {
    const bool there = id && *id >= 0 && *id < static_cast<double>(tokens.size());
    return there ? tokens[static_cast<std::size_t>(*id)].text : "";
  }
};

/// "[PAD12]" at place 12 is a token that nothing uses.
bool is_padding(const SentencePiece& token) {
  return token.type == TokenType::unused && token.text.starts_with("[PAD");
}

bool is_added(const SentencePiece& token) {
  return token.type == TokenType::control || token.type == TokenType::user_defined || token.type == TokenType::unknown;
}

void write_added(JsonWriter& json, const StoredTokens& stored) {
  json.key("added_tokens").begin_array();
  for (std::size_t i = 0; i < stored.tokens.size(); ++i) {
    if (!is_added(stored.tokens[i])) continue;
    json.begin_object().key("id").value(static_cast<std::uint64_t>(i)).key("content").value(stored.tokens[i].text);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) json.key(flag).value(false);
    json.key("special").value(stored.tokens[i].type != TokenType::user_defined).end_object();
  }
  json.end_array();
}

void write_byte_level(JsonWriter& json, bool pattern) {
  json.begin_object().key("type").value("ByteLevel").key("add_prefix_space").value(false);
  json.key("trim_offsets").value(true).key("use_regex").value(pattern).end_object();
}

void write_pre_tokenizer(JsonWriter& json, const PreTokenizer& pre) {
  json.key("pre_tokenizer");
  if (pre.pattern.empty() && !pre.single_digits) return write_byte_level(json, true);
  json.begin_object().key("type").value("Sequence").key("pretokenizers").begin_array();
  json.begin_object();
  if (pre.single_digits) {
    json.key("type").value("Digits").key("individual_digits").value(true);
  } else {
    json.key("type").value("Split").key("pattern").begin_object().key("Regex").value(pre.pattern).end_object();
    json.key("behavior").value("Isolated").key("invert").value(false);
  }
  json.end_object();
  write_byte_level(json, pre.pattern.empty());
  json.end_array().end_object();
}

void write_template_token(JsonWriter& json, const std::string& token, int type) {
  json.begin_object().key("SpecialToken").begin_object().key("id").value(token);
  json.key("type_id").value(type).end_object().end_object();
}

void write_sequence(JsonWriter& json, const char* which, int type) {
  json.begin_object().key("Sequence").begin_object().key("id").value(which);
  json.key("type_id").value(type).end_object().end_object();
}

/// What is put around a text: tokens by their ids in the metadata.
struct Around {
  std::string first, last;
  double first_id = 0, last_id = 0;

  Around(const GgufValues& values, const StoredTokens& stored) {
    if (values.flag("tokenizer.ggml.add_bos_token").value_or(false)) {
      first_id = values.number("tokenizer.ggml.bos_token_id").value_or(-1);
      first = stored.text_of(first_id);
    }
    if (values.flag("tokenizer.ggml.add_eos_token").value_or(false)) {
      last_id = values.number("tokenizer.ggml.eos_token_id").value_or(-1);
      last = stored.text_of(last_id);
    }
  }
  bool empty() const { return first.empty() && last.empty(); }
};

void write_template(JsonWriter& json, const Around& around, bool separates) {
  json.begin_object().key("type").value("TemplateProcessing");
  for (const bool pair : {false, true}) {
    json.key(pair ? "pair" : "single").begin_array();
    if (!around.first.empty()) write_template_token(json, around.first, 0);
    write_sequence(json, "A", 0);
    if (!around.last.empty()) write_template_token(json, around.last, 0);
    if (pair) {
      if (!separates && !around.first.empty()) write_template_token(json, around.first, 1);
      write_sequence(json, "B", 1);
      if (!around.last.empty()) write_template_token(json, around.last, 1);
    }
    json.end_array();
  }
  json.key("special_tokens").begin_object();
  auto token = [&](const std::string& text, double id) {
    if (text.empty()) return;
    json.key(text).begin_object().key("id").value(text).key("ids").begin_array();
    json.value(static_cast<std::int64_t>(id)).end_array().key("tokens").begin_array().value(text).end_array();
    json.end_object();
  };
  token(around.first, around.first_id);
  if (around.last != around.first) token(around.last, around.last_id);
  json.end_object().end_object();
}

void write_vocabulary(JsonWriter& json, const std::vector<SentencePiece>& tokens, bool word_pieces) {
  json.key("vocab").begin_object();
  std::map<std::string, bool> seen;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (is_padding(tokens[i]) || tokens[i].type == TokenType::user_defined) continue;
    std::string text = tokens[i].text;
    const bool control = is_added(tokens[i]);
    if (word_pieces && !control) text = text.starts_with(kWordBlank) ? text.substr(kWordBlank.size()) : "##" + text;
    if (!seen.emplace(text, true).second) continue;
    json.key(text).value(static_cast<std::uint64_t>(i));
  }
  json.end_object();
}

void begin_tokenizer(JsonWriter& json, const StoredTokens& stored) {
  json.begin_object().key("version").value("1.0").key("truncation").null().key("padding").null();
  write_added(json, stored);
}

std::string byte_level_json(const GgufValues& values, const StoredTokens& stored, const PreTokenizer& pre) {
  JsonWriter json;
  begin_tokenizer(json, stored);
  json.key("normalizer");
  pre.name.starts_with("qwen") ? json.begin_object().key("type").value("NFC").end_object() : json.null();
  write_pre_tokenizer(json, pre);
  const Around around(values, stored);
  json.key("post_processor");
  if (around.empty()) {
    write_byte_level(json, true);
  } else {
    json.begin_object().key("type").value("Sequence").key("processors").begin_array();
    write_byte_level(json, true);
    write_template(json, around, false);
    json.end_array().end_object();
  }
  json.key("decoder");
  write_byte_level(json, true);
  json.key("model").begin_object().key("type").value("BPE").key("dropout").null().key("unk_token").null();
  json.key("continuing_subword_prefix").null().key("end_of_word_suffix").null().key("fuse_unk").value(false);
  json.key("byte_fallback").value(false).key("ignore_merges").value(pre.ignore_merges);
  write_vocabulary(json, stored.tokens, false);
  json.key("merges").begin_array();
  for (const std::string& merge : values.texts("tokenizer.ggml.merges")) json.value(merge);
  json.end_array().end_object().end_object();
  return json.take();
}

std::string word_piece_json(const GgufValues& values, const StoredTokens& stored) {
  const bool lowercase = values.flag("tokenizer.ggml.normalizer.lowercase").value_or(true);
  const std::string unknown = stored.text_of(values.number("tokenizer.ggml.unknown_token_id"));
  JsonWriter json;
  begin_tokenizer(json, stored);
  json.key("normalizer").begin_object().key("type").value("BertNormalizer").key("clean_text").value(true);
  json.key("handle_chinese_chars").value(true).key("strip_accents");
  std::optional<bool> strip = values.flag("tokenizer.ggml.normalizer.strip_accents");
  strip ? json.value(*strip) : json.null();
  json.key("lowercase").value(lowercase).end_object();
  json.key("pre_tokenizer").begin_object().key("type").value("BertPreTokenizer").end_object();
  json.key("post_processor");
  const Around around(values, stored);
  around.empty() ? json.null() : (write_template(json, around, true), json);
  json.key("decoder").begin_object().key("type").value("WordPiece").key("prefix").value("##");
  json.key("cleanup").value(true).end_object();
  json.key("model").begin_object().key("type").value("WordPiece").key("unk_token");
  json.value(unknown.empty() ? "[UNK]" : unknown).key("continuing_subword_prefix").value("##");
  json.key("max_input_chars_per_word").value(100);
  write_vocabulary(json, stored.tokens, true);
  json.end_object().end_object();
  return json.take();
}

/// Tokens that T5 fills gaps with: they have numbers behind the pieces, and no texts in a GGUF file.
void write_extra_ids(JsonWriter& json, std::size_t count) {
  json.key("extra_ids").value(static_cast<std::uint64_t>(count)).key("additional_special_tokens").begin_array();
  for (std::size_t i = 0; i < count; ++i) json.value("<extra_id_" + std::to_string(i) + ">");
  json.end_array();
}

std::string settings_json(const GgufValues& values, const StoredTokens& stored, const char* hub_class,
                          std::optional<std::size_t> extra_ids = {}) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"bos", "bos"}, {"eos", "eos"}, {"unknown", "unk"}, {"padding", "pad"}, {"mask", "mask"}};
  JsonWriter json(2);
  json.begin_object().key("tokenizer_class").value(hub_class);
  const bool bert = std::string_view(hub_class) == "BertTokenizer";
  for (const auto& [key, name] : kNames) {
    const std::string text = stored.text_of(values.number("tokenizer.ggml." + std::string(key) + "_token_id"));
    std::string field = std::string(name) + "_token";
    if (bert && name == "bos") field = "cls_token";
    if (bert && name == "eos") field = "sep_token";
    if (!text.empty()) json.key(field).value(text);
  }
  for (const char* name : {"bos", "eos"}) {
    const std::string field = "add_" + std::string(name) + "_token";
    std::optional<bool> added = values.flag("tokenizer.ggml." + field);
    if (added && !bert) json.key(field).value(*added);
  }
  if (extra_ids) write_extra_ids(json, *extra_ids);
  if (bert) json.key("do_lower_case").value(values.flag("tokenizer.ggml.normalizer.lowercase").value_or(true));
  std::optional<bool> space = values.flag("tokenizer.ggml.add_space_prefix");
  if (space && !extra_ids) json.key("add_prefix_space").value(*space);
  if (std::optional<std::string> chat = values.text("tokenizer.chat_template")) json.key("chat_template").value(*chat);
  return json.end_object().take() + "\n";
}

/// All but the padding behind them; tokens that were added lie among the pieces.
std::vector<SentencePiece> pieces_of(const StoredTokens& stored) {
  std::vector<SentencePiece> pieces;
  for (const SentencePiece& token : stored.tokens) {
    pieces.push_back(token);
    if (token.text == "<unk>" && token.type == TokenType::control) pieces.back().type = TokenType::unknown;
  }
  while (!pieces.empty() && is_padding(pieces.back())) pieces.pop_back();
  return pieces;
}

std::vector<HubFile> sentence_files(const GgufValues& values, const StoredTokens& stored) {
  const bool space = values.flag("tokenizer.ggml.add_space_prefix").value_or(true);
  const SentenceModel model{.pieces = pieces_of(stored), .unigram = false, .add_space = space, .remove_blanks = false};
  return {{"tokenizer.model", write_sentence_model(model)},
          {"tokenizer_config.json", bytes_of(settings_json(values, stored, "LlamaTokenizer"))}};
}

/// Of T5, whose tokenizer in transformers has 100 tokens for gaps where there are rows for them.
std::vector<HubFile> unigram_files(const GgufValues& values, const StoredTokens& stored) {
  constexpr std::size_t kMostExtraIds = 100;
  SentenceModel model{.pieces = pieces_of(stored)};
  model.add_space = values.flag("tokenizer.ggml.add_space_prefix").value_or(true);
  model.remove_blanks = values.flag("tokenizer.ggml.remove_extra_whitespaces").value_or(true);
  for (const double byte : values.numbers("tokenizer.ggml.precompiled_charsmap")) {
    if (!(byte >= 0 && byte <= 255)) {
      throw Error(ErrorCode::corrupt, "the metadata value 'tokenizer.ggml.precompiled_charsmap' is no list of bytes");
    }
    model.charsmap.push_back(static_cast<std::byte>(static_cast<std::uint8_t>(byte)));
  }
  const std::size_t extra_ids = std::min(kMostExtraIds, stored.tokens.size() - model.pieces.size());
  return {{"spiece.model", write_sentence_model(model)},
          {"tokenizer_config.json", bytes_of(settings_json(values, stored, "T5Tokenizer", extra_ids))}};
}

}  // namespace

std::vector<HubFile> tokenizer_files(const GgufValues& values, std::vector<std::string>& notes) {
  const std::string model = values.text("tokenizer.ggml.model").value_or("none");
  const std::string pre = values.text("tokenizer.ggml.pre").value_or("default");
  const StoredTokens stored(values);
  const PreTokenizer* cut = find_pre_tokenizer(pre);
  if (stored.tokens.empty()) {
    notes.emplace_back("the file has no tokenizer, so the folder has none");
    return {};
  }
  if (model == "llama") return sentence_files(values, stored);
  if (model == "t5" && values.text("general.architecture") == "t5") return unigram_files(values, stored);
  if (model == "bert") {
    return {{"tokenizer.json", bytes_of(word_piece_json(values, stored))},
            {"tokenizer_config.json", bytes_of(settings_json(values, stored, "BertTokenizer"))}};
  }
  if (model == "gpt2" && cut != nullptr) {
    return {{"tokenizer.json", bytes_of(byte_level_json(values, stored, *cut))},
            {"tokenizer_config.json", bytes_of(settings_json(values, stored, "PreTrainedTokenizerFast"))}};
  }
  notes.push_back("the tokenizer (" + core::printable(model) + ", " + core::printable(pre) +
                  ") cannot be made again here: the folder has none; take its files from the model's first folder");
  return {};
}

}  // namespace ckpt::detail
