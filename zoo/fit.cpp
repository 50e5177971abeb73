#include "zoo/fit.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libcore/base/error.h"
#include "zoo/family.h"
#include "zoo/made_as.h"
#include "zoo/measure.h"
#include "zoo/nanogpt.h"
#include "zoo/recurrent.h"
#include "zoo/rules/rule_packs.h"

namespace zoo {
namespace {

using core::Error;
using core::ErrorCode;
using Made = std::shared_ptr<core::Module>;

/// nullopt when the model has no such option.
std::optional<ckpt::KeyList> layout(std::string_view name, const ModelOptions& options) {
  const MadeAs scope(core::Device("meta"));
  try {
    const Made module = make(name, options);
    return key_list_of(*module, name);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::usage || error.code() == ErrorCode::unsupported) return std::nullopt;
    throw;
  }
}

using Shapes = std::map<std::string, core::Shape, std::less<>>;

Shapes shapes_of(const ckpt::KeyList& list) {
  Shapes shapes;
  for (const ckpt::WantedKey& key : list.keys) {
    if (key.shape) shapes.emplace(key.key, *key.shape);
  }
  return shapes;
}

/// A file's tensors: as they are, and under the model's names as far as `why` finds the way.
struct File {
  ckpt::Checkpoint checkpoint;
  std::vector<ckpt::NamedEntry> entries;
  Shapes renamed;

  const ckpt::NamedEntry* find(std::string_view key) const {
    for (const ckpt::NamedEntry& named : entries) {
      if (ends_with_key(named.name, key)) return &named;
    }
    return nullptr;
  }
};

File open_file(const std::filesystem::path& path, const LoadOptions& options) {
  ckpt::OpenOptions open = options.open;
  open.foreign_objects = true;
  File file;
  file.checkpoint = ckpt::open(path, open);
  file.entries = ckpt::list_entries(file.checkpoint.root);
  return file;
}

void rename(File& file, const std::filesystem::path& path, const ckpt::KeyList& wanted, const LoadOptions& options) {
  ckpt::WhyOptions asked;
  asked.wanted = {wanted};
  asked.at = options.at;
  asked.packs = [&]() -> const std::vector<ckpt::RulePack>& { return rule_packs(); };
  const ckpt::Diagnosis diagnosis = ckpt::why(path, asked);
  if (!diagnosis.readable || diagnosis.loads()) return;
  ckpt::FixPlan plan = diagnosis.plan;
  const std::string at = plan.empty() ? options.at : plan.at;
  // A head of another size is what the plan drops and what is looked for here.
  std::erase_if(plan.steps, [](const ckpt::FixStep& step) { return step.kind == ckpt::FixStep::Kind::drop; });
  const ckpt::Checkpoint fixed = ckpt::apply_fix(file.checkpoint, plan);
  file.renamed = shapes_of(ckpt::key_list_of(fixed, std::string(wanted.name), at));
}

/// A number that no model has by itself.
constexpr std::int64_t kProbe = 9973;

/// The size that `shape_of` gives where a model made with kProbe has kProbe; nullopt where it says nothing.
template <class ShapeOf>
std::optional<std::int64_t> size_at(const ckpt::KeyList& probed, const ShapeOf& shape_of) {
  for (const ckpt::WantedKey& key : probed.keys) {
    const core::Shape* there = shape_of(key.key);
    if (!key.shape || there == nullptr || there->size() != key.shape->size()) continue;
    for (std::size_t d = 0; d < key.shape->size(); ++d) {
      if ((*key.shape)[d] == kProbe) return (*there)[d];
    }
  }
  return std::nullopt;
}

/// The size in the file, where it is not the model's own.
std::optional<std::int64_t> other_size(const File& file, const ckpt::KeyList& plain, const ckpt::KeyList& probed) {
  const Shapes own = shapes_of(plain);
  auto in_model = [&](const std::string& key) {
    auto found = own.find(key);
    return found == own.end() ? nullptr : &found->second;
  };
  auto in_file = [&](const std::string& key) -> const core::Shape* {
    if (auto found = file.renamed.find(key); found != file.renamed.end()) return &found->second;
    // A head that only a model with classes has goes by its own name.
    const ckpt::NamedEntry* named = own.contains(key) ? nullptr : file.find(key);
    return named == nullptr ? nullptr : &named->entry->shape;
  };
  const auto there = size_at(probed, in_file);
  return there && *there > 0 && there != size_at(probed, in_model) ? there : std::nullopt;
}

Fit fit_named(std::string_view name, const std::filesystem::path& path, File& file, const LoadOptions& options) {
  ModelOptions chosen = options.model;
  const std::optional<ckpt::KeyList> plain = layout(name, chosen);
  if (!plain) return {make(name, chosen), ""};  // says what is wrong with the options
  rename(file, path, *plain, options);
  std::string text;
  auto choose = [&](std::int64_t ModelOptions::*option, const char* one, const char* many) {
    if (chosen.*option != 0) return;
    ModelOptions probe = chosen;
    probe.*option = kProbe;
    const auto probed = layout(name, probe);
    const auto size = probed ? other_size(file, *plain, *probed) : std::nullopt;
    if (!size) return;
    chosen.*option = *size;
    text += (text.empty() ? "" : ", ") + std::to_string(*size) + " " + (*size == 1 ? one : many);
  };
  choose(&ModelOptions::num_classes, "class", "classes");
  choose(&ModelOptions::in_channels, "channel", "channels");
  return {make(name, chosen), text};
}

const core::Shape& shape_in(const File& file, std::string_view key) {
  const ckpt::NamedEntry* named = file.find(key);
  if (named == nullptr || named->entry->shape.size() != 2) {
    throw Error(ErrorCode::unsupported, "has no matrix " + std::string(key) + ", which such a model has");
  }
  return named->entry->shape;
}

/// How many keys there are in a row: "h.0.x", "h.1.x", ...
std::int64_t count_in(const File& file, const std::string& before, const std::string& after) {
  std::int64_t count = 0;
  while (file.find(before + std::to_string(count) + after) != nullptr) ++count;
  return count;
}

/// model_args of a training script's checkpoint.
std::int64_t argument_in(const File& file, std::string_view name) {
  const ckpt::Value* arguments = file.checkpoint.root.find("model_args");
  const ckpt::Value* value = arguments == nullptr ? nullptr : arguments->find(name);
  return value != nullptr && value->is(ckpt::Value::Kind::integer) ? value->as_integer() : 0;
}

std::int64_t heads_of(const File& file, const NanoGPT::Options& sizes, const NanoGPT::Options& own,
                      std::int64_t asked) {
  std::int64_t heads = asked != 0 ? asked : argument_in(file, "n_head");
  if (heads == 0 && sizes.n_embd == own.n_embd && sizes.n_layer == own.n_layer) heads = own.n_head;
  if (heads == 0) throw Error(ErrorCode::usage, "the file does not say how many attention heads the model has");
  if (heads < 0 || sizes.n_embd % heads != 0) {
    throw Error(ErrorCode::usage,
                std::to_string(heads) + " attention heads do not divide its width of " + std::to_string(sizes.n_embd));
  }
  return heads;
}

/// Another project's names of GPT-2 are left to load(): they have the same keys and matrices stored (in, out).
bool is_nanogpt(const File& file) {
  const ckpt::NamedEntry* matrix = file.find("transformer.h.0.attn.c_attn.weight");
  return matrix != nullptr && matrix->entry->shape.size() == 2 &&
         matrix->entry->shape[0] == 3 * matrix->entry->shape[1];
}

Fit fit_nanogpt(std::string_view name, const File& file, std::int64_t heads) {
  NanoGPT::Options own;
  if (name == "nanogpt_shakespeare_char") own = {.n_layer = 6, .n_head = 6, .n_embd = 384};
  const core::Shape& tokens = shape_in(file, "transformer.wte.weight");
  NanoGPT::Options sizes{.block_size = shape_in(file, "transformer.wpe.weight")[0],
                         .vocab_size = tokens[0],
                         .n_layer = count_in(file, "transformer.h.", ".ln_1.weight"),
                         .n_embd = tokens[1],
                         .bias = file.find("transformer.ln_f.bias") != nullptr};
  sizes.n_head = heads_of(file, sizes, own, heads);
  return {std::make_shared<NanoGPT>(sizes), std::to_string(sizes.n_layer) + " layers, " + std::to_string(sizes.n_head) +
                                                " heads, width " + std::to_string(sizes.n_embd) + ", " +
                                                std::to_string(sizes.block_size) + " positions, " +
                                                std::to_string(sizes.vocab_size) + " tokens"};
}

/// What shapes say of the family, and what the caller says of the rest.
struct Sizes {
  Measured file;
  std::optional<Measured> own;  ///< of the model as it is named; nullopt for a family
};

std::optional<Sizes> sizes_of(std::string_view name, const Family& family, const File& file) {
  auto in_file = [&](const std::string& key) -> const core::Shape* {
    const ckpt::NamedEntry* named = file.find(key);
    return named == nullptr ? nullptr : &named->entry->shape;
  };
  std::optional<Measured> measured = measure(family.name, in_file);
  if (!measured) return std::nullopt;
  Sizes sizes{std::move(*measured), std::nullopt};
  const std::optional<ckpt::KeyList> plain = zoo::find(name) == nullptr ? std::nullopt : layout(name, {});
  if (!plain) return sizes;
  const Shapes own = shapes_of(*plain);
  sizes.own = measure(family.name, [&](const std::string& key) -> const core::Shape* {
    for (const auto& [known, shape] : own) {
      if (ends_with_key(known, key)) return &shape;
    }
    return nullptr;
  });
  return sizes;
}

/// Whether the file's model differs from the named one in more than what every model can be asked for.
bool has_other_sizes(const Sizes& sizes, const Family& family) {
  if (!sizes.own) return true;
  const auto& fields = sizes.file.config.fields();
  return std::any_of(fields.begin(), fields.end(), [&](const auto& field) {
    if (field.first == family.classes || field.first == family.channels) return false;
    const std::string* own = sizes.own->config.json_of(field.first);
    return own == nullptr || *own != field.second;
  });
}

/// Of decoders whose keys serve several heads: how many, once it is known how many heads there are.
void set_groups(Config& config, const File& file) {
  const ckpt::NamedEntry* out = file.find("layers.0.self_attn.o_proj.weight");
  const ckpt::NamedEntry* key = file.find("layers.0.self_attn.k_proj.weight");
  const std::string* said = config.json_of("num_attention_heads");
  if (out == nullptr || key == nullptr || said == nullptr || config.has("num_key_value_heads")) return;
  std::int64_t heads = 0;
  std::from_chars(said->data(), said->data() + said->size(), heads);
  if (heads <= 0 || out->entry->shape.size() != 2 || out->entry->shape[1] % heads != 0) return;
  if (key->entry->shape.size() != 2 || out->entry->shape[1] < heads) return;
  const std::int64_t width = out->entry->shape[1] / heads;
  config.set("num_key_value_heads", std::to_string(key->entry->shape[0] / width));
  config.set("head_dim", std::to_string(width));
}

Fit fit_measured(std::string_view name, const File& file, const Sizes& sizes, const FitOptions& options) {
  auto [family, config] = resolve(name, sizes.file.config.with(options.config));
  const std::string heads(heads_field(family->name));
  if (options.heads > 0 && !heads.empty()) config.set(heads, std::to_string(options.heads));
  auto width_in = [&](const Config& of) { return of.json_of(sizes.file.width); };
  const bool own_width = sizes.own && width_in(sizes.own->config) != nullptr &&
                         width_in(sizes.file.config) != nullptr &&
                         *width_in(sizes.own->config) == *width_in(sizes.file.config);
  for (const std::string& field : sizes.file.unsaid) {
    const bool given = options.config.has(field) || (field == heads && options.heads > 0);
    if (given || own_width) continue;
    throw Error(ErrorCode::usage, "no shape says what the field '" + field + "' of " + std::string(family->name) +
                                      " is; " +
                                      (field == heads ? "FitOptions::heads says it" : "set it in FitOptions::config"));
  }
  set_groups(config, file);
  std::string text;
  for (const auto& [field, value] : sizes.file.config.fields()) {
    const std::string* own = sizes.own ? sizes.own->config.json_of(field) : nullptr;
    if (own == nullptr || *own != value) text += (text.empty() ? "" : ", ") + field + " " + value;
  }
  return {build(*family, config), text};
}

template <class Net>
Fit fit_characters(const File& file, const std::string& cell) {
  const core::Shape& table = shape_in(file, "embedding.weight");
  const CharOptions sizes{.vocabulary = table[0],
                          .embedding = table[1],
                          .hidden = shape_in(file, cell + ".weight_hh_l0")[1],
                          .layers = count_in(file, cell + ".weight_hh_l", "")};
  return {std::make_shared<Net>(sizes), std::to_string(sizes.layers) + (sizes.layers == 1 ? " layer" : " layers") +
                                            " of width " + std::to_string(sizes.hidden) + ", " +
                                            std::to_string(sizes.vocabulary) + " characters"};
}

}  // namespace

Fit fit(std::string_view name, const std::filesystem::path& file, const FitOptions& options) {
  const Family& family = *resolve(name, Config()).first;  // says what is near
  return core::with_context(file.string(), [&] {
    File opened = open_file(file, options.load);
    if (name.starts_with("nanogpt_") && is_nanogpt(opened)) return fit_nanogpt(name, opened, options.heads);
    if (name.starts_with("char_lstm")) return fit_characters<CharLSTM>(opened, "lstm");
    if (name.starts_with("char_gru")) return fit_characters<CharGRU>(opened, "gru");
    const bool is_listed = find(name) != nullptr;
    const std::optional<Sizes> sizes = sizes_of(name, family, opened);
    const bool asked = !options.config.fields().empty();
    if (sizes && (asked || has_other_sizes(*sizes, family))) return fit_measured(name, opened, *sizes, options);
    if (!is_listed || asked) {
      throw Error(ErrorCode::unsupported, "the sizes of a " + std::string(family.name) +
                                              " cannot be read from its tensors; zoo::make() takes them as data");
    }
    return fit_named(name, file, opened, options.load);
  });
}

}  // namespace zoo
