#include "tools/train/hub_model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "libckpt/bridge/module_state.h"
#include "libckpt/io/json.h"
#include "libckpt/open_save.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/linear.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor.h"
#include "tools/train/run_folder.h"
#include "zoo/made_as.h"
#include "zoo/zoo.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
namespace fs = std::filesystem;

/// Models without a head for classes whose family does not name its kin with one.
constexpr std::pair<std::string_view, std::string_view> kWithHead[] = {
    {"BertModel", "BertForSequenceClassification"},
    {"BertForMaskedLM", "BertForSequenceClassification"},
    {"BertForPreTraining", "BertForSequenceClassification"},
    {"RobertaModel", "RobertaForSequenceClassification"},
    {"RobertaForMaskedLM", "RobertaForSequenceClassification"},
    {"DistilBertModel", "DistilBertForSequenceClassification"},
    {"DistilBertForMaskedLM", "DistilBertForSequenceClassification"},
    {"DeiTModel", "DeiTForImageClassification"},
    {"BeitForMaskedImageModeling", "BeitForImageClassification"},
    {"MobileViTModel", "MobileViTForImageClassification"},
    {"CLIPModel", "CLIPForImageClassification"},
};

/// What Hugging Face calls the part of a model that is not its head.
constexpr std::array<std::string_view, 9> kBases = {"bert", "roberta", "distilbert", "vit",         "deit",
                                                    "beit", "dinov2",  "mobilevit",  "vision_model"};

constexpr std::array kCopied = {"tokenizer.json",
                                "tokenizer_config.json",
                                "special_tokens_map.json",
                                "added_tokens.json",
                                "vocab.json",
                                "merges.txt",
                                "vocab.txt",
                                "tokenizer.model",
                                "spiece.model",
                                "sentencepiece.bpe.model",
                                "chat_template.jinja",
                                "preprocessor_config.json",
                                "processor_config.json",
                                "generation_config.json"};

std::string classes_json(const std::vector<std::string>& names, bool by_name) {
  ckpt::JsonWriter json;
  json.begin_object();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (by_name) json.key(names[i]).value(static_cast<std::uint64_t>(i));
    if (!by_name) json.key(std::to_string(i)).value(names[i]);
  }
  return json.end_object().take();
}

/// Fields for so many classes, of a config.json as of the fields of a family.
zoo::Config with_classes(zoo::Config config, const zoo::Family& family, const DataSet& data) {
  std::vector<std::string> names = data.class_names;
  for (std::int64_t i = std::ssize(names); i < data.classes; ++i) names.push_back("LABEL_" + std::to_string(i));
  if (family.classes != "num_labels") {
    config.set(std::string(family.classes), std::to_string(data.classes));
    return config;
  }
  if (config.has("num_labels")) config.set("num_labels", std::to_string(data.classes));
  config.set("id2label", classes_json(names, false));
  config.set("label2id", classes_json(names, true));
  return config;
}

/// A part of the file's names that is not in those of the model, or the other way round: "bert.".
const Tensor* found_in(const core::StateDict& from, const std::string& name) {
  if (from.contains(name)) return &from.at(name);
  const std::size_t dot = name.find('.');
  if (dot != std::string::npos && from.contains(name.substr(dot + 1))) return &from.at(name.substr(dot + 1));
  for (std::string_view base : kBases) {
    const std::string longer = std::string(base) + "." + name;
    if (from.contains(longer)) return &from.at(longer);
  }
  return nullptr;
}

std::set<std::string> head_parameters(core::Module& model) {
  std::set<std::string> all, base;
  std::string last;  // the child that holds the last linear layer
  for (const auto& [path, module] : model.named_modules()) {
    if (dynamic_cast<core::Linear*>(module) != nullptr) last = path.substr(0, path.find('.'));
  }
  std::set<std::string> behind;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const std::string child = name.substr(0, name.find('.'));
    const bool is_base = std::find(kBases.begin(), kBases.end(), child) != kBases.end();
    (is_base ? base : all).insert(name);
    if (child == last) behind.insert(name);
  }
  return base.empty() ? behind : all;
}

std::int64_t classes_in(const zoo::FolderConfig& said, const fs::path& folder) {
  if (said.family->classes.empty() || said.family->classes == "vocab_size") return 0;
  const std::size_t named = zoo::class_names(said.config).size();
  zoo::Fields f(said.family->name, said.config);
  const std::int64_t otherwise = said.family->classes == "num_labels" ? 2 : 1000;
  return core::with_context(folder.string(), [&] {
    return f.count(said.family->classes, named > 0 ? static_cast<std::int64_t>(named) : otherwise);
  });
}

void copy_weights(core::Module& into, const core::StateDict& from, const std::set<std::string>& head) {
  core::NoGradGuard no_grad;
  for (auto& [name, tensor] : into.state_dict()) {
    const Tensor* source = found_in(from, name);
    if (source != nullptr && source->sizes() == tensor.sizes()) {
      tensor.copy_(*source);
      continue;
    }
    if (head.contains(name) || source == nullptr) continue;
    throw Error(ErrorCode::unsupported, core::quote(name) + " is " + core::to_list(source->sizes()) +
                                            " in the folder and " + core::to_list(tensor.sizes()) +
                                            " in the model with a head for classes");
  }
}

/// Of tensors that are one, those that the folder's own files name: "lm_head.weight" is often left out.
core::StateDict named_as_in(const fs::path& source, const core::StateDict& state) {
  const ckpt::Checkpoint weights = ckpt::open(source, {.foreign_objects = true});
  std::set<std::string, std::less<>> names;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(weights.root)) names.insert(named.name);
  std::set<const void*> there;
  for (const auto& [name, tensor] : state) {
    if (names.contains(name)) there.insert(tensor.data_ptr());
  }
  core::StateDict kept = state;
  for (const auto& [name, tensor] : state) {
    if (!names.contains(name) && there.contains(tensor.data_ptr())) kept.erase(name);
  }
  return kept;
}

/// Shapes alone, for which nothing is drawn that a run would draw.
class LaidOut {
 public:
  LaidOut() = default;
  ~LaidOut() { generator_.set_state(state_); }
  LaidOut(const LaidOut&) = delete;
  LaidOut& operator=(const LaidOut&) = delete;

 private:
  zoo::MadeAs scope_{core::Device("meta")};
  core::Generator generator_ = core::default_generator();
  core::ByteVector state_ = generator_.state();
};

/// The model of load_classifier() without values.
std::shared_ptr<core::Module> laid_out(const fs::path& folder, const DataSet& data) {
  const LaidOut scope;
  const zoo::Family& family = classifier_family(folder);
  return zoo::build(family, with_classes(zoo::folder_config(folder).config, family, data));
}

/// Modules of the base, such as "bert.pooler", that the folder's own model does not have.
std::vector<std::string> drawn_besides_head(const fs::path& folder, const DataSet& data, core::Module& model) {
  const zoo::FolderConfig said = zoo::folder_config(folder);
  if (classifier_family(folder).name == said.family->name || data.classes == 0) return {};
  core::StateDict there;
  {
    const LaidOut scope;
    there = zoo::build(*said.family, said.config)->state_dict();
  }
  const std::set<std::string> head = head_parameters(model);
  std::set<std::string> drawn;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (head.contains(name) || found_in(there, name) != nullptr) continue;
    const std::size_t child = name.find('.');
    drawn.insert(name.substr(0, name.find('.', child == std::string::npos ? 0 : child + 1)));
  }
  return {drawn.begin(), drawn.end()};
}

std::string indented(const zoo::Config& config) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  for (const auto& [name, value] : config.fields()) json.key(name).raw(value);
  return json.end_object().take() + "\n";
}

}  // namespace

bool is_model_folder(const std::string& model) {
  if (model.empty() || model == "linear" || zoo::find(model) != nullptr) return false;
  std::error_code error;  // what cannot be looked into is no folder
  return fs::is_directory(model, error);
}

const zoo::Family& classifier_family(const fs::path& folder) {
  const zoo::Family& family = *zoo::folder_config(folder).family;
  std::string_view name = family.with_classes.empty() ? family.name : family.with_classes;
  for (const auto& [without, with] : kWithHead) {
    if (name == without) name = with;
  }
  const zoo::Family* found = zoo::find_family(name);
  if (found->answer == zoo::Answer::classes || found->answer == zoo::Answer::lengths) return *found;
  throw Error(ErrorCode::unsupported,
              folder.string() + ": " + core::quote(family.name) + " has no head here that tells classes apart" +
                  (found->answer == zoo::Answer::next_token ? "; it continues texts, which `train text` teaches" : ""));
}

const zoo::Family& decoder_family(const fs::path& folder) {
  const zoo::Family& family = *zoo::folder_config(folder).family;
  const bool reads_first = family.name.starts_with("T5");  // and writes something else about it
  if (family.answer == zoo::Answer::next_token && !reads_first) return family;
  throw Error(ErrorCode::unsupported,
              folder.string() + ": " + core::quote(family.name) + " does not continue texts" +
                  (family.answer == zoo::Answer::classes ? "; it tells classes apart, which `train fit` teaches" : ""));
}

std::vector<std::string> in_order_of_model(const fs::path& folder, std::vector<std::string> names) {
  const std::vector<std::string> known = zoo::class_names(zoo::folder_config(folder).config);
  return std::is_permutation(known.begin(), known.end(), names.begin(), names.end()) ? known : names;
}

std::shared_ptr<core::Module> load_classifier(const fs::path& folder, const DataSet& data) {
  const zoo::Family& family = classifier_family(folder);
  const zoo::FolderModel source = zoo::from_folder(folder, {.load = {}, .dtype = core::DType::f32, .config = {}});
  if (family.name == source.family->name && about_head(folder, data).empty()) return source.model;
  return core::with_context(folder.string(), [&] {
    std::shared_ptr<core::Module> made = zoo::build(family, with_classes(source.config, family, data));
    copy_weights(*made, source.model->state_dict(), head_parameters(*made));
    return made;
  });
}

std::shared_ptr<core::Module> load_decoder(const fs::path& folder) {
  decoder_family(folder);
  std::shared_ptr<core::Module> model =
      zoo::from_folder(folder, {.load = {}, .dtype = core::DType::f32, .config = {}}).model;
  model->train();
  return model;
}

std::string about_head(const fs::path& folder, const DataSet& data) {
  const zoo::FolderConfig said = zoo::folder_config(folder);
  const std::string classes = std::to_string(data.classes) + " classes";
  if (classifier_family(folder).name != said.family->name) {
    const std::vector<std::string> drawn = drawn_besides_head(folder, data, *laid_out(folder, data));
    return std::string(said.family->name) + " has no head for classes: a fresh one for " + classes +
           " begins at chance" +
           (drawn.empty() ? "" : ", and so does " + core::join(drawn, ", ") + ", which it lacks too");
  }
  const std::int64_t before = classes_in(said, folder);
  if (before == data.classes) return "";
  return "the head for " + std::to_string(before) + " classes gives way to a fresh one for " + classes;
}

std::vector<std::string> learning_parts(const fs::path& folder, const DataSet& data, core::Module& model) {
  std::set<std::string> parts;
  for (const std::string& name : head_parameters(model)) parts.insert(name.substr(0, name.find('.')));
  const std::vector<std::string> drawn = drawn_besides_head(folder, data, model);
  parts.insert(drawn.begin(), drawn.end());
  return {parts.begin(), parts.end()};
}

bool is_in_parts(std::string_view name, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts,
                             [&](const std::string& part) { return name == part || name.starts_with(part + "."); });
}

void freeze_all_but(core::Module& model, const std::vector<std::string>& parts) {
  std::size_t kept = 0;
  for (auto& [name, parameter] : model.named_parameters()) {
    if (is_in_parts(name, parts)) continue;
    parameter.requires_grad_(false);
    ++kept;
  }
  if (kept == 0 || parts.empty()) {
    throw Error(ErrorCode::unsupported, "--freeze: the model has no part beside its head");
  }
}

void write_model_folder(const fs::path& source, const DataSet& data, const core::StateDict& state,
                        const fs::path& target) {
  std::error_code error;
  fs::create_directories(target, error);
  if (error) throw Error(ErrorCode::io, target.string() + ": " + error.message());
  zoo::Config config = zoo::Config::read(source / "config.json");
  if (data.classes > 0) {
    const zoo::Family& family = classifier_family(source);
    if (config.has("architectures")) config.set("architectures", "[" + ckpt::json_quote(family.name) + "]");
    if (!config.has("architectures") && config.has("family")) config.set("family", ckpt::json_quote(family.name));
    config = with_classes(std::move(config), family, data);
  }
  for (const char* name : {"dtype", "torch_dtype"}) {
    if (config.has(name)) config.set(name, "\"float32\"");
  }
  write_text(target / "config.json", indented(config));
  for (const char* name : kCopied) {
    if (!fs::exists(source / name)) continue;
    fs::copy_file(source / name, target / name, fs::copy_options::overwrite_existing, error);
    if (error) throw Error(ErrorCode::io, (target / name).string() + ": " + error.message());
  }
  ckpt::save(named_as_in(source, state), target / "model.safetensors");
}

}  // namespace train
