#include "libckpt/hub/lora_extract.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "libckpt/hub/low_rank.h"
#include "libckpt/hub/module_names.h"
#include "libckpt/io/json.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/same_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using detail::last_part;
using detail::module_of;

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBaseModel = "base_model.model.";
constexpr std::int64_t kMostRank = 65536;
constexpr double kMostAlpha = 1e9;       ///< factors are divided by its root
constexpr std::size_t kChunk = 1 << 17;  ///< values that are subtracted at a time
/// Names of tables that are looked up, not multiplied with, have one of these in their last part.
constexpr std::string_view kTables[] = {"emb", "wte", "wpe", "shared", "position", "relative_attention_bias"};
/// Of these, those that an output layer may share its memory with.
constexpr std::string_view kTiedTables[] = {"embed_tokens", "wte", "shared", "word_embeddings"};
constexpr std::string_view kOutputOfNeox = "embed_out";
/// Layers that GPT-2 of transformers stores as [in, out].
constexpr std::string_view kStoredInOut[] = {"c_attn", "c_proj", "c_fc", "q_attn"};

bool is_table(const std::string& module, const Entry& entry) {
  const std::string last = last_part(module);
  if (entry.shape.size() != 2 || last == kOutputOfNeox) return false;
  return std::ranges::any_of(kTables, [&](std::string_view part) { return last.find(part) != std::string_view::npos; });
}

/// One filter per channel: PEFT's factors of such a layer depend on its groups, which no file says.
bool is_depthwise(const Entry& entry) {
  return entry.shape.size() > 2 && entry.shape[1] == 1 && entry.shape[0] > 1;
}

EntryPtr factor_entry(std::vector<float> values, core::Shape shape) {
  auto entry = std::make_shared<Entry>();
  entry->dtype = DType::f32;
  entry->shape = std::move(shape);
  core::ByteVector bytes;
  core::append(bytes, std::as_bytes(std::span(values)));
  entry->bytes = memory_source(std::move(bytes));
  return entry;
}

std::vector<float> transposed(const std::vector<float>& matrix, std::size_t rows) {
  const std::size_t columns = matrix.size() / rows;
  std::vector<float> out(matrix.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = matrix[i * columns + j];
  }
  return out;
}

void require_usable(const Entry& entry) {
  if (entry.blocks) {
    throw Error(ErrorCode::unsupported, "the weight is in quantised blocks of type " + entry.blocks->name +
                                            "; extract from the values that they stand for");
  }
  if (entry.bytes == nullptr) throw Error(ErrorCode::unsupported, "a tensor on the meta device has no values");
  if (!core::is_floating(entry.dtype) || !can_cast(entry.dtype)) {
    throw Error(ErrorCode::unsupported, std::string(core::name(entry.dtype)) + " values cannot be computed with");
  }
}

/// Values [first, first + out.size()).
void read_values(const Entry& entry, std::size_t first, std::span<double> out, core::ByteVector& buffer) {
  const std::size_t width = static_cast<std::size_t>(core::bit_width(entry.dtype)) / 8;
  buffer.resize(out.size() * width);
  entry.bytes->read(first * width, buffer);
  cast_values(buffer, entry.dtype, std::as_writable_bytes(out), DType::f64);
}

/// tuned - base. Subtracted as f64: differences of f64 weights may be below what f32 tells apart.
std::vector<float> difference_of(const Entry& base, const Entry& tuned) {
  std::vector<float> out(base.numel());
  std::vector<double> old(std::min(kChunk, out.size()));
  std::vector<double> now(old.size());
  core::ByteVector buffer;
  for (std::size_t first = 0; first < out.size(); first += kChunk) {
    const std::size_t count = std::min(kChunk, out.size() - first);
    read_values(base, first, std::span(old).first(count), buffer);
    read_values(tuned, first, std::span(now).first(count), buffer);
    for (std::size_t i = 0; i < count; ++i) out[first + i] = static_cast<float>(now[i] - old[i]);
  }
  const bool finite = std::ranges::all_of(out, [](float value) { return std::isfinite(value); });
  if (!finite) throw Error(ErrorCode::refused, "the difference has a value that is not finite");
  return out;
}

class Extractor {
 public:
  Extractor(const Value& base, const Value& tuned, const ExtractLoraOptions& options, ExtractLoraReport& report)
      : options_(options), report_(report), chosen_(options.tensors), base_(list_entries(base)) {
    for (const NamedEntry& named : list_entries(tuned)) tuned_[named.name] = named.entry;
    for (const NamedEntry& named : base_) {
      by_name_[named.name] = named.entry;
      names_.add(named.name);
      const std::string module = module_of(named.name);
      const core::Shape& shape = named.entry->shape;
      stored_in_out_ |= last_part(module) == "c_attn" && shape.size() == 2 && shape[1] == 3 * shape[0];
      if (is_table(module, *named.entry)) tables_.insert(storage_identity(*named.entry));
    }
  }

  HubModel run() {
    for (const std::string& unused : chosen_.unmatched(base_)) {
      throw Error(ErrorCode::key, "no tensor of the base matches " + core::quote(unused));
    }
    const std::vector<NamedEntry> layers = sort_out();
    std::uint64_t done = 0, total = 0;
    for (const NamedEntry& layer : layers) total += layer.entry->byte_size();
    for (const NamedEntry& layer : layers) {
      core::with_context(core::quote(layer.name), [&] { extract(layer); });
      done += layer.entry->byte_size();
      if (options_.progress) options_.progress(done, total);
    }
    if (targets_.empty()) {
      throw Error(ErrorCode::key, layers.empty() ? "the two have no layer in common that an adapter could hold"
                                                 : "no layer differs: there is nothing to extract");
    }
    for (const std::string& name : differing_) keep_or_leave(name);
    report_.error = squares_ > 0 ? std::sqrt(error_squares_ / squares_) : 0;
    HubModel model;
    model.weights_name = "adapter_model.safetensors";
    model.weights.root = Value::dict(std::move(held_));
    model.weights.metadata = {{"format", "pt"}};
    core::ByteVector text;
    core::append(text, core::as_bytes(config()));
    model.files.emplace_back("adapter_config.json", std::move(text));
    return model;
  }

 private:
  bool is_layer(const NamedEntry& named) const {
    const Entry& entry = *named.entry;
    const std::string module = module_of(named.name);
    if (!named.name.ends_with(kWeight) || entry.shape.size() < 2 || is_depthwise(entry)) return false;
    if (is_table(module, entry) || tables_.contains(storage_identity(entry))) return false;
    // The adapter says once for all its layers which way a square one is stored.
    const bool square = entry.shape.size() == 2 && entry.shape[0] == entry.shape[1];
    return !stored_in_out_ || is_in_out(module) || !square;
  }

  bool is_in_out(const std::string& module) const {
    return stored_in_out_ && std::ranges::find(kStoredInOut, last_part(module)) != std::end(kStoredInOut);
  }

  bool is_chosen(const std::string& name, const Entry& entry) const { return chosen_.contains(name, entry); }

  /// Layers to look at; what else differs is noted.
  std::vector<NamedEntry> sort_out() {
    std::vector<NamedEntry> layers;
    for (const NamedEntry& named : base_) {
      auto other = tuned_.find(named.name);
      if (other == tuned_.end()) {
        report_.left_out.push_back(named.name);
      } else if (is_layer(named) && is_chosen(named.name, *named.entry)) {
        layers.push_back(named);
      } else if (detail::same_values(*named.entry, *other->second)) {
        ++report_.unchanged;
      } else {
        differing_.push_back(named.name);
      }
    }
    for (const auto& [name, entry] : tuned_) {
      if (!by_name_.contains(name)) report_.left_out.push_back(name);
    }
    return layers;
  }

  void extract(const NamedEntry& layer) {
    const Entry& base = *layer.entry;
    const Entry& tuned = *tuned_.at(layer.name);
    require_usable(base);
    require_usable(tuned);
    if (base.shape != tuned.shape) {
      throw Error(ErrorCode::value, "has the shape " + core::to_list(base.shape) + " in the base and " +
                                        core::to_list(tuned.shape) + " in the tuned model");
    }
    if (base.numel() == 0) {
      ++report_.unchanged;
      return;
    }
    const auto rows = static_cast<std::size_t>(base.shape[0]);
    detail::LowRank found = detail::low_rank_of(difference_of(base, tuned), rows, base.numel() / rows,
                                                static_cast<std::size_t>(options_.rank), options_.threads);
    if (found.norm == 0) {
      ++report_.unchanged;
      return;
    }
    const std::string module = module_of(layer.name);
    report_.layers.push_back({module, base.shape, found.norm, found.error});
    squares_ += found.norm * found.norm;
    error_squares_ += found.norm * found.norm * found.error * found.error;
    targets_.insert(module);
    add_factors(module, base.shape, std::move(found));
  }

  /// Of a weight [out, in] the product is B A; of one stored as [in, out] it is the transpose of that.
  void add_factors(const std::string& module, const core::Shape& shape, detail::LowRank found) {
    const std::int64_t rank = options_.rank;
    const auto columns = static_cast<std::int64_t>(found.right.size()) / rank;
    const auto scale = static_cast<float>(std::sqrt(static_cast<double>(rank) / alpha()));
    for (float& value : found.left) value *= scale;
    for (float& value : found.right) value *= scale;
    core::Shape a_shape = {rank, columns};
    core::Shape b_shape = {shape[0], rank};
    if (is_in_out(module)) {
      in_out_ = true;
      std::vector<float> a = transposed(found.left, static_cast<std::size_t>(shape[0]));
      found.left = transposed(found.right, static_cast<std::size_t>(rank));
      found.right = std::move(a);
      a_shape = {rank, shape[0]};
      b_shape = {columns, rank};
    } else if (shape.size() > 2) {
      a_shape = shape;
      a_shape[0] = rank;
      b_shape = core::Shape(shape.size(), 1);
      b_shape[0] = shape[0];
      b_shape[1] = rank;
    }
    hold(module + ".lora_A.weight", factor_entry(std::move(found.right), std::move(a_shape)));
    hold(module + ".lora_B.weight", factor_entry(std::move(found.left), std::move(b_shape)));
  }

  void hold(const std::string& name, EntryPtr entry) {
    held_.items.emplace_back(Value::text(std::string(kBaseModel) + name), Value::tensor(std::move(entry)));
  }

  double alpha() const { return options_.alpha > 0 ? options_.alpha : static_cast<double>(options_.rank); }

  /// A tensor that differs and is none of a layer that was extracted.
  void keep_or_leave(const std::string& name) {
    const std::string module = module_of(name);
    if (saved_.contains(module)) return;
    if (!options_.whole) {
      report_.left_out.push_back(name);
    } else if (targets_.contains(module)) {
      keep_bias(module, name);
    } else if (can_be_saved(module)) {
      saved_.insert(module);
      for (const std::string& tensor : names_.tensors_of(module)) {
        hold(tensor, tuned_.at(tensor));
        report_.whole.push_back(tensor);
      }
      note_tie(module);
    } else {
      report_.left_out.push_back(name);
    }
  }

  /// A file without an output layer of an embedding's shape is of a model that ties the two.
  void note_tie(const std::string& module) {
    const std::string last = last_part(module);
    if (std::ranges::find(kTiedTables, last) == std::end(kTiedTables)) return;
    const core::Shape& shape = by_name_.at(module + std::string(kWeight))->shape;
    const bool has_output = std::ranges::any_of(base_, [&](const NamedEntry& named) {
      return named.entry->shape == shape && module_of(named.name) != module && named.name.ends_with(kWeight);
    });
    if (has_output) return;
    report_.notes.push_back(core::quote(module) +
                            " is held whole; where the output layer of the model is tied to it, PEFT leaves that "
                            "layer at the base's values");
  }

  void keep_bias(const std::string& module, const std::string& name) {
    const EntryPtr& tuned = tuned_.at(name);
    if (last_part(name) != "bias" || !is_chosen(name, *tuned) || tuned->shape != by_name_.at(name)->shape) {
      report_.left_out.push_back(name);
      return;
    }
    has_biases_ = true;
    hold(module + ".base_layer.bias", tuned);
    report_.whole.push_back(name);
  }

  /// PEFT saves all tensors of such a module.
  bool can_be_saved(const std::string& module) const {
    if (!names_.can_be_saved(module)) return false;
    return std::ranges::all_of(names_.tensors_of(module), [&](const std::string& name) {
      auto tuned = tuned_.find(name);
      return tuned != tuned_.end() && tuned->second->shape == by_name_.at(name)->shape &&
             tuned->second->bytes != nullptr && !tuned->second->blocks && is_chosen(name, *tuned->second);
    });
  }

  std::string config() const {
    JsonWriter json(2);
    json.begin_object().key("peft_type").value("LORA").key("task_type").null();
    json.key("base_model_name_or_path").value(options_.base_name).key("inference_mode").value(true);
    json.key("r").value(options_.rank).key("lora_alpha");
    const double whole = std::floor(alpha());
    if (whole == alpha() && whole < 1e15) {
      json.value(static_cast<std::int64_t>(whole));
    } else {
      json.value(alpha());
    }
    names_.write_targets(json.key("target_modules"), targets_);
    json.key("lora_dropout").value(0.0).key("bias").value(has_biases_ ? "lora_only" : "none");
    json.key("fan_in_fan_out").value(in_out_).key("modules_to_save");
    if (saved_.empty()) {
      json.null();
    } else {
      json.begin_array();
      for (const std::string& module : saved_) json.value(module);
      json.end_array();
    }
    json.key("use_rslora").value(false).key("use_dora").value(false).key("init_lora_weights").value(true);
    return json.end_object().take() + "\n";
  }

  const ExtractLoraOptions& options_;
  ExtractLoraReport& report_;
  SelectionMatcher chosen_;
  std::vector<NamedEntry> base_;
  std::map<std::string, EntryPtr> by_name_;
  std::map<std::string, EntryPtr> tuned_;
  detail::ModuleNames names_;
  std::set<const void*> tables_;        ///< the memory of embeddings; an output layer may share it
  std::vector<std::string> differing_;  ///< tensors that are no layers to look at
  std::set<std::string> targets_;       ///< modules with factors
  std::set<std::string> saved_;         ///< modules held whole
  bool stored_in_out_ = false;          ///< the base is a GPT-2
  bool in_out_ = false;                 ///< a layer that was extracted is stored as [in, out]
  bool has_biases_ = false;
  Dict held_;
  double squares_ = 0, error_squares_ = 0;
};

}  // namespace

HubModel extract_lora(const Checkpoint& base, const Checkpoint& tuned, const ExtractLoraOptions& options,
                      ExtractLoraReport* report) {
  if (options.rank < 1 || options.rank > kMostRank) {
    throw Error(ErrorCode::usage, "the rank is " + std::to_string(options.rank) + "; it is 1 to 65,536");
  }
  if (!std::isfinite(options.alpha) || options.alpha < 0) {
    throw Error(ErrorCode::usage, "alpha is not a positive number");
  }
  if (options.alpha != 0 && (options.alpha < 1 / kMostAlpha || options.alpha > kMostAlpha)) {
    throw Error(ErrorCode::usage,
                "alpha is " + core::python_float(options.alpha) + "; factors in float32 allow 1e-09 to 1e+09");
  }
  ExtractLoraReport noted;
  HubModel model = Extractor(*choose_state_dict(base.root, options.base_at).value,
                             *choose_state_dict(tuned.root, options.tuned_at).value, options, noted)
                       .run();
  if (report != nullptr) *report = std::move(noted);
  return model;
}

}  // namespace ckpt
