#include <cmath>
#include <map>

#include "libckpt/children.h"
#include "libckpt/io/json.h"
#include "libckpt/open_save.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/lora.h"
#include "libckpt/transform/pattern.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaxConfigBytes = 16 << 20;
constexpr std::string_view kBaseModel = "base_model.model.";

/// Features that do more than change weights, or change them by other rules. Empty values turn them off.
constexpr std::string_view kUnsupported[] = {
    "lora_bias",    "trainable_token_indices", "target_parameters", "layer_replication", "use_qalora",
    "arrow_config", "alora_invocation_tokens", "use_bdlora",        "monteclora_config", "velora_config",
    "kasa_config",  "megatron_config"};

bool is_on(const JsonView& value) {
  switch (value.kind()) {
    case JsonView::Kind::null:
      return false;
    case JsonView::Kind::boolean:
      return value.as_boolean();
    case JsonView::Kind::array:
      return !value.items().empty();
    case JsonView::Kind::object:
      return !value.members().empty();
    default:
      return true;
  }
}

bool flag(const JsonView& config, std::string_view name) {
  return config.has(name) && is_on(config.at(name));
}

bool is_number(const JsonView& value) {
  return value.is(JsonView::Kind::real) || value.is(JsonView::Kind::integer) ||
         value.is(JsonView::Kind::unsigned_integer);
}

double number_in(const JsonView& value, std::string_view name) {
  const double number = is_number(value) ? value.as_real() : std::nan("");
  if (!std::isfinite(number)) throw Error(ErrorCode::corrupt, core::quote(name) + " is not a number");
  return number;
}

void require_supported(const JsonView& config) {
  if (!config.is(JsonView::Kind::object) || !config.has("peft_type") ||
      !config.at("peft_type").is(JsonView::Kind::text)) {
    throw Error(ErrorCode::corrupt, "is not the configuration of a PEFT adapter: it has no 'peft_type'");
  }
  const std::string_view type = config.at("peft_type").as_text();
  if (type != "LORA") {
    throw Error(ErrorCode::unsupported, "the adapter is of type " + core::quote(type) + "; only LORA can be read");
  }
  for (std::string_view name : kUnsupported) {
    if (flag(config, name)) {
      throw Error(ErrorCode::unsupported, "the adapter uses " + core::quote(name) + ", which cannot be merged here");
    }
  }
}

/// Initial values taken from the base's weights are taken out of them too: the adapter's changes are then those of
/// weights that no file holds.
void require_whole_base(const JsonView& config) {
  constexpr std::string_view kName = "init_lora_weights";
  if (!config.has(kName) || !config.at(kName).is(JsonView::Kind::text)) return;
  const std::string_view way = config.at(kName).as_text();
  for (std::string_view changes_base : {"pissa", "olora", "corda", "loftq"}) {
    if (way.starts_with(changes_base)) {
      throw Error(ErrorCode::unsupported,
                  "the adapter began as " + core::quote(way) +
                      ", which changes the base model too; save it with path_initial_model_for_weight_conversion in "
                      "PEFT, which makes it one of the unchanged model");
    }
  }
}

/// Numbers for modules whose names end as an expression says, in the order of the file.
template <class Number>
using EndingNumbers = std::vector<std::pair<std::string, Number>>;

template <class Number, class Read>
EndingNumbers<Number> ending_numbers(const JsonView& config, std::string_view name, Read read) {
  EndingNumbers<Number> out;
  if (!flag(config, name) || !config.at(name).is(JsonView::Kind::object)) return out;
  for (const auto& [ending, number] : config.at(name).members()) out.emplace_back(ending, read(number, name));
  return out;
}

template <class Number>
Number number_of(const EndingNumbers<Number>& numbers, const std::string& module, Number others) {
  for (const auto& [ending, number] : numbers) {
    if (Pattern::parse("re:(.*\\.)?(" + ending + ")").matches(module)) return number;
  }
  return others;
}

std::int64_t rank_in(const JsonView& value, std::string_view name) {
  if (!value.is_count()) throw Error(ErrorCode::corrupt, core::quote(name) + " is not a whole number");
  return value.as_integer();
}

/// Ranks that the configuration says, of which PEFT makes the matrices that it then fills from the file.
struct StatedRanks {
  static constexpr std::int64_t kNone = -1;
  std::int64_t rank = kNone;
  EndingNumbers<std::int64_t> patterns = {};
};

struct Settings {
  LoraConfig config;
  StatedRanks ranks;
};

StatedRanks parse_ranks(const JsonView& json) {
  StatedRanks ranks;
  if (json.has("r")) ranks.rank = rank_in(json.at("r"), "r");
  ranks.patterns = ending_numbers<std::int64_t>(json, "rank_pattern", rank_in);
  return ranks;
}

LoraConfig parse_config(const JsonView& json) {
  require_supported(json);
  require_whole_base(json);
  LoraConfig config;
  constexpr std::string_view kBase = "base_model_name_or_path";
  if (json.has(kBase) && json.at(kBase).is(JsonView::Kind::text)) config.base = json.at(kBase).as_text();
  if (json.has("lora_alpha")) config.alpha = number_in(json.at("lora_alpha"), "lora_alpha");
  config.rank_stabilized = flag(json, "use_rslora");
  config.directions = flag(json, "use_dora");
  config.fan_in_fan_out = flag(json, "fan_in_fan_out");
  config.alpha_patterns = ending_numbers<double>(json, "alpha_pattern", number_in);
  return config;
}

Settings read_settings(const fs::path& path) {
  SourcePtr file = open_file(path);
  return core::with_context(path.string(), [&] {
    if (file->size() > kMaxConfigBytes) {
      throw Error(ErrorCode::corrupt, core::format_size(file->size()) + " is too much for a configuration");
    }
    const core::ByteVector text = read_all(*file);
    const JsonDocument json = JsonDocument::parse(core::as_text(text));
    return Settings{parse_config(json.root()), parse_ranks(json.root())};
  });
}

/// A key of the adapter: the module, and which part of its change the tensor is.
struct LoraKey {
  enum class Part : std::uint8_t { a, b, embedding_a, embedding_b, magnitude, whole };
  std::string name;  ///< of the module; of the tensor where it is whole
  Part part = Part::whole;
};

/// "x.lora_A.weight", "x.lora_A.default.weight", "x.lora_embedding_A", "x.lora_embedding_A.default", ...
LoraKey parse_key(std::string_view key) {
  using Part = LoraKey::Part;
  static const std::map<std::string_view, Part> kParts = {{"lora_A", Part::a},
                                                          {"lora_B", Part::b},
                                                          {"lora_embedding_A", Part::embedding_a},
                                                          {"lora_embedding_B", Part::embedding_b},
                                                          {"lora_magnitude_vector", Part::magnitude}};
  if (key.starts_with(kBaseModel)) key.remove_prefix(kBaseModel.size());
  std::string module;
  for (std::string_view component : core::split(key, '.')) {
    auto part = kParts.find(component);
    if (part != kParts.end()) return {module, part->second};
    if (component.find("lora_") == 0) {
      throw Error(ErrorCode::unsupported, "the tensor " + core::quote(key) + " has no place in a LoRA adapter");
    }
    // Around modules that PEFT wraps: the layer itself, and a copy that was trained whole.
    if (component == "base_layer" || component == "modules_to_save") continue;
    module += (module.empty() ? "" : ".") + std::string(component);
  }
  return {module, Part::whole};
}

void require_stated_rank(const LoraTarget& target, const StatedRanks& ranks) {
  const std::int64_t stated = number_of(ranks.patterns, target.module, ranks.rank);
  if (stated == StatedRanks::kNone || stated == target.rank) return;
  throw Error(ErrorCode::corrupt, core::quote(target.module) + " has matrices of rank " + std::to_string(target.rank) +
                                      " where adapter_config.json says " + std::to_string(stated));
}

void finish_target(LoraTarget& target, const LoraConfig& config, const StatedRanks& ranks) {
  if (target.a == nullptr || target.b == nullptr) {
    throw Error(ErrorCode::corrupt, core::quote(target.module) + " has a matrix " +
                                        (target.a == nullptr ? "B without its A" : "A without its B"));
  }
  const core::Shape& a = target.a->shape;
  const core::Shape& b = target.b->shape;
  if (a.size() < 2 || b.size() < 2 || target.a->numel() == 0 || target.b->numel() == 0 || b[1] != a[0]) {
    throw Error(ErrorCode::corrupt, core::quote(target.module) + " has matrices A " + core::to_list(a) + " and B " +
                                        core::to_list(b) + ", which do not share a rank");
  }
  if (config.directions && target.magnitude == nullptr) {
    throw Error(ErrorCode::corrupt, core::quote(target.module) + " has no lora_magnitude_vector, which DoRA needs");
  }
  target.rank = a[0];
  const auto rank = static_cast<double>(target.rank);
  require_stated_rank(target, ranks);
  const double alpha = number_of(config.alpha_patterns, target.module, config.alpha);
  target.scale = alpha / (config.rank_stabilized ? std::sqrt(rank) : rank);
}

void take(LoraTarget& target, LoraKey::Part part, const EntryPtr& entry) {
  using Part = LoraKey::Part;
  target.embedding |= part == Part::embedding_a || part == Part::embedding_b;
  EntryPtr& place = part == Part::magnitude                        ? target.magnitude
                    : part == Part::a || part == Part::embedding_a ? target.a
                                                                   : target.b;
  if (place != nullptr) {
    throw Error(ErrorCode::unsupported,
                core::quote(target.module) + " has several adapters in one file; save the one that is meant");
  }
  place = entry;
}

/// An adapter of an embedding brings the embedding too, which has more rows than the base's where tokens were added.
void take_own_weights(LoraAdapter& adapter, const std::map<std::string, std::size_t>& places) {
  std::vector<NamedEntry> whole;
  for (NamedEntry& named : adapter.replaced) {
    constexpr std::string_view kWeight = ".weight";
    const bool is_weight = named.name.ends_with(kWeight);
    auto place = is_weight ? places.find(named.name.substr(0, named.name.size() - kWeight.size())) : places.end();
    if (place == places.end()) {
      whole.push_back(std::move(named));
    } else {
      adapter.targets[place->second].weight = named.entry;
    }
  }
  adapter.replaced = std::move(whole);
}

void group_tensors(LoraAdapter& adapter, const Value& root, const StatedRanks& ranks) {
  std::map<std::string, std::size_t> places;
  for (const NamedEntry& named : list_entries(root)) {
    LoraKey key = parse_key(named.name);
    if (key.part == LoraKey::Part::whole) {
      adapter.replaced.push_back(named);
      adapter.replaced.back().name = key.name;
      continue;
    }
    auto [place, is_new] = places.emplace(key.name, adapter.targets.size());
    if (is_new) adapter.targets.push_back({.module = key.name, .a = nullptr, .b = nullptr});
    take(adapter.targets[place->second], key.part, named.entry);
  }
  take_own_weights(adapter, places);
  for (LoraTarget& target : adapter.targets) finish_target(target, adapter.config, ranks);
  if (adapter.targets.empty()) throw Error(ErrorCode::corrupt, "holds no matrices of LoRA (lora_A, lora_B)");
}

}  // namespace

LoraAdapter open_lora(const fs::path& folder, const OpenOptions& options) {
  std::error_code error;
  const bool is_folder = fs::is_directory(folder, error);
  if (!fs::exists(folder, error)) throw Error(ErrorCode::io, folder.string() + ": cannot open: no such file or folder");
  LoraAdapter adapter;
  adapter.path = folder;
  const fs::path config = (is_folder ? folder : folder.parent_path()) / "adapter_config.json";
  if (!fs::exists(config, error)) {
    throw Error(ErrorCode::io, folder.string() + " is no PEFT adapter: it has no adapter_config.json");
  }
  const Settings settings = read_settings(config);
  adapter.config = settings.config;
  const Checkpoint file = open(folder, options);
  core::with_context(folder.string(),
                     [&] { group_tensors(adapter, *choose_state_dict(file.root, "").value, settings.ranks); });
  return adapter;
}

}  // namespace ckpt
