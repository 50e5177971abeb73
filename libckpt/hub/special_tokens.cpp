#include "libckpt/hub/special_tokens.h"

#include <algorithm>

namespace ckpt::detail {
namespace {

using MarkerKind = JsonView::Kind;

constexpr std::string_view kTypes[] = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"};

std::vector<JsonView> items_of(const JsonView& object, std::string_view name) {
  std::optional<JsonView> list = member(object, name);
  return list && list->is(MarkerKind::array) ? list->items() : std::vector<JsonView>();
}

/// The id of the first item of a template: {"SpecialToken": {"id": "<s>"}}; "" when it is something else.
std::string template_token(const JsonView& item) {
  std::optional<JsonView> token = member(item, "SpecialToken");
  return token ? member_text(*token, "id").value_or("") : "";
}

std::string template_sequence(const JsonView& item) {
  std::optional<JsonView> sequence = member(item, "Sequence");
  return sequence ? member_text(*sequence, "id").value_or("") : "";
}

/// Follows the order in which gguf-py lets the files overrule each other.
class Finder {
 public:
  Finder(const TokenizerFiles& files, std::optional<std::int64_t> tokens) : files_(files), tokens_(tokens) {
    for (std::string_view type : kTypes) types_.emplace_back(type);
  }

  SpecialTokens run() {
    if (files_.settings) {
      for (const std::string& type : types_) set_text(type, token_text(type));
    }
    if (files_.tokenizer) look_at_tokenizer(files_.tokenizer->root());
    if (files_.settings) look_at_settings();
    look_at_config();
    return std::move(out_);
  }

 private:
  /// "bos_token" of tokenizer_config.json, a text or an object with its content.
  std::string token_text(const std::string& type) const {
    std::optional<JsonView> value = member(files_.settings->root(), type + "_token");
    if (!value) return "";
    if (value->is(MarkerKind::text)) return std::string(value->as_text());
    return member_text(*value, "content").value_or("");
  }

  std::string text_of(const std::string& type) const {
    for (const auto& [known, text] : texts_) {
      if (known == type) return text;
    }
    return "";
  }
  void set_text(const std::string& type, const std::string& text) {
    std::erase_if(texts_, [&](const auto& pair) { return pair.first == type; });
    if (!text.empty()) texts_.emplace_back(type, text);
  }
  void set_added(const std::string& type, bool value, bool over = true) {
    for (auto& [known, old] : out_.added) {
      if (known != type) continue;
      if (over) old = value;
      return;
    }
    out_.added.emplace_back(type, value);
  }
  bool says_added(const std::string& type) const {
    return std::ranges::any_of(out_.added, [&](const auto& pair) { return pair.first == type; });
  }
  void set_id(const std::string& type, std::int64_t id) {
    const bool known = std::ranges::any_of(out_.ids, [&](const auto& pair) { return pair.first == type; });
    if (known || id < 0 || (tokens_ && id >= *tokens_)) return;
    out_.ids.emplace_back(type, id);
  }

  void look_at_tokenizer(const JsonView& root) {
    if (std::optional<JsonView> normalizer = member(root, "normalizer")) look_at_normalizer(*normalizer);
    if (files_.settings) {
      if (text_of("bos").empty()) set_text("bos", text_of("cls"));
      if (text_of("eos").empty()) set_text("eos", text_of("sep"));
    }
    std::optional<JsonView> post = member(root, "post_processor");
    if (!post) return;
    std::vector<JsonView> processors = items_of(*post, "processors");
    if (!post->has("processors")) processors = {*post};
    for (const JsonView& processor : processors) look_at_processor(processor);
  }

  void look_at_normalizer(const JsonView& normalizer) {
    const std::string type = member_text(normalizer, "type").value_or("");
    if (type == "Lowercase") out_.lowercase = true;
    if (type == "StripAccents") out_.strip_accents = true;
    if (type == "BertNormalizer") {
      if (member(normalizer, "lowercase")) out_.lowercase = member_flag(normalizer, "lowercase");
      if (member(normalizer, "strip_accents")) out_.strip_accents = member_flag(normalizer, "strip_accents");
    }
    if (type == "Sequence") {
      for (const JsonView& part : items_of(normalizer, "normalizers")) look_at_normalizer(part);
    }
  }

  void look_at_processor(const JsonView& processor) {
    const std::string type = member_text(processor, "type").value_or("");
    if (type == "ByteLevel") {
      set_added("bos", false, false);
      set_added("eos", false, false);
    } else if (type == "RobertaProcessing") {
      for (const char* token : {"bos", "eos", "sep"}) set_added(token, true);
      for (const char* token : {"cls", "sep"}) {
        std::vector<JsonView> pair = items_of(processor, token);
        if (text_of(token).empty() && !pair.empty() && pair[0].is(MarkerKind::text)) {
          set_text(token, std::string(pair[0].as_text()));
        }
      }
    } else if (type == "TemplateProcessing") {
      look_at_single(items_of(processor, "single"));
      look_at_pair(items_of(processor, "pair"));
    }
  }

  void look_at_single(const std::vector<JsonView>& items) {
    first_.clear();
    last_.clear();
    if (items.size() < 2) return;
    first_ = template_token(items.front());
    last_ = template_token(items.back());
    if (!first_.empty()) {
      if (!files_.settings) set_text("bos", first_);
      const bool known = first_ == text_of("bos") || first_ == text_of("cls");
      if (files_.settings && !known) {
        for (const char* token : {"bos", "cls"}) {
          if (text_of(token).empty()) set_text(token, first_);
        }
      }
      set_added("bos", first_ == text_of("bos") || first_ == text_of("cls"));
    }
    if (last_.empty()) return;
    if (files_.settings && last_ != text_of("eos")) {
      types_.emplace_back("eot");
      set_text("eot", text_of("eos"));
    }
    set_text("eos", last_);
    set_added("eos", true);
  }

  /// A [separator] [end] B, between the tokens that a single text has too.
  void look_at_pair(std::vector<JsonView> items) {
    if (items.empty()) return;
    if (!last_.empty() && template_token(items.back()) == last_) items.pop_back();
    if (!items.empty() && !first_.empty() && template_token(items.front()) == first_) items.erase(items.begin());
    if (items.size() < 3 || template_sequence(items.front()) != "A" || template_sequence(items.back()) != "B") return;
    bool separates = false;
    const std::string token = template_token(items[1]);
    const bool ends = !token.empty() && (token == text_of("sep") || token == text_of("eos"));
    if (ends && last_.empty()) separates = true;
    if (items.size() == 4) {
      const std::string second = template_token(items[2]);
      separates |= !second.empty() && (second == text_of("sep") || second == text_of("eos"));
    }
    set_added("sep", separates);
    if (separates && text_of("sep").empty()) set_text("sep", text_of("eos"));
  }

  void look_at_settings() {
    for (const std::string& type : types_) {
      std::optional<JsonView> add = member(files_.settings->root(), "add_" + type + "_token");
      if (add && add->is(MarkerKind::boolean) && !says_added(type)) set_added(type, add->as_boolean());
      const std::string text = text_of(type);
      if (text.empty() || !files_.tokenizer) continue;
      for (const JsonView& token : items_of(files_.tokenizer->root(), "added_tokens")) {
        std::optional<JsonView> id = member(token, "id");
        if (member_text(token, "content") != text || !id || !id->is_count()) continue;
        set_id(type, id->as_integer());
        break;
      }
    }
  }

  void look_at_config() {
    if (!files_.config) return;
    for (const std::string& type : types_) {
      std::optional<JsonView> id = member(files_.config->root(), type + "_token_id");
      if (id && id->is_count()) set_id(type, id->as_integer());
    }
  }

  const TokenizerFiles& files_;
  std::optional<std::int64_t> tokens_;
  std::vector<std::string> types_;
  std::vector<std::pair<std::string, std::string>> texts_;  ///< of tokenizer_config.json, as far as it is overruled
  std::string first_, last_;                                ///< around a single text
  SpecialTokens out_;
};

std::optional<std::string> find_chat_template(const TokenizerFiles& files) {
  if (files.settings) {
    std::optional<JsonView> text = member(files.settings->root(), "chat_template");
    if (text && text->is(MarkerKind::text)) return std::string(text->as_text());
    if (text) return std::nullopt;  // several templates by name
  }
  if (auto jinja = read_hub_file(files.folder, "chat_template.jinja", files.links)) {
    return std::string(core::as_text(*jinja));
  }
  std::optional<ConfigFields> json = ConfigFields::read(files.folder, "chat_template.json", files.links);
  return json ? json->text("chat_template") : std::nullopt;
}

}  // namespace

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, Links links) {
  TokenizerFiles files{.folder = folder,
                       .links = links,
                       .config = ConfigFields::read(folder, "config.json", links),
                       .tokenizer = ConfigFields::read(folder, "tokenizer.json", links),
                       .settings = ConfigFields::read(folder, "tokenizer_config.json", links),
                       .pieces = read_hub_file(folder, "tokenizer.model", links),
                       .added = ConfigFields::read(folder, "added_tokens.json", links),
                       .chat_template = {}};
  if (!files.pieces) files.pieces = read_hub_file(folder, "spiece.model", links);
  files.chat_template = find_chat_template(files);
  return files;
}

SpecialTokens find_special_tokens(const TokenizerFiles& files, std::optional<std::int64_t> tokens) {
  return Finder(files, tokens).run();
}

}  // namespace ckpt::detail
