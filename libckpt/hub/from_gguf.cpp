// From llama.cpp's GGUF to a Hugging Face folder.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "libckpt/format/gguf/gguf_metadata.h"
#include "libckpt/hub/changed_tensors.h"
#include "libckpt/hub/gguf_model.h"
#include "libckpt/hub/gguf_tokenizer.h"
#include "libckpt/hub/model_numbers.h"
#include "libckpt/transform/cast_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using detail::GgufArchitecture;
using detail::GgufField;
using detail::GgufValues;
using detail::GgufValueType;
namespace fs = std::filesystem;

constexpr std::string_view kRopeNames[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                           "rope_factors_short.weight"};

bool is_rope(const std::string& name) {
  return std::ranges::find(kRopeNames, name) != std::end(kRopeNames);
}

std::vector<double> numbers_in(const Entry& entry) {
  const core::ByteVector bytes = read_all(*entry.bytes);
  std::vector<double> out(entry.numel());
  cast_values(bytes, entry.dtype, std::as_writable_bytes(std::span(out)), DType::f64);
  return out;
}

/// Nearest text of a number that was stored as float32: "1e-05".
std::string short_text(double number) {
  const std::string text = core::python_float(static_cast<double>(static_cast<float>(number)));
  detail::GgufValues one;
  one.add_number("x", GgufValueType::f32, number);
  const std::string shortest = detail::metadata_text(one.all()[0]);
  return shortest.empty() ? text : shortest;
}

class BackConverter {
 public:
  BackConverter(const Checkpoint& gguf, GgufModelReport& report) : gguf_(gguf), report_(report), values_(stored(gguf)) {
    const std::string name = values_.text("general.architecture").value_or("");
    entries_ = list_entries(gguf.root);
    for (const NamedEntry& named : entries_) by_name_[named.name] = named.entry;
    const std::string tokenizer = values_.text("tokenizer.ggml.model").value_or("");
    architecture_ = detail::find_gguf_architecture(name, tokenizer, has("token_types.weight"));
    if (architecture_ == nullptr) {
      throw Error(ErrorCode::unsupported,
                  name.empty() ? "says no general.architecture, so nothing tells which model of transformers it is"
                               : "models of the architecture " + core::quote(name) +
                                     " have no rules here that make them one of transformers");
    }
    report_.architecture = name;
    read_numbers();
  }

  HubModel run() {
    HubModel model;
    model.weights = weights();
    if (hub_class() == "BertForSequenceClassification") {
      report_.notes.emplace_back(
          "the file has no pooler, which BERT's head reads from: transformers draws 'bert.pooler.dense' anew, and the "
          "classes mean nothing until it is taken from the model's first folder or trained");
    }
    model.files.emplace_back("config.json", bytes_of(config()));
    for (detail::HubFile& file : detail::tokenizer_files(values_, report_.notes))
      model.files.push_back(std::move(file));
    return model;
  }

 private:
  static GgufValues stored(const Checkpoint& gguf) {
    auto detail = std::dynamic_pointer_cast<const detail::GgufDetail>(gguf.detail);
    if (detail == nullptr) throw Error(ErrorCode::unsupported, "is not a GGUF file");
    return GgufValues(detail->values);
  }

  static core::ByteVector bytes_of(const std::string& text) {
    core::ByteVector out;
    core::append(out, core::as_bytes(text));
    return out;
  }

  std::optional<double> value_of(std::string_view key) const {
    return values_.number(std::string(architecture_->name) + "." + std::string(key));
  }

  void read_numbers() {
    auto whole = [&](std::string_view key, double fallback) {
      const double value = value_of(key).value_or(fallback);
      const bool sensible = value == std::floor(value) && std::fabs(value) < 1e15;
      return sensible ? static_cast<std::int64_t>(value) : -1;
    };
    numbers_.layers = whole("block_count", 0);
    numbers_.width = whole("embedding_length", 0);
    numbers_.heads = whole("attention.head_count", 0);
    numbers_.kv_heads = whole("attention.head_count_kv", static_cast<double>(numbers_.heads));
    numbers_.head_dim =
        whole("attention.key_length", numbers_.heads > 0 ? static_cast<double>(numbers_.width / numbers_.heads) : 0);
    numbers_.decoder_layers = whole("decoder_block_count", architecture_->name == "t5" ? numbers_.layers : 0);
    numbers_.gated = has("enc.blk.0.ffn_gate.weight");
    numbers_.named_classes = has("cls.output.weight");
    core::with_context("the metadata", [&] { detail::require_sensible(numbers_); });
  }

  Checkpoint weights() {
    detail::require_complete(entries_, numbers_, "the metadata");
    Dict dict;
    for (const NamedEntry& named : entries_) {
      if (named.entry->blocks) {
        throw Error(ErrorCode::unsupported, "the tensor " + core::quote(named.name) +
                                                " is in quantized blocks of type " + named.entry->blocks->name +
                                                ", which transformers does not load; write the values that they stand "
                                                "for: --dequantize");
      }
      if (!is_rope(named.name)) dict.items.emplace_back(Value::text(named.name), Value::tensor(named.entry));
    }
    Checkpoint plain;
    plain.root = Value::dict(std::move(dict));
    const RulePack pack = turned_round(detail::architecture_pack(*architecture_, numbers_));
    Checkpoint out;
    const Checkpoint renamed = apply_rules(plain, rules_for(pack, detail::named_shapes(list_entries(plain.root))));
    Dict changes;
    for (const NamedEntry& named : list_entries(renamed.root)) {
      if (by_name_.contains(named.name)) {
        throw Error(ErrorCode::unsupported, "transformers has no name for the tensor " + core::quote(named.name));
      }
      changes.items.emplace_back(Value::text(prefixed(named.name)), Value::tensor(changed(named)));
    }
    out.root = Value::dict(std::move(changes));
    out.path = gguf_.path;
    out.metadata = {{"format", "pt"}};
    return out;
  }

  bool is_classifier() const {
    return architecture_->name == "bert" && (has("cls.weight") || has("cls.output.weight"));
  }

  /// Of a model with a head, whose other tensors belong to a model in it.
  std::string prefixed(const std::string& name) const {
    const bool head = name.starts_with("classifier.") || name.starts_with("pre_classifier.");
    return is_classifier() && !head ? std::string(architecture_->old_prefix) + name : name;
  }

  std::string_view hub_class() const {
    if (!is_classifier()) return architecture_->classes.front();
    return *std::ranges::find_if(architecture_->classes, [](auto name) { return name.ends_with(detail::kClassifier); });
  }

  /// With the values that transformers computes with.
  EntryPtr changed(const NamedEntry& named) const {
    if (architecture_->shifted_norms && named.name.ends_with("norm.weight")) return detail::plus(*named.entry, -1);
    if (!architecture_->chopped_positions || named.name != "embeddings.position_embeddings.weight") return named.entry;
    return detail::with_zero_rows(*named.entry, spare_positions());
  }

  std::int64_t spare_positions() const {
    if (!architecture_->chopped_positions) return 0;
    const double pad = values_.number("tokenizer.ggml.padding_token_id").value_or(1);
    if (pad >= 0 && pad < detail::kMostSparePositions) return static_cast<std::int64_t>(pad) + 1;
    throw Error(ErrorCode::unsupported, "tokenizer.ggml.padding_token_id is " + core::python_float(pad) +
                                            ", behind which RoBERTa's positions cannot begin");
  }

  bool has(const std::string& name) const { return by_name_.contains(name); }

  std::string config() {
    JsonWriter json(2);
    json.begin_object().key("architectures").begin_array().value(hub_class()).end_array();
    json.key("model_type").value(architecture_->model_type);
    write_fields(json);
    write_rope(json);
    for (const detail::GgufSetting& setting : architecture_->settings) {
      const bool second = numbers_.gated && setting.field == "feed_forward_proj";
      json.key(setting.field).raw(core::split(setting.values, ' ')[second ? 1 : 0]);
    }
    if (architecture_->name == "t5") json.key("is_encoder_decoder").value(true);
    if (is_classifier()) write_classes(json);
    json.key("tie_word_embeddings").value(is_tied());
    if (has("blk.0.attn_q.bias") && architecture_->name == "llama") json.key("attention_bias").value(true);
    if (has("blk.0.ffn_up.bias") && architecture_->name == "llama") json.key("mlp_bias").value(true);
    write_tokens(json);
    json.key("torch_dtype").value(core::name(main_dtype()));
    return json.end_object().take() + "\n";
  }

  /// T5 scales what comes to a head that is the table of tokens, also where a file has that table twice.
  bool is_tied() const {
    if (!has("output.weight")) return true;
    if (architecture_->name != "t5") return false;
    const Entry& table = *by_name_.at("token_embd.weight");
    const Entry& head = *by_name_.at("output.weight");
    return table.dtype == head.dtype && table.shape == head.shape && table.bytes && head.bytes &&
           read_all(*table.bytes) == read_all(*head.bytes);
  }

  /// Names of the classes; of those that have none the ones that transformers gives them.
  void write_classes(JsonWriter& json) const {
    const std::int64_t count = rows_of(has("cls.output.weight") ? "cls.output.weight" : "cls.weight");
    std::vector<std::string> labels = values_.texts("bert.classifier.output_labels");
    if (static_cast<std::int64_t>(labels.size()) != count) {
      labels.clear();
      for (std::int64_t i = 0; i < count; ++i) labels.push_back("LABEL_" + std::to_string(i));
    }
    json.key("id2label").begin_object();
    for (std::size_t i = 0; i < labels.size(); ++i) json.key(std::to_string(i)).value(labels[i]);
    json.end_object().key("label2id").begin_object();
    std::set<std::string> written;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (written.insert(labels[i]).second) json.key(labels[i]).value(static_cast<std::uint64_t>(i));
    }
    json.end_object();
  }

  /// Each field once, where it has a name in config.json.
  void write_fields(JsonWriter& json) {
    std::set<std::string_view> written;
    for (const GgufField& field : architecture_->fields) {
      const std::string key = std::string(architecture_->name) + "." + std::string(field.key);
      if (field.field.empty() || field.field == "rope_theta" || !values_.has(key)) continue;
      if (!written.insert(field.field).second) continue;
      json.key(field.field);
      if (field.type == GgufValueType::boolean) {
        json.value(values_.flag(key).value_or(false));
      } else if (field.field == "sliding_window" && values_.number(key) == 0) {
        json.null();
      } else if (field.type == GgufValueType::f32) {
        json.raw(short_text(*values_.number(key)));
      } else {
        const std::int64_t spare = field.key == "context_length" ? spare_positions() : 0;
        json.value(static_cast<std::int64_t>(*values_.number(key)) + spare);
      }
    }
    if (architecture_->chopped_positions) json.key("pad_token_id").value(spare_positions() - 1);
    if (architecture_->name == "gemma2") json.key("query_pre_attn_scalar").value(detail::gemma2_scale(numbers_));
    if (!written.contains("vocab_size")) json.key("vocab_size").value(rows_of("token_embd.weight"));
    if (has("token_types.weight")) json.key("type_vocab_size").value(rows_of("token_types.weight"));
  }

  std::int64_t rows_of(const std::string& name) const { return value_shape(*by_name_.at(name))[0]; }

  void write_rope(JsonWriter& json) {
    const double theta = value_of("rope.freq_base").value_or(10000);
    if (value_of("rope.freq_base")) json.key("rope_theta").raw(short_text(theta));
    std::optional<double> dimensions = value_of("rope.dimension_count");
    const bool partial = architecture_->name == "gptneox" || architecture_->name == "phi3";
    if (dimensions && partial) {
      const double share = *dimensions / static_cast<double>(numbers_.head_dim);
      json.key(architecture_->name == "gptneox" ? "rotary_pct" : "partial_rotary_factor").value(share);
    }
    if (has("rope_freqs.weight")) {
      write_llama3(json, theta);
    } else if (has("rope_factors_long.weight")) {
      write_long_rope(json);
    } else if (std::optional<std::string> type = scaling_type()) {
      write_scaling(json, *type);
    }
  }

  std::optional<std::string> scaling_type() const {
    std::optional<std::string> type = values_.text(std::string(architecture_->name) + ".rope.scaling.type");
    return type == "none" ? std::nullopt : type;
  }

  void write_scaling(JsonWriter& json, const std::string& type) {
    if (type != "linear" && type != "yarn") {
      report_.notes.push_back("rotary positions are scaled by the rule " + core::quote(type) +
                              ", which config.json does not get");
      return;
    }
    constexpr std::pair<const char*, const char*> kNumbers[] = {
        {"factor", "factor"},
        {"yarn_ext_factor", "extrapolation_factor"},
        {"yarn_attn_factor", "attention_factor"},
        {"yarn_beta_fast", "beta_fast"},
        {"yarn_beta_slow", "beta_slow"},
        {"original_context_length", "original_max_position_embeddings"}};
    json.key("rope_scaling").begin_object().key("rope_type").value(type);
    for (const auto& [key, field] : kNumbers) {
      std::optional<double> value = value_of("rope.scaling." + std::string(key));
      if (!value) continue;
      const bool whole = std::string_view(key) == "original_context_length";
      whole ? json.key(field).value(static_cast<std::int64_t>(*value)) : json.key(field).raw(short_text(*value));
    }
    json.end_object();
  }

  /// The file has the factors alone; the numbers that give them are found among those that models have.
  void write_llama3(JsonWriter& json, double theta) {
    const std::vector<double> factors = numbers_in(*by_name_.at("rope_freqs.weight"));
    detail::RopeScaling scaling{.theta = theta, .factor = factors.empty() ? 1 : std::ranges::max(factors)};
    for (double context = 1; context <= 1 << 24; context *= 2) {
      scaling.context = context;
      const std::vector<float> made = detail::llama3_rope_factors(scaling, numbers_.head_dim);
      const bool same =
          std::ranges::equal(made, factors, [](float a, double b) { return std::fabs(a - b) < 1e-5 * b; });
      if (!same) continue;
      json.key("rope_scaling").begin_object().key("rope_type").value("llama3").key("factor").value(scaling.factor);
      json.key("low_freq_factor").value(1.0).key("high_freq_factor").value(4.0);
      json.key("original_max_position_embeddings").value(static_cast<std::int64_t>(context)).end_object();
      return;
    }
    throw Error(ErrorCode::unsupported,
                "the tensor 'rope_freqs.weight' scales rotary positions by no rule of transformers");
  }

  void write_long_rope(JsonWriter& json) {
    json.key("rope_scaling").begin_object().key("type").value("longrope");
    for (const char* which : {"long", "short"}) {
      auto found = by_name_.find("rope_factors_" + std::string(which) + ".weight");
      if (found == by_name_.end())
        throw Error(ErrorCode::corrupt, "has one of rope_factors_long and rope_factors_short alone");
      json.key(std::string(which) + "_factor").begin_array();
      for (double number : numbers_in(*found->second)) json.raw(short_text(number));
      json.end_array();
    }
    json.end_object();
  }

  void write_tokens(JsonWriter& json) {
    constexpr std::pair<const char*, const char*> kTokens[] = {{"bos", "bos"}, {"eos", "eos"}, {"padding", "pad"}};
    for (const auto& [key, field] : kTokens) {
      std::optional<double> id = values_.number("tokenizer.ggml." + std::string(key) + "_token_id");
      if (id && architecture_->has_head)
        json.key(std::string(field) + "_token_id").value(static_cast<std::int64_t>(*id));
    }
  }

  /// Of most values.
  DType main_dtype() const {
    std::map<DType, std::uint64_t> counts;
    for (const NamedEntry& named : entries_) counts[named.entry->dtype] += named.entry->numel();
    DType most = DType::f32;
    for (const auto& [dtype, count] : counts) {
      if (count > counts[most]) most = dtype;
    }
    return most;
  }

  const Checkpoint& gguf_;
  GgufModelReport& report_;
  GgufValues values_;
  const GgufArchitecture* architecture_ = nullptr;
  detail::ModelNumbers numbers_;
  std::vector<NamedEntry> entries_;
  std::map<std::string, EntryPtr> by_name_;
};

}  // namespace

HubModel from_gguf_model(const Checkpoint& gguf, GgufModelReport* report) {
  GgufModelReport noted;
  HubModel model = BackConverter(gguf, noted).run();
  if (report != nullptr) *report = std::move(noted);
  return model;
}

}  // namespace ckpt
