// From a Hugging Face folder to llama.cpp's GGUF.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>

#include "libckpt/format/gguf/gguf_header.h"
#include "libckpt/format/gguf/gguf_metadata.h"
#include "libckpt/hub/changed_tensors.h"
#include "libckpt/hub/computed_models.h"
#include "libckpt/hub/gguf_model.h"
#include "libckpt/hub/gguf_tokenizer.h"
#include "libckpt/hub/model_numbers.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/derived_entry.h"
#include "libckpt/transform/glob.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using detail::ConfigFields;
using detail::GgufArchitecture;
using detail::GgufField;
using detail::GgufValues;
using detail::GgufValueType;
namespace fs = std::filesystem;

detail::Links links_for(bool allow_symlinks) {
  return allow_symlinks ? detail::Links::anywhere : detail::Links::inside;
}

/// The one class that "architectures" names, "" for none or several.
std::string class_of(const ConfigFields& config) {
  std::optional<JsonView> classes = detail::member(config.root(), "architectures");
  if (!classes || !classes->is(JsonView::Kind::array)) return "";
  const std::vector<JsonView> items = classes->items();
  const bool named = items.size() == 1 && items[0].is(JsonView::Kind::text);
  return named ? std::string(items[0].as_text()) : "";
}

const GgufArchitecture* architecture_of(const ConfigFields& config) {
  return detail::find_gguf_class(class_of(config));
}

/// Each once: "llama, qwen2, ...".
std::string architecture_names() {
  std::vector<std::string> names;
  for (const GgufArchitecture& known : detail::gguf_architectures()) {
    if (std::ranges::find(names, known.name) == names.end()) names.emplace_back(known.name);
  }
  return core::join(names, ", ");
}

bool matches_any(std::string_view globs, const std::string& name) {
  return std::ranges::any_of(core::split(globs, ' '), [&](std::string_view glob) { return glob_match(glob, name); });
}

/// Values of fields of config.json, with what they are where they are absent.
class FieldValues {
 public:
  explicit FieldValues(const ConfigFields& config) : config_(config) {}

  /// Error(corrupt) naming a field that is missing.
  double require(const GgufField& field) const {
    std::optional<double> value = find(field);
    if (value) return *value;
    throw Error(ErrorCode::corrupt, "config.json has no " + core::quote(field.field));
  }
  /// nullopt where config.json lacks it and need not have it.
  std::optional<double> find(const GgufField& field) const {
    if (!field.field.empty()) {
      if (std::optional<double> value = number_or_flag(field)) return value;
    }
    if (field.fallback.empty() || field.fallback == "-") return std::nullopt;
    return product(field.fallback);
  }

 private:
  std::optional<double> number_or_flag(const GgufField& field) const {
    if (field.type != GgufValueType::boolean) return config_.number(field.field);
    return config_.has(field.field) ? std::optional<double>(config_.flag(field.field, false)) : std::nullopt;
  }

  /// "4*n_embd", "hidden_size/num_attention_heads", "0.25".
  double product(std::string_view text) const {
    double value = 1;
    char op = '*';
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of("*/"), text.size());
      const double factor = factor_of(text.substr(0, end));
      value = op == '*' ? value * factor : std::floor(value / factor);
      if (end == text.size()) break;
      op = text[end];
      text.remove_prefix(end + 1);
    }
    return value;
  }

  double factor_of(std::string_view text) const {
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
    if (text == "partial_rotary_factor") {  // GPT-NeoX has a name and a value of its own
      std::optional<double> share = config_.number(text);
      if (!share) share = config_.number("rotary_pct");
      return share.value_or(config_.text("model_type") == "gpt_neox" ? 0.25 : 1.0);
    }
    std::optional<double> field = config_.number(text);
    if (!field) throw Error(ErrorCode::corrupt, "config.json has no " + core::quote(text));
    return *field;
  }

  const ConfigFields& config_;
};

/// What "id2label" calls the classes, by their numbers; none for the two that a model has where nobody named them.
std::vector<std::string> class_labels(const ConfigFields& config) {
  std::optional<JsonView> names = config.find("id2label");
  if (!names || !names->is(JsonView::Kind::object)) return {};
  std::map<std::int64_t, std::string> by_number;
  for (const auto& [number, name] : names->members()) {
    std::int64_t at = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), at);
    const bool counted = error == std::errc() && end == number.data() + number.size();
    if (!counted || !name.is(JsonView::Kind::text)) config.refuse("id2label", "does not name classes by their numbers");
    by_number[at] = name.as_text();
  }
  std::vector<std::string> labels;
  for (const auto& [number, name] : by_number) labels.push_back(name);
  const bool unnamed = labels.size() == 2 && by_number.begin()->first == 0 && labels[0] == "LABEL_0";
  return unnamed ? std::vector<std::string>() : labels;
}

detail::ModelNumbers numbers_of(const GgufArchitecture& architecture, const ConfigFields& config) {
  std::map<std::string_view, double> values;
  const FieldValues fields(config);
  for (const GgufField& field : architecture.fields) {
    if (std::optional<double> value = fields.find(field)) values[field.key] = *value;
  }
  auto whole = [&](const char* key, double fallback) {
    const double value = values.contains(key) ? values[key] : fallback;
    const bool sensible = value == std::floor(value) && std::fabs(value) < 1e15;
    return sensible ? static_cast<std::int64_t>(value) : -1;
  };
  detail::ModelNumbers out;
  out.layers = whole("block_count", 0);
  out.width = whole("embedding_length", 0);
  out.heads = whole("attention.head_count", 0);
  out.kv_heads = whole("attention.head_count_kv", static_cast<double>(out.heads));
  out.head_dim = whole("attention.key_length", out.heads > 0 ? static_cast<double>(out.width / out.heads) : 0);
  out.decoder_layers = whole("decoder_block_count", 0);
  out.gated = config.text("feed_forward_proj").value_or("").starts_with("gated-");
  out.named_classes = !class_labels(config).empty();
  core::with_context("config.json", [&] { detail::require_sensible(out); });
  return out;
}

/// What scales rotary positions beyond their base.
class RopeFields {
 public:
  RopeFields(const GgufArchitecture& architecture, const ConfigFields& config, const detail::ModelNumbers& numbers)
      : architecture_(architecture), config_(config), numbers_(numbers) {
    std::optional<std::string> type = config.text("rope_type");
    if (!type) type = config.text("type");
    type_ = type.value_or("default");
  }

  void add_values(GgufValues& values) const {
    const std::string prefix = std::string(architecture_.name) + ".rope.scaling.";
    if (type_ == "default" || type_ == "llama3" || is_phi3()) return;
    if ((type_ != "linear" && type_ != "yarn") || architecture_.name == "gemma2") refuse();
    values.add_text(prefix + "type", type_);
    values.add_number(prefix + "factor", GgufValueType::f32, need("factor"));
    if (type_ != "yarn") return;
    values.add_u32(prefix + "original_context_length", need("original_max_position_embeddings"));
    const std::pair<const char*, const char*> more[] = {{"extrapolation_factor", "yarn_ext_factor"},
                                                        {"attention_factor", "yarn_attn_factor"},
                                                        {"beta_fast", "yarn_beta_fast"},
                                                        {"beta_slow", "yarn_beta_slow"}};
    for (const auto& [field, key] : more) {
      if (std::optional<double> value = config_.number(field))
        values.add_number(prefix + key, GgufValueType::f32, *value);
    }
  }

  /// Factors that llama.cpp reads as tensors.
  std::vector<std::pair<std::string, std::vector<float>>> tensors(GgufValues& values) const {
    if (type_ == "llama3" && architecture_.name == "llama") {
      detail::RopeScaling scaling{.theta = config_.number("rope_theta").value_or(10000),
                                  .factor = config_.number("factor").value_or(8),
                                  .low = config_.number("low_freq_factor").value_or(1),
                                  .high = config_.number("high_freq_factor").value_or(4),
                                  .context = config_.number("original_max_position_embeddings").value_or(8192)};
      return {{"rope_freqs.weight", detail::llama3_rope_factors(scaling, numbers_.head_dim)}};
    }
    if (type_ == "llama3") refuse();
    return is_phi3() ? long_rope(values) : std::vector<std::pair<std::string, std::vector<float>>>();
  }

 private:
  bool is_phi3() const { return architecture_.name == "phi3"; }

  std::vector<std::pair<std::string, std::vector<float>>> long_rope(GgufValues& values) const {
    if (type_ == "default") return {};
    if (type_ != "longrope" && type_ != "su") refuse();
    const double context = config_.number("original_max_position_embeddings").value_or(4096);
    const double scale = config_.number("max_position_embeddings").value_or(4096) / context;
    const double attention = scale > 1 ? std::sqrt(1 + std::log(scale) / std::log(context)) : 1.0;
    values.add_number("phi3.rope.scaling.attn_factor", GgufValueType::f32, attention);
    std::vector<std::pair<std::string, std::vector<float>>> out;
    for (const char* which : {"long", "short"}) {
      const std::vector<double> factors = config_.numbers(std::string(which) + "_factor");
      if (static_cast<std::int64_t>(factors.size()) != numbers_.head_dim / 2) {
        config_.refuse(std::string(which) + "_factor", "has " + std::to_string(factors.size()) +
                                                           " numbers where a head has " +
                                                           std::to_string(numbers_.head_dim / 2) + " frequencies");
      }
      out.emplace_back("rope_factors_" + std::string(which) + ".weight",
                       std::vector<float>(factors.begin(), factors.end()));
    }
    return out;
  }

  double need(const char* field) const {
    std::optional<double> value = config_.number(field);
    if (!value) config_.refuse(field, "is missing, which rope_type " + core::quote(type_) + " needs");
    return *value;
  }
  [[noreturn]] void refuse() const {
    config_.refuse("rope_type", "is " + core::quote(type_) + ", which is not written for " +
                                    std::string(architecture_.name) + " models");
  }

  const GgufArchitecture& architecture_;
  const ConfigFields& config_;
  const detail::ModelNumbers& numbers_;
  std::string type_;
};

/// "llama-3.2" -> "Llama 3.2", as gguf-py makes a name of a folder's.
std::string title_of(const fs::path& folder) {
  fs::path named = folder.filename().empty() ? folder.parent_path().filename() : folder.filename();
  if (named == "." || named == ".." || named.empty()) named = fs::absolute(folder).lexically_normal().filename();
  std::string text = named.string();
  std::ranges::replace(text, '-', ' ');
  std::string out;
  for (std::string_view word : core::split(text, ' ')) {
    if (word.empty()) continue;
    std::string part(word);
    const bool lower = std::ranges::none_of(part, [](char c) { return c >= 'A' && c <= 'Z'; });
    const bool version = part.size() > 1 && part[0] == 'v' && part[1] >= '0' && part[1] <= '9';
    bool begins = true;
    for (char& c : part) {
      const bool letter = c >= 'a' && c <= 'z';
      if (letter && begins && lower && !version) c = static_cast<char>(c - 'a' + 'A');
      begins = !(letter || (c >= 'A' && c <= 'Z'));
    }
    out += (out.empty() ? "" : " ") + part;
  }
  return out;
}

/// "1.2B", "110K".
std::string size_label(std::uint64_t values) {
  const std::pair<double, const char*> units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  for (const auto& [unit, suffix] : units) {
    if (static_cast<double>(values) <= unit && unit > 1e3) continue;
    const double scaled = static_cast<double>(values) / unit;
    std::array<char, 40> text = {};
    const int digits = std::nearbyint(scaled) >= 10 ? 0 : std::nearbyint(scaled) >= 1 ? 1 : 2;
    std::snprintf(text.data(), text.size(), "%.*f%s", digits, scaled, suffix);
    return text.data();
  }
  return "";
}

void add_sampling(GgufValues& values, const fs::path& folder, detail::Links links) {
  std::optional<ConfigFields> settings = ConfigFields::read(folder, "generation_config.json", links);
  if (!settings) return;
  if (std::optional<double> k = settings->number("top_k")) {
    values.add_number("general.sampling.top_k", GgufValueType::i32, *k);
  }
  const std::pair<const char*, const char*> numbers[] = {
      {"top_p", "top_p"}, {"min_p", "min_p"}, {"temperature", "temp"}, {"repetition_penalty", "penalty_repeat"}};
  for (const auto& [field, key] : numbers) {
    std::optional<double> value = settings->number(field);
    if (value) values.add_number("general.sampling." + std::string(key), GgufValueType::f32, *value);
  }
}

class Converter {
 public:
  Converter(const Checkpoint& weights, const fs::path& folder, const GgufModelOptions& options, GgufModelReport& report)
      : weights_(weights),
        folder_(folder),
        options_(options),
        report_(report),
        files_(detail::read_tokenizer_files(folder, links_for(options.allow_symlinks))) {
    const GgufArchitecture* found = files_.config ? architecture_of(*files_.config) : nullptr;
    if (found == nullptr) {
      const std::string name = files_.config ? class_of(*files_.config) : "";
      throw Error(ErrorCode::unsupported,
                  "config.json names " + (name.empty() ? "no one model" : core::quote(name)) +
                      ", and only models of these architectures become files of llama.cpp: " + architecture_names());
    }
    architecture_ = found;
    report_.architecture = found->name;
    numbers_ = numbers_of(*found, *files_.config);
    detail::require_computed(*found, *files_.config, numbers_, options.dequantized);
  }

  Checkpoint run() {
    Checkpoint out;
    out.path = weights_.path;
    out.root = tensors();
    auto stored = std::make_shared<detail::GgufDetail>();
    stored->values = values(out.root).all();
    for (const detail::GgufValue& value : stored->values) {
      out.metadata.emplace_back(value.key, detail::metadata_text(value));
    }
    out.detail = std::move(stored);
    return out;
  }

 private:
  Value tensors() {
    Checkpoint plain;
    plain.root = without_prefix(*choose_state_dict(weights_.root, "").value);
    const std::vector<NamedEntry> entries = list_entries(plain.root);
    const RulePack pack = detail::architecture_pack(*architecture_, numbers_);
    const Checkpoint renamed = apply_rules(plain, rules_for(pack, detail::named_shapes(entries)));
    const std::vector<NamedEntry> made = list_entries(renamed.root);
    detail::require_complete(made, numbers_, "config.json");
    require_head(made);
    Dict dict;
    for (const auto& [name, factors] : RopeFields(*architecture_, *files_.config, numbers_).tensors(rope_values_)) {
      dict.items.emplace_back(Value::text(name), Value::tensor(float_entry(factors)));
    }
    for (const NamedEntry& named : made) {
      dict.items.emplace_back(Value::text(named.name), Value::tensor(with_type(named)));
    }
    return Value::dict(std::move(dict));
  }

  /// A plain dict without the tensors that llama.cpp has no place for.
  Value without_prefix(const Value& state) {
    Dict dict;
    std::size_t spare = 0;
    for (const NamedEntry& named : list_entries(state)) {
      std::string name = named.name;
      if (!architecture_->old_prefix.empty() && name.starts_with(architecture_->old_prefix)) {
        name.erase(0, architecture_->old_prefix.size());
      }
      if (matches_any(architecture_->left_out, name)) {
        report_.left_out.push_back(named.name);
      } else if (is_spare(name, *named.entry)) {
        ++spare;
      } else {
        EntryPtr entry = changed(name, named.entry);
        dict.items.emplace_back(Value::text(std::move(name)), Value::tensor(std::move(entry)));
      }
    }
    if (spare > 0) {
      report_.notes.push_back("biases of zeros that such a model does not have are left out: " + std::to_string(spare));
    }
    return Value::dict(std::move(dict));
  }

  /// With the values that llama.cpp computes with.
  EntryPtr changed(const std::string& name, const EntryPtr& entry) const {
    if (entry->blocks) return entry;
    if (architecture_->shifted_norms && name.ends_with("norm.weight")) return detail::plus(*entry, 1);
    if (!architecture_->chopped_positions || name != "embeddings.position_embeddings.weight") return entry;
    return detail::without_rows(*entry, spare_positions());
  }

  /// Rows of the table of positions that no position has.
  std::int64_t spare_positions() const {
    if (!architecture_->chopped_positions) return 0;
    const double pad = files_.config->number("pad_token_id").value_or(1);
    if (pad >= 0 && pad < detail::kMostSparePositions && pad == std::floor(pad))
      return static_cast<std::int64_t>(pad) + 1;
    files_.config->refuse("pad_token_id", "is " + core::python_float(pad) + ", before which no position can lie");
  }

  bool is_spare(const std::string& name, const Entry& entry) const {
    if (!options_.dequantized || entry.blocks || entry.bytes == nullptr) return false;
    return matches_any(architecture_->spare_biases, name) &&
           std::ranges::all_of(read_all(*entry.bytes), [](std::byte byte) { return byte == std::byte{0}; });
  }

  void require_head(const std::vector<NamedEntry>& made) const {
    const bool there = std::ranges::any_of(made, [](const NamedEntry& named) { return named.name == "output.weight"; });
    const bool tied = files_.config->flag("tie_word_embeddings", architecture_->tied);
    if (there || tied || !architecture_->has_head) return;
    throw Error(ErrorCode::value,
                "the weights have no head of their own (lm_head.weight), and config.json does not say that it is tied "
                "to the embedding of tokens");
  }

  static EntryPtr float_entry(const std::vector<float>& numbers) {
    auto entry = std::make_shared<Entry>();
    entry->dtype = DType::f32;
    entry->shape = core::Shape{static_cast<std::int64_t>(numbers.size())};
    core::ByteVector bytes;
    for (float number : numbers) core::append_le(bytes, number);
    entry->bytes = memory_source(std::move(bytes));
    return entry;
  }

  EntryPtr with_type(const NamedEntry& named) const {
    const Entry& entry = *named.entry;
    if (entry.blocks || !core::is_floating(entry.dtype) || !can_cast(entry.dtype)) {
      throw Error(ErrorCode::unsupported, "the tensor " + core::quote(named.name) + " is of type " + type_name(entry) +
                                              "; models of llama.cpp are made of float tensors");
    }
    if (core::bit_width(entry.dtype) <= 8 && files_.config->has("quantization_config")) {
      throw Error(ErrorCode::unsupported, "the tensor " + core::quote(named.name) + " is of type " + type_name(entry) +
                                              " and has no scale, and config.json says that weights are quantized");
    }
    const bool wide = entry.dtype == DType::f32 || entry.dtype == DType::f16 || entry.dtype == DType::bf16;
    DType to = options_.dtype.value_or(wide ? entry.dtype : DType::f32);
    if (is_gguf_float(named.name, entry)) to = DType::f32;
    auto made =
        to == entry.dtype ? std::make_shared<Entry>(entry) : std::make_shared<Entry>(*detail::with_dtype(entry, to));
    made->parameter = made->requires_grad = false;
    return made;
  }

  GgufValues values(const Value& root) {
    GgufValues out;
    out.add_text("general.architecture", architecture_->name);
    out.add_text("general.type", "model");
    add_sampling(out, folder_, files_.links);
    out.add_text("general.name", title_of(folder_));
    std::uint64_t count = 0;
    for (const NamedEntry& named : list_entries(root)) count += named.entry->numel();
    out.add_text("general.size_label", size_label(count));
    add_fields(out);
    out.add_u32("general.file_type", file_type(root));
    out.add_u32("general.quantization_version", 2);
    const auto* embedding = find_embedding(root);
    const std::int64_t tokens = embedding == nullptr ? -1 : value_shape(*embedding)[0];
    core::with_context(folder_.string(), [&] { add_tokenizer(out, files_, *architecture_, tokens, report_.notes); });
    return out;
  }

  void add_fields(GgufValues& out) const {
    const FieldValues fields(*files_.config);
    const std::string prefix = std::string(architecture_->name) + ".";
    for (const GgufField& field : architecture_->fields) {
      if (field.fallback == "-" && !files_.config->has(field.field)) continue;
      double value = fields.require(field);
      if (field.key == "context_length") value -= static_cast<double>(spare_positions());
      if (field.type == GgufValueType::boolean) {
        out.add_flag(prefix + std::string(field.key), value != 0);
      } else {
        const bool whole = field.type != GgufValueType::f32;
        out.add_number(prefix + std::string(field.key), field.type, whole ? std::floor(value) : value);
      }
    }
    if (architecture_->name == "bert") out.add_flag("bert.attention.causal", false);
    const std::vector<std::string> labels = class_labels(*files_.config);
    if (architecture_->name == "bert" && !labels.empty()) out.add_texts("bert.classifier.output_labels", labels);
    RopeFields(*architecture_, *files_.config, numbers_).add_values(out);
    for (const detail::GgufValue& value : rope_values_.all())
      out.add_number(value.key, value.type, *rope_values_.number(value.key));
  }

  static const Entry* find_embedding(const Value& root) {
    for (const auto& [name, value] : root.as_dict().items) {
      if (name.as_text() == "token_embd.weight") return &value.as_entry();
    }
    return nullptr;
  }

  /// llama.cpp's number for what most matrices are: 0 f32, 1 f16, 32 bf16.
  static double file_type(const Value& root) {
    std::map<DType, std::uint64_t> bytes;
    for (const NamedEntry& named : list_entries(root)) {
      if (!is_gguf_float(named.name, *named.entry)) bytes[named.entry->dtype] += named.entry->numel();
    }
    const std::pair<DType, double> kinds[] = {{DType::f16, 1}, {DType::bf16, 32}};
    double number = 0;
    std::uint64_t most = bytes[DType::f32];
    for (const auto& [dtype, kind] : kinds) {
      if (bytes[dtype] <= most) continue;
      most = bytes[dtype];
      number = kind;
    }
    return number;
  }

  const Checkpoint& weights_;
  fs::path folder_;
  const GgufModelOptions& options_;
  GgufModelReport& report_;
  detail::TokenizerFiles files_;
  const GgufArchitecture* architecture_ = nullptr;
  detail::ModelNumbers numbers_;
  GgufValues rope_values_;
};

}  // namespace

std::string hub_class(const fs::path& folder, bool allow_symlinks) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return "";
  std::optional<ConfigFields> config = ConfigFields::read(folder, "config.json", links_for(allow_symlinks));
  return config ? class_of(*config) : "";
}

std::string gguf_architecture(const fs::path& folder, bool allow_symlinks) {
  const GgufArchitecture* found = detail::find_gguf_class(hub_class(folder, allow_symlinks));
  return found == nullptr ? "" : std::string(found->name);
}

std::string gguf_architecture(const Checkpoint& checkpoint) {
  auto stored = std::dynamic_pointer_cast<const detail::GgufDetail>(checkpoint.detail);
  if (stored == nullptr) return "";
  for (const auto& [key, text] : checkpoint.metadata) {
    if (key != "general.architecture") continue;
    const GgufArchitecture* found = detail::find_gguf_architecture(text);
    return found == nullptr ? "" : std::string(found->name);
  }
  return "";
}

std::size_t longest_gguf_name() {
  return detail::kGgufMaxName;
}

bool is_gguf_float(const std::string& name, const Entry& entry) {
  return entry.shape.size() < 2 || name.ends_with("_norm.weight") || !name.ends_with(".weight") ||
         name == "position_embd.weight" || name == "token_types.weight";
}

Checkpoint to_gguf_model(const Checkpoint& weights, const fs::path& folder, const GgufModelOptions& options,
                         GgufModelReport* report) {
  if (options.dtype && *options.dtype != DType::f32 && *options.dtype != DType::f16 && *options.dtype != DType::bf16) {
    throw Error(ErrorCode::value,
                "llama.cpp has matrices of f32, f16 and bf16, not of " + std::string(core::short_name(*options.dtype)));
  }
  GgufModelReport noted;
  Checkpoint out = Converter(weights, folder, options, noted).run();
  if (report != nullptr) *report = std::move(noted);
  return out;
}

}  // namespace ckpt
