#pragma once
// The models that both llama.cpp and transformers know, as data: which classes of transformers are which architecture
// of llama.cpp, how fields of config.json become metadata, and the rules (transform/rules.h) that turn names and layout
// of the tensors into those of llama.cpp. Internal to libckpt/hub. Thread safety: constants.
// Use: const GgufArchitecture* known = find_gguf_architecture("LlamaForCausalLM", "llama");

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "libckpt/format/gguf/gguf_types.h"

namespace ckpt::detail {

/// What the class of a model that tells texts apart ends with.
constexpr std::string_view kClassifier = "ForSequenceClassification";

/// One number of the metadata: "llama." and `key`, from `field` of config.json.
struct GgufField {
  std::string_view key;
  GgufValueType type = GgufValueType::u32;
  std::string_view field;
  /// What the field is where config.json lacks it: a number, another field, or a product or quotient of those
  /// ("hidden_size/num_attention_heads"). Empty: it must be there; "-": then there is no such metadata.
  std::string_view fallback = {};
};

/// A field of config.json and the JSON values, separated by blanks, that llama.cpp computes with; the first is what the
/// field is where it is absent and what is written on the way back.
struct GgufSetting {
  std::string_view field;
  std::string_view values;
};

struct GgufArchitecture {
  std::string_view name;                      ///< general.architecture
  std::string_view model_type;                ///< of config.json, for the way back
  std::span<const std::string_view> classes;  ///< of transformers; the first one is for the way back
  std::span<const GgufField> fields;
  std::span<const GgufSetting> settings;
  std::string_view rules;            ///< a rule pack, with @heads@ and so on for numbers of the model
  std::string_view left_out;         ///< globs, separated by blanks, of tensors without a place in llama.cpp
  std::string_view old_prefix = {};  ///< that some classes have before all names
  std::string_view turns = {};       ///< rules behind the others
  /// Globs of biases that the model does not have, and that GPTQ's files have as zeros for each of their layers.
  std::string_view spare_biases = {};
  bool shifted_norms = false;      ///< transformers multiplies with norm weights + 1
  bool chopped_positions = false;  ///< llama.cpp has no rows for positions up to pad_token_id
  bool tied = false;               ///< tie_word_embeddings where config.json lacks it
  bool has_head = true;            ///< has output.weight unless it is tied
  bool sentence_pieces = false;    ///< tokenizer.model comes before tokenizer.json
};

std::span<const GgufArchitecture> gguf_architectures();
/// By a class of transformers, such as "LlamaForCausalLM". Null when it is none of these.
const GgufArchitecture* find_gguf_class(std::string_view hub_class);
/// By general.architecture: the first of several models that are one architecture of llama.cpp.
const GgufArchitecture* find_gguf_architecture(std::string_view name);
/// Of those the one that a file holds, by its tokenizer.ggml.model and whether it has a table of token types.
const GgufArchitecture* find_gguf_architecture(std::string_view name, std::string_view tokenizer, bool token_types);

}  // namespace ckpt::detail
