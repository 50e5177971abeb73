#include "libckpt/analyze/why/file_causes.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/analyze/why/python_line.h"
#include "libckpt/analyze/why/shape_causes.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/json.h"
#include "libckpt/objects.h"
#include "libckpt/transform/key_edit.h"
#include "libckpt/transform/quantized_layers.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

std::string count_text(std::size_t count, std::string_view what) {
  return core::format_count(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

void add(Diagnosis& diagnosis, Cause cause, std::vector<FixStep> steps) {
  cause.cured = !steps.empty();
  for (FixStep& step : steps) diagnosis.plan.steps.push_back(std::move(step));
  diagnosis.causes.push_back(std::move(cause));
}

/// PyTorch's own words for what it will not load.
std::string weights_only_text(const std::string& global) {
  return "WeightsUnpickler error: Unsupported global: GLOBAL " + global + " was not an allowed global by default.";
}

bool takes_part(const FileContext& context) {
  return context.chosen != nullptr && !context.chosen->at_top() && !context.same_place;
}

void add_globals(Diagnosis& diagnosis, const FileContext& context) {
  std::vector<std::string> globals = context.input.foreign_globals;
  if (globals.empty()) return;
  Cause cause{CauseKind::foreign_globals,
              "torch.load(weights_only=True), the default since PyTorch 2.6, refuses this file: it names " +
                  some_names(globals)};
  cause.evidence.push_back(weights_only_text(globals.front()));
  cause.before = context.at_top;
  cause.after = context.at_top;
  FixStep step{FixStep::Kind::plain_objects, "turn foreign objects into plain data"};
  step.keys = std::move(globals);
  add(diagnosis, std::move(cause), {std::move(step)});
}

std::string what_else(const Value& root, const std::string& at) {
  if (!root.is(Value::Kind::dict)) return "";
  std::vector<std::string> names;
  for (const auto& [key, value] : root.as_dict().items) {
    if (step_text(key) != at) names.push_back(step_text(key));
  }
  return names.empty() ? "" : "; beside it: " + some_names(names, 6);
}

std::string module_class(const FileContext& context) {
  const std::vector<const void*>& dicts = context.input.module_dicts;
  auto at = std::find(dicts.begin(), dicts.end(), static_cast<const void*>(context.chosen->dict)) - dicts.begin();
  return context.input.pickled_modules[static_cast<std::size_t>(at)];
}

/// A pickled module is opened as its state dict; the step says so, and takes it.
void add_module(Diagnosis& diagnosis, const FileContext& context) {
  const std::string& at = context.chosen->at;
  std::string place = at.empty() ? "" : " under " + core::quote(at);
  Cause cause{CauseKind::pickled_module,
              "the module itself, a " + core::printable(module_class(context)) + ", was pickled" + place +
                  " instead of its state_dict(), so PyTorch needs its source code to load it"};
  cause.before = context.at_top;
  cause.before.keys = cause.before.bytes = 0;
  cause.after = context.in_chosen;
  diagnosis.before = cause.before;
  FixStep step{FixStep::Kind::take_module, "take the tensors of the module" + place};
  step.at = at;
  diagnosis.plan.loses = true;
  add(diagnosis, std::move(cause), {std::move(step)});
}

void add_place(Diagnosis& diagnosis, const FileContext& context) {
  if (context.chosen != nullptr && context.chosen->is_one_of(context.input.module_dicts)) {
    return add_module(diagnosis, context);
  }
  if (!takes_part(context)) return;
  const Candidate& chosen = *context.chosen;
  const Value& root = context.input.checkpoint->root;
  std::string place = chosen.at.empty() ? "the top of the file" : core::quote(chosen.at);
  Cause cause{CauseKind::nested_dict,
              "the weights lie under " + place + ", not at the top" + what_else(root, chosen.at)};
  if (chosen.kind == Candidate::Kind::flat) {
    cause.kind = CauseKind::scattered_dicts;
    cause.text = "the weights of the model are spread over several dicts";
    cause.confidence = 0.9;
  }
  if (!root.is(Value::Kind::dict))
    cause.evidence.push_back("the top of the file is not a dict but a " + type_text(root));
  cause.before = context.at_top;
  cause.after = context.in_chosen;
  diagnosis.plan.loses = true;
  add(diagnosis, std::move(cause), {chosen.step()});
}

/// Which of the tags name a device that will not be there.
std::vector<std::pair<std::string, std::size_t>> absent(const std::vector<std::pair<std::string, std::size_t>>& tags,
                                                        std::int64_t cuda_devices) {
  std::vector<std::pair<std::string, std::size_t>> out;
  for (const auto& [tag, count] : tags) {
    bool cuda = tag == "cuda" || tag.starts_with("cuda:");
    bool fits = cuda && tag.size() < 12 && (tag == "cuda" ? 0 : std::atoll(tag.c_str() + 5)) < cuda_devices;
    if (!fits) out.emplace_back(tag, count);
  }
  return out;
}

std::string deserialize_text(const std::string& tag, std::int64_t cuda_devices) {
  if (!tag.starts_with("cuda"))
    return "don't know how to restore data location of torch.storage.UntypedStorage (tagged with " + tag + ")";
  if (cuda_devices == 0) {
    return "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
           "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
           "storages to the CPU.";
  }
  return "Attempting to deserialize object on CUDA device " + (tag.size() > 5 ? tag.substr(5) : "0") +
         " but torch.cuda.device_count() is " + std::to_string(cuda_devices) +
         ". Please use torch.load with map_location to map your storages to an existing device.";
}

void add_devices(Diagnosis& diagnosis, const FileContext& context) {
  std::int64_t there =
      context.facts.has(ErrorFacts::Kind::device) ? context.facts.devices.value_or(0) : context.options.cuda_devices;
  auto tags = absent(list_devices(context.input.checkpoint->root), there);
  if (tags.empty()) return;
  std::vector<std::string> texts;
  for (const auto& [tag, count] : tags)
    texts.push_back(core::printable(tag) + " (" + count_text(count, "tensor") + ")");
  Cause cause{CauseKind::device_tags, "tensors were saved on devices that are not here: " + core::join(texts, ", ")};
  cause.evidence.push_back(deserialize_text(tags.front().first, there));
  cause.before = diagnosis.after;
  cause.after = diagnosis.after;
  FixStep step{FixStep::Kind::remap, "move the tags to cpu"};
  step.to = "cpu";
  add(diagnosis, std::move(cause), {std::move(step)});
}

/// Types that few readers know and that f32 can hold.
bool is_rare(core::DType dtype) {
  return core::bit_width(dtype) <= 8 && core::is_floating(dtype);
}

void add_dtypes(Diagnosis& diagnosis, const FileContext& context) {
  if (!context.facts.has(ErrorFacts::Kind::dtype)) return;
  bool bfloat = context.facts.dtype.find("loat16") != std::string::npos;
  FixStep step{FixStep::Kind::cast, ""};
  step.to = "float32";
  std::map<core::DType, std::size_t> counts;
  std::vector<NamedEntry> entries = list_entries(context.input.checkpoint->root);
  for (const NamedEntry& named : entries) {
    core::DType dtype = named.entry->dtype;
    bool meant = bfloat ? dtype == core::DType::bf16 : is_rare(dtype);
    if (!meant) continue;
    ++counts[dtype];
    step.keys.emplace_back(core::name(dtype));
  }
  std::sort(step.keys.begin(), step.keys.end());
  step.keys.erase(std::unique(step.keys.begin(), step.keys.end()), step.keys.end());
  if (counts.empty()) {
    diagnosis.notes.push_back("the message complains of dtype " + core::quote(context.facts.dtype) +
                              ", which this file does not hold");
    return;
  }
  std::vector<std::string> texts;
  for (const auto& [dtype, count] : counts)
    texts.push_back(std::string(core::name(dtype)) + " (" + count_text(count, "tensor") + ")");
  Cause cause{CauseKind::unsupported_dtype, "the reader does not know a dtype of the file: " + core::join(texts, ", ")};
  cause.before = diagnosis.after;
  cause.after = diagnosis.after;
  step.text = "cast to float32";
  add(diagnosis, std::move(cause), {std::move(step)});
}

void add_shared(Diagnosis& diagnosis, const FileContext& context) {
  if (!context.facts.has(ErrorFacts::Kind::shared_memory)) return;
  Cause cause{CauseKind::shared_tensors, "tensors of the file share memory, which safetensors' save_file refuses"};
  if (context.chosen != nullptr && context.chosen->kind == Candidate::Kind::dict) {
    const Value& dict = value_at(context.input.checkpoint->root, context.chosen->at);
    for (const auto& group : key_list_of(dict.as_dict(), "").ties)
      cause.evidence.push_back(some_names(group) + " are one tensor");
  }
  cause.advice = "ckpt convert keeps tied tensors: each is stored once, and the other names go into the metadata";
  cause.before = diagnosis.after;
  cause.after = diagnosis.after;
  add(diagnosis, std::move(cause), {});
}

void add_optimizer(Diagnosis& diagnosis, const FileContext& context) {
  if (!context.facts.has(ErrorFacts::Kind::optimizer_groups)) return;
  std::vector<OptimizerFacts> optimizers = list_optimizers(context.input.checkpoint->root);
  Cause cause{CauseKind::optimizer_groups,
              "the optimizer of the program has other parameter groups than the one that was saved"};
  for (const OptimizerFacts& facts : optimizers) {
    std::vector<std::string> sizes;
    for (std::size_t size : facts.groups) sizes.push_back(std::to_string(size));
    std::string place = facts.at.empty() ? "the top" : core::quote(facts.at);
    cause.evidence.push_back(place + " has " + count_text(sizes.size(), "group") + " of " + core::join(sizes, ", ") +
                             " parameters");
  }
  cause.before = diagnosis.after;
  cause.after = diagnosis.after;
  cause.confidence = 0.95;
  cause.advice = "build the optimizer with the groups it was saved with, or start it fresh";
  if (optimizers.empty()) return add(diagnosis, std::move(cause), {});
  diagnosis.plan.loses = true;
  add(diagnosis, std::move(cause), {{FixStep::Kind::drop_optimizer, "drop the optimizer's state"}});
}

/// torch.load and safetensors' load_file read these into a dict. Our own format has a library of its own, and a message
/// alone says nothing of the format.
bool is_read_at_once(std::string_view format) {
  const PythonReader reader = reader_in_python(format);
  return format.empty() || reader == PythonReader::torch_load || reader == PythonReader::safetensors ||
         reader == PythonReader::libckpt;
}

/// Whether what is loaded has a tensor under several names.
bool has_ties(const Diagnosis& diagnosis, const FileContext& context) {
  const std::vector<FixStep>& steps = diagnosis.plan.steps;
  bool tied =
      std::any_of(steps.begin(), steps.end(), [](const FixStep& step) { return step.kind == FixStep::Kind::tie; });
  const Dict* dict = context.chosen == nullptr ? nullptr : context.chosen->dict;
  return tied || (dict != nullptr && !key_list_of(*dict, "").ties.empty());
}

/// A safetensors file keeps a tied tensor under one name, and its reader puts the others behind all that the file has.
std::vector<std::pair<std::string, std::string>> dropped_ties(const Dict& dict) {
  std::vector<std::pair<std::string, std::string>> dropped;
  std::unordered_map<const Entry*, const std::string*> stored;
  for (const auto& [key, value] : dict.items) {
    if (!key.is(Value::Kind::text) || !value.is(Value::Kind::tensor)) continue;
    auto [at, fresh] = stored.try_emplace(&value.as_entry(), &key.as_text());
    if (!fresh) dropped.emplace_back(key.as_text(), *at->second);
  }
  return dropped;
}

/// Types that NumPy has under the same name, so that torch.from_numpy() takes its arrays. A GGUF file has fewer.
bool numpy_has(core::DType dtype, PythonReader reader) {
  using core::DType;
  constexpr std::array<DType, 9> kTypes = {DType::f16, DType::f32, DType::f64, DType::i8,     DType::i16,
                                           DType::i32, DType::i64, DType::u8,  DType::boolean};
  bool small = dtype == DType::u8 || dtype == DType::boolean;
  return std::find(kTypes.begin(), kTypes.end(), dtype) != kTypes.end() && !(small && reader == PythonReader::gguf);
}

/// What a line of Python has to know of the file.
void add_reading(Diagnosis& diagnosis, const FileContext& context) {
  const Dict* dict = context.chosen == nullptr ? nullptr : context.chosen->dict;
  if (dict == nullptr) return;
  const PythonReader reader = reader_in_python(diagnosis.format);
  if (reader == PythonReader::safetensors) diagnosis.dropped_ties = dropped_ties(*dict);
  diagnosis.numpy_reads =
      key_list_of(*dict, "").ties.empty() && std::all_of(dict->items.begin(), dict->items.end(), [&](const auto& item) {
        return item.second.is(Value::Kind::tensor) && numpy_has(item.second.as_entry().dtype, reader);
      });
}

void add_format(Diagnosis& diagnosis, const FileContext& context) {
  const std::string& name = context.input.checkpoint->format;
  add_reading(diagnosis, context);
  bool ties = reader_in_python(name) == PythonReader::safetensors && has_ties(diagnosis, context);
  if (is_read_at_once(name) && !ties) return;
  Cause cause{CauseKind::other_format,
              ties ? "a safetensors file holds a tied tensor under one of its names, and load_file "
                     "gives that name alone"
                   : "torch.load does not read this format (" + name + ")"};
  bool counters = std::any_of(diagnosis.dropped_ties.begin(), diagnosis.dropped_ties.end(),
                              [](const auto& tie) { return is_counter(tie.first); });
  // It takes counters that PyTorch fills in for unexpected keys.
  if (ties && !counters) cause.advice = "safetensors.torch.load_model ties the names of a model by itself";
  cause.before = diagnosis.after;
  cause.after = diagnosis.after;
  FixStep step{FixStep::Kind::convert, "write a PyTorch file"};
  add(diagnosis, std::move(cause), {std::move(step)});
}

/// A message that names no key, about a file that can be read.
void add_known_message(Diagnosis& diagnosis, const FileContext& context) {
  using About = KnownMessage::About;
  const KnownMessage* known = context.facts.known;
  if (known == nullptr) return;
  bool use = known->about == About::program || known->about == About::memory || known->about == About::place;
  if (!use) return;
  std::string advice(known->advice);
  std::string path = context.input.checkpoint->path.string();
  for (std::size_t at = advice.find("FILE"); at != std::string::npos && !path.empty(); at = advice.find("FILE", at)) {
    bool quoted = at > 0 && advice[at - 1] == '\'';
    std::string name = quoted ? python_path(path) : shell_file(path);
    advice.replace(quoted ? at - 1 : at, quoted ? 6 : 4, name);
    at += name.size();
  }
  diagnosis.notes.push_back("the message: " + std::string(known->cause) + "; " + advice);
}

/// An adapter holds what training added to another model, which its adapter_config.json names.
void add_adapter(Diagnosis& diagnosis, const FileContext& context) {
  constexpr std::uint64_t kMaxConfig = 1 << 20;
  const std::filesystem::path& path = context.input.checkpoint->path;
  std::error_code error;
  bool folder = std::filesystem::is_directory(path, error);
  if (!folder && !path.filename().string().starts_with("adapter_model.")) return;
  std::filesystem::path config = (folder ? path : path.parent_path()) / "adapter_config.json";
  if (!std::filesystem::is_regular_file(config, error)) return;
  std::string base = "another model";
  try {
    SourcePtr file = open_file(config);
    if (file->size() > kMaxConfig) return;
    JsonDocument json = JsonDocument::parse(read_all(*file));
    constexpr std::string_view kBase = "base_model_name_or_path";
    bool named = json.root().is(JsonView::Kind::object) && json.root().has(kBase) &&
                 json.root().at(kBase).is(JsonView::Kind::text);
    if (named) base = core::quote(json.root().at(kBase).as_text());
  } catch (const core::Error&) {
    return;  // the note is all that is lost
  }
  diagnosis.notes.push_back("this is a PEFT adapter of " + base +
                            ": it holds only the weights that were added; load that model first, then "
                            "peft.PeftModel.from_pretrained(model, " +
                            python_path((folder ? path : path.parent_path() / "").string()) +
                            "); or put both into one file: ckpt lora merge BASE " +
                            shell_file((folder ? path : path.parent_path()).string()) + " -o merged.safetensors");
}

/// Layers of GPTQ and others have other keys than the model that they are of.
void add_quantized(Diagnosis& diagnosis, const FileContext& context) {
  const std::vector<QuantizedLayer> layers = find_quantized_layers(context.input.checkpoint->root);
  if (layers.empty()) return;
  const std::string path = context.input.checkpoint->path.string();
  diagnosis.notes.push_back(core::format_count(layers.size()) + " of the layers are quantized (" + layers[0].scheme +
                            "), " + core::quote(layers[0].parts[0]) + " among others in place of " +
                            core::quote(layers[0].name) +
                            ": transformers loads them with the library that made them; for "
                            "a plain model, ckpt convert --dequantize " +
                            shell_file(path) + " plain.safetensors");
}

}  // namespace

void add_before_names(Diagnosis& diagnosis, const FileContext& context) {
  add_globals(diagnosis, context);
  bool turned = !diagnosis.plan.empty();
  add_place(diagnosis, context);
  if (!turned || diagnosis.plan.steps.size() < 2) return;
  // What is taken leaves most objects behind; only what it still holds has to be turned into plain data.
  bool flat = context.chosen->kind == Candidate::Kind::flat;
  bool still = !flat && !list_classes(value_at(context.input.checkpoint->root, context.chosen->at)).empty();
  if (still) {
    std::swap(diagnosis.plan.steps[0], diagnosis.plan.steps[1]);
  } else {
    diagnosis.plan.steps.erase(diagnosis.plan.steps.begin());
  }
}

void add_behind_names(Diagnosis& diagnosis, const FileContext& context) {
  add_devices(diagnosis, context);
  add_dtypes(diagnosis, context);
  add_shared(diagnosis, context);
  add_optimizer(diagnosis, context);
  add_known_message(diagnosis, context);
  add_adapter(diagnosis, context);
  add_quantized(diagnosis, context);
  add_format(diagnosis, context);
}

std::string describe_file(const Value& root, const Candidate* chosen) {
  std::vector<NamedEntry> entries = list_entries(root);
  std::uint64_t bytes = 0;
  for (const NamedEntry& named : entries) bytes += named.entry->byte_size();
  std::size_t tensors = entries.size();
  if (chosen != nullptr) {
    tensors = 0;
    for (const FileKey& key : chosen->keys) tensors += key.dtype != core::DType::u8 || !key.shape.empty() ? 1 : 0;
  }
  std::string text = count_text(tensors, "tensor");
  if (chosen != nullptr && chosen->kind == Candidate::Kind::flat) text += " in several dicts";
  if (chosen != nullptr && !chosen->at.empty()) text += " under " + core::quote(chosen->at);
  auto devices = list_devices(root);
  for (std::size_t i = 0; i < devices.size() && i < 3; ++i)
    text += (i == 0 ? ", saved on " : ", ") + core::printable(devices[i].first);
  std::uint64_t optimizer = 0;
  for (const OptimizerFacts& facts : list_optimizers(root)) optimizer += facts.bytes;
  if (optimizer > 0)
    return text + ", optimizer present (" + core::format_size(optimizer) + " of " + core::format_size(bytes) + ")";
  return text + ", " + core::format_size(bytes);
}

}  // namespace ckpt::detail
