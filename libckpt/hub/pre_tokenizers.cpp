// Which patterns of tokenizer.json llama.cpp knows under which name (llama-vocab.cpp).

#include "libckpt/hub/gguf_tokenizer.h"

namespace ckpt::detail {
namespace {

constexpr PreTokenizer kKnown[] = {
    {.name = "gpt-2", .pattern = ""},
    {.name = "smollm", .pattern = "", .single_digits = true},
    {.name = "llama-bpe",
     .pattern =
         R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     .ignore_merges = true},
    {.name = "qwen2",
     .pattern =
         R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {.name = "qwen35",
     .pattern =
         R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {.name = "tekken",
     .pattern =
         R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     .ignore_merges = true},
};

struct Steps {
  std::string pattern;
  bool single_digits = false;
  bool byte_level = false;
  bool byte_level_pattern = false;
  bool unknown = false;
};

void look_at(const JsonView& step, Steps& steps) {
  const std::string type = member_text(step, "type").value_or("");
  if (type == "Sequence") {
    std::optional<JsonView> list = member(step, "pretokenizers");
    if (!list || !list->is(JsonView::Kind::array)) return;
    for (const JsonView& part : list->items()) look_at(part, steps);
  } else if (type == "ByteLevel") {
    steps.byte_level = true;
    steps.byte_level_pattern = !step.has("use_regex") || member_flag(step, "use_regex");
  } else if (type == "Digits") {
    steps.single_digits = member_flag(step, "individual_digits");
  } else if (type == "Split" && member(step, "pattern") && steps.pattern.empty()) {
    steps.pattern = member_text(*member(step, "pattern"), "Regex").value_or("?");
  } else {
    steps.unknown = true;
  }
}

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  if (name == "olmo" || name == "mpt" || name == "phi-2") name = "gpt-2";
  if (name == "llama3" || name == "llama-v3") name = "llama-bpe";
  for (const PreTokenizer& known : kKnown) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

const PreTokenizer* match_pre_tokenizer(const JsonView& pre_tokenizer) {
  Steps steps;
  look_at(pre_tokenizer, steps);
  if (steps.unknown || !steps.byte_level || steps.byte_level_pattern != steps.pattern.empty()) return nullptr;
  for (const PreTokenizer& known : kKnown) {
    if (known.pattern == steps.pattern && known.single_digits == steps.single_digits) return &known;
  }
  return nullptr;
}

}  // namespace ckpt::detail
