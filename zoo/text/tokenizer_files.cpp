// Which files of a folder make a tokenizer. What vocab.json with merges.txt, or vocab.txt, leaves unsaid is said by the
// class that tokenizer_config.json or config.json names; both are written as the tokenizer.json that they stand for.
#include <algorithm>
#include <optional>

#include "libckpt/io/byte_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/parts.h"
#include "zoo/text/unicode.h"

namespace zoo::text {
namespace {

using ckpt::JsonDocument;
using ckpt::JsonWriter;
using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaxText = 256 << 20;
constexpr std::string_view kSentencePieceNames[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"};

std::optional<JsonDocument> json_beside(const fs::path& folder, const char* name) {
  if (!fs::exists(folder / name)) return std::nullopt;
  return core::with_context(name, [&] { return JsonDocument::parse(read_text(folder / name)); });
}

/// What is said beside a vocabulary.
struct Config {
  std::optional<JsonDocument> tokenizer;
  std::string kind;  ///< "GPT2", "Roberta", "Bert", "" where nothing is said

  bool flag_or(std::string_view key, bool otherwise) const {
    return tokenizer ? Fields(tokenizer->root(), "tokenizer_config.json").flag_or(key, otherwise) : otherwise;
  }
  std::vector<AddedToken> added() const;
};

std::vector<AddedToken> Config::added() const {
  std::vector<AddedToken> tokens;
  if (!tokenizer || !Fields(tokenizer->root(), "tokenizer_config.json").has("added_tokens_decoder")) return tokens;
  const ckpt::JsonView listed = tokenizer->root().at("added_tokens_decoder");
  if (!listed.is(ckpt::JsonView::Kind::object))
    throw Error(ErrorCode::corrupt, "'added_tokens_decoder' of tokenizer_config.json is no JSON object");
  for (const auto& [number, token] : listed.members()) {
    const JsonDocument id = JsonDocument::parse(number);
    tokens.push_back(
        added_token_from(token, id_of(id.root(), "the number of an added token of tokenizer_config.json")));
  }
  return tokens;
}

std::string without(std::string text, std::string_view end) {
  return text.ends_with(end) ? text.substr(0, text.size() - end.size()) : text;
}

Config config_of(const fs::path& folder) {
  Config config{.tokenizer = json_beside(folder, "tokenizer_config.json"), .kind = {}};
  if (config.tokenizer)
    config.kind = Fields(config.tokenizer->root(), "tokenizer_config.json").text_or("tokenizer_class", "");
  config.kind = without(without(config.kind, "Fast"), "Tokenizer");
  if (!config.kind.empty() && config.kind != "PreTrained") return config;
  config.kind.clear();
  const std::optional<JsonDocument> model = json_beside(folder, "config.json");
  const std::string type = model ? Fields(model->root(), "config.json").text_or("model_type", "") : "";
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"gpt2", "GPT2"},   {"roberta", "Roberta"},       {"qwen2", "Qwen2"}, {"qwen3", "Qwen2"},
      {"bert", "Bert"},   {"distilbert", "DistilBert"}, {"llama", "Llama"}, {"mistral", "Llama"},
      {"gemma", "Gemma"}, {"gemma2", "Gemma"},          {"t5", "T5"}};
  for (const auto& [name, kind] : kKinds) {
    if (type == name) config.kind = kind;
  }
  if (config.kind.empty() && !type.empty()) config.kind = type;
  return config;
}

Error not_for(std::string_view files, const std::string& kind) {
  return Error(ErrorCode::unsupported, std::string(files) + " of a " + core::quote(kind) +
                                           " tokenizer alone is not here; its tokenizer.json would say how it works");
}

void write_added(JsonWriter& json, const std::vector<AddedToken>& tokens) {
  json.key("added_tokens").begin_array();
  for (const AddedToken& token : tokens) {
    json.begin_object().key("id").value(token.id).key("content").value(token.text);
    json.key("special").value(token.special).key("single_word").value(token.single_word);
    json.key("lstrip").value(token.lstrip).key("rstrip").value(token.rstrip);
    json.key("normalized").value(token.normalized).end_object();
  }
  json.end_array();
}

/// The ones of `names` that the vocabulary has.
std::vector<AddedToken> specials_in(const Vocabulary& vocabulary, std::initializer_list<std::string_view> names) {
  std::vector<AddedToken> tokens;
  for (std::string_view name : names) {
    const auto id = vocabulary.id_of(name);
    if (id) tokens.push_back({.id = *id, .text = std::string(name), .special = true, .lstrip = name == "<mask>"});
  }
  return tokens;
}

/// "[CLS] text [SEP]", where the vocabulary has both.
void write_around(JsonWriter& json, const Vocabulary& vocabulary, const char* kind, std::string_view begin,
                  std::string_view end) {
  const auto cls = vocabulary.id_of(begin);
  const auto sep = vocabulary.id_of(end);
  if (!cls || !sep)
    throw Error(ErrorCode::corrupt, "the vocabulary has no " + core::quote(cls ? end : begin) + " to put around texts");
  json.key("post_processor").begin_object().key("type").value(kind);
  json.key("cls").begin_array().value(begin).value(*cls).end_array();
  json.key("sep").begin_array().value(end).value(*sep).end_array().end_object();
}

constexpr std::string_view kQwen2Words =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

void write_byte_pieces(JsonWriter& json, const std::string& kind, bool prefix_space) {
  if (kind != "Qwen2") {
    json.key("pre_tokenizer").begin_object().key("type").value("ByteLevel");
    json.key("add_prefix_space").value(prefix_space).end_object();
    return;
  }
  json.key("normalizer").begin_object().key("type").value("NFC").end_object();
  json.key("pre_tokenizer").begin_object().key("type").value("Sequence").key("pretokenizers").begin_array();
  json.begin_object()
      .key("type")
      .value("Split")
      .key("pattern")
      .begin_object()
      .key("Regex")
      .value(kQwen2Words)
      .end_object();
  json.key("behavior").value("Isolated").end_object();
  json.begin_object().key("type").value("ByteLevel").key("add_prefix_space").value(false).key("use_regex").value(false);
  json.end_object().end_array().end_object();
}

Tokenizer from_merges(const fs::path& folder) {
  const Config config = config_of(folder);
  const std::string kind = config.kind.empty() ? "GPT2" : config.kind;
  if (kind != "GPT2" && kind != "Roberta" && kind != "Qwen2") throw not_for("vocab.json with merges.txt", kind);
  const std::string words = read_text(folder / "vocab.json");
  const Vocabulary vocabulary = core::with_context("vocab.json", [&] {
    const JsonDocument document = JsonDocument::parse(words);
    return Vocabulary::from_json(document.root());
  });
  std::vector<AddedToken> added = config.added();
  if (added.empty()) added = specials_in(vocabulary, {"<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"});
  JsonWriter json;
  json.begin_object();
  write_added(json, added);
  write_byte_pieces(json, kind, config.flag_or("add_prefix_space", false));
  if (kind == "Roberta") write_around(json, vocabulary, "RobertaProcessing", "<s>", "</s>");
  json.key("decoder").begin_object().key("type").value("ByteLevel").end_object();
  json.key("model").begin_object().key("type").value("BPE").key("vocab").raw(words).key("merges").begin_array();
  const std::string merges = read_text(folder / "merges.txt");
  for (std::string_view line : core::split(merges, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) json.value(line);
  }
  json.end_array().end_object().end_object();
  return core::with_context("merges.txt", [&] { return Tokenizer::from_json(json.text()); });
}

Tokenizer from_words(const fs::path& folder) {
  const Config config = config_of(folder);
  constexpr std::string_view kKinds[] = {"", "Bert", "DistilBert", "Electra", "MobileBert"};
  if (std::find(std::begin(kKinds), std::end(kKinds), config.kind) == std::end(kKinds))
    throw not_for("vocab.txt", config.kind);
  Vocabulary vocabulary;
  const std::string text = mend(read_text(folder / "vocab.txt"));
  std::vector<std::string_view> lines = core::split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  JsonWriter words;
  words.begin_object();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].ends_with('\r')) lines[i].remove_suffix(1);
    core::with_context("vocab.txt", [&] { vocabulary.add(lines[i], static_cast<std::int64_t>(i)); });
    words.key(lines[i]).value(static_cast<std::int64_t>(i));
  }
  words.end_object();
  std::vector<AddedToken> added = config.added();
  if (added.empty()) added = specials_in(vocabulary, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  const bool lower = config.flag_or("do_lower_case", true);
  JsonWriter json;
  json.begin_object();
  write_added(json, added);
  json.key("normalizer").begin_object().key("type").value("BertNormalizer").key("lowercase").value(lower);
  json.key("handle_chinese_chars").value(config.flag_or("tokenize_chinese_chars", true));
  json.key("strip_accents").value(config.flag_or("strip_accents", lower)).end_object();
  json.key("pre_tokenizer").begin_object().key("type").value("BertPreTokenizer").end_object();
  write_around(json, vocabulary, "BertProcessing", "[CLS]", "[SEP]");
  json.key("decoder").begin_object().key("type").value("WordPiece").end_object();
  json.key("model")
      .begin_object()
      .key("type")
      .value("WordPiece")
      .key("vocab")
      .raw(words.text())
      .end_object()
      .end_object();
  return core::with_context("vocab.txt", [&] { return Tokenizer::from_json(json.text()); });
}

Tokenizer from_pieces(const fs::path& path) {
  const Config config = config_of(path.parent_path());
  const std::string& kind = config.kind;
  const bool begins = kind == "Llama" || kind == "Gemma" || kind == "CodeLlama";
  const bool ends = kind == "T5";
  if (!kind.empty() && !begins && !ends) throw not_for("a SentencePiece model", kind);
  SentencePieceOptions options;
  options.bos = config.flag_or("add_bos_token", begins);
  options.eos = config.flag_or("add_eos_token", ends);
  options.added = config.added();
  return open_sentence_piece(path, std::move(options));
}

std::optional<fs::path> sentence_piece_in(const fs::path& folder) {
  for (std::string_view name : kSentencePieceNames) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

Tokenizer open_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return core::with_context(file.string(), [&] {
    if (name == "vocab.txt") return from_words(file.parent_path());
    if (name == "vocab.json" || name == "merges.txt") return from_merges(file.parent_path());
    if (file.extension() == ".model") return from_pieces(file);
    return Tokenizer::from_json(read_text(file));
  });
}

}  // namespace

std::string read_text(const fs::path& path) {
  ckpt::SourcePtr file = ckpt::open_file(path);
  if (file->size() > kMaxText) {
    throw Error(ErrorCode::refused, "a text of " + core::format_size(file->size()) + "; at most 256 MiB are read");
  }
  const core::ByteVector bytes = ckpt::read_all(*file);
  return std::string(core::as_text(bytes));
}

bool Tokenizer::is_in(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") ||
         (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt")) || fs::exists(folder / "vocab.txt") ||
         sentence_piece_in(folder);
}

Tokenizer Tokenizer::open(const fs::path& path) {
  if (!fs::is_directory(path)) return open_file(path);
  if (fs::exists(path / "tokenizer.json")) return open_file(path / "tokenizer.json");
  if (const auto pieces = sentence_piece_in(path)) return open_file(*pieces);
  if (fs::exists(path / "vocab.json") && fs::exists(path / "merges.txt")) return open_file(path / "vocab.json");
  if (fs::exists(path / "vocab.txt")) return open_file(path / "vocab.txt");
  throw Error(ErrorCode::unsupported,
              "no tokenizer is in the folder: neither tokenizer.json, nor tokenizer.model, spiece.model or "
              "sentencepiece.bpe.model, nor vocab.json with merges.txt, nor vocab.txt")
      .add_context(path.string());
}

}  // namespace zoo::text
