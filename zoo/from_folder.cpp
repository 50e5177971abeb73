#include "zoo/from_folder.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "libckpt/analyze/why/fix.h"
#include "libckpt/bridge/module_state.h"
#include "libckpt/checkpoint.h"
#include "libckpt/io/json.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/made_as.h"
#include "zoo/recognize.h"
#include "zoo/timm_config.h"

namespace zoo {
namespace {

using core::Error;
using core::ErrorCode;

/// What a model_type without "architectures" stands for.
constexpr std::pair<std::string_view, std::string_view> kUsualHeads[] = {
    {"gpt2", "GPT2LMHeadModel"},
    {"bert", "BertModel"},
    {"beit", "BeitForImageClassification"},
    {"deit", "DeiTForImageClassification"},
    {"dinov2", "Dinov2Model"},
    {"mobilevit", "MobileViTForImageClassification"},
    {"convnextv2", "ConvNextV2ForImageClassification"},
    {"roberta", "RobertaModel"},
    {"distilbert", "DistilBertModel"},
    {"gpt_neox", "GPTNeoXForCausalLM"},
    {"llama", "LlamaForCausalLM"},
    {"mistral", "MistralForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"gemma2", "Gemma2ForCausalLM"},
    {"vit", "ViTForImageClassification"},
    {"clip", "CLIPModel"},
    {"clip_text_model", "CLIPTextModel"},
    {"clip_vision_model", "CLIPVisionModel"},
    {"whisper", "WhisperForConditionalGeneration"},
    {"t5", "T5ForConditionalGeneration"},
};

[[noreturn]] void refuse_family(const std::string& name) {
  throw Error(ErrorCode::unsupported, "config.json is of the family " + core::quote(name) + ", which is not here");
}

/// The first text of the list "architectures"; "" without one.
std::string first_architecture(const Config& config) {
  const std::string* json = config.json_of("architectures");
  if (json == nullptr) return "";
  const auto list = ckpt::JsonDocument::parse(std::string_view(*json), {.what = "field 'architectures'"});
  if (!list.root().is(ckpt::JsonView::Kind::array) || list.root().items().empty()) return "";
  const ckpt::JsonView first = list.root().items()[0];
  return first.is(ckpt::JsonView::Kind::text) ? std::string(first.as_text()) : "";
}

FolderConfig config_in(const Config& file) {
  if (const auto named = file.text_of("family")) {
    if (find(*named) == nullptr && find_family(*named) == nullptr) refuse_family(*named);
    Config asked = file;
    asked.set("family", "null");
    auto [family, config] = resolve(*named, asked);
    return {family, std::move(config)};
  }
  if (const auto timm = file.text_of("architecture")) {
    auto [name, asked] = timm_model(*timm, file);
    if (find(name) == nullptr && find_family(name) == nullptr) refuse_family(*timm);
    auto [family, config] = resolve(name, asked);
    return {family, std::move(config)};
  }
  std::string name = first_architecture(file);
  const std::string type = file.text_of("model_type").value_or("");
  for (const auto& [known, head] : kUsualHeads) {
    if (name.empty() && type == known) name = head;
  }
  if (name.empty() && type.empty()) {
    throw Error(ErrorCode::unsupported,
                "config.json names no model: it has none of the fields 'architectures', 'model_type', 'architecture' "
                "and 'family'");
  }
  const Family* family = find_family(name);
  if (family == nullptr) refuse_family(name.empty() ? type : name);
  return {family, file};
}

/// T5's first release has its head share the table of tokens, the next a head of its own, and config.json of newer
/// releases does not tell the two apart: the weights do.
void add_what_weights_say(const Family& family, const ckpt::Checkpoint& weights, Config& config) {
  if (family.name != "T5ForConditionalGeneration" || config.has("own_lm_head")) return;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(weights.root)) {
    if (named.name == "lm_head.weight") config.set("own_lm_head", "true");
  }
}

/// The floating dtype that most bytes of the weights have.
core::DType dtype_of(const ckpt::Checkpoint& weights) {
  std::uint64_t most = 0, sums[3] = {};
  core::DType found = core::DType::f32;
  constexpr core::DType kKnown[] = {core::DType::f32, core::DType::f16, core::DType::bf16};
  for (const ckpt::NamedEntry& named : ckpt::list_entries(weights.root)) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (named.entry->dtype != kKnown[i]) continue;
      sums[i] += static_cast<std::uint64_t>(named.entry->numel());
      if (sums[i] > most) most = sums[i], found = kKnown[i];
    }
  }
  return found;
}

/// Bytes that the kernel can give without swapping; nullopt where it does not say.
std::optional<std::uint64_t> free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return std::nullopt;
}

void check_memory(const Family& family, const Config& config, core::DType dtype) {
  std::uint64_t elements = 0;
  {
    const MadeAs scope{core::Device("meta")};
    for (const core::Tensor& parameter : build(family, config)->parameters()) {
      elements += static_cast<std::uint64_t>(parameter.numel());
    }
  }
  const std::uint64_t bytes = elements * static_cast<std::uint64_t>(core::bit_width(dtype)) / 8;
  const std::optional<std::uint64_t> free = free_memory();
  if (!free || bytes <= *free) return;
  throw Error(ErrorCode::device, "its " + core::format_count(elements) + " parameters need " +
                                     core::format_size(bytes) + " in " + std::string(core::name(dtype)) + ", and " +
                                     core::format_size(*free) + " of memory are free");
}

/// Of tied tensors the weights may have one alone.
ckpt::Checkpoint with_ties(const ckpt::Checkpoint& weights, const core::Module& module) {
  std::set<std::string> there;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(weights.root)) there.insert(named.name);
  ckpt::FixStep step{.kind = ckpt::FixStep::Kind::tie, .text = ""};
  for (const std::vector<std::string>& group : key_list_of(module, "").ties) {
    const auto known = std::ranges::find_if(group, [&](const std::string& name) { return there.contains(name); });
    for (const std::string& name : group) {
      if (known != group.end() && !there.contains(name)) step.pairs.emplace_back(name, *known);
    }
  }
  ckpt::FixPlan plan;
  if (!step.pairs.empty()) plan.steps.push_back(std::move(step));
  return ckpt::apply_fix(weights, plan);
}

/// As load_into(); where that fails and the weights are plainly of other models than config.json says, so does the
/// error.
void load_weights(FolderModel& made, const ckpt::Checkpoint& weights, const std::filesystem::path& folder,
                  const LoadOptions& options) {
  try {
    load_into(*made.model, made.family->name, folder, options, &made.notes);
  } catch (const Error& error) {
    const std::string other = error.code() == ErrorCode::unsupported ? other_family(*made.family, weights) : "";
    if (other.empty()) throw;
    throw Error(ErrorCode::unsupported, other);
  }
}

}  // namespace

FolderConfig folder_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  return core::with_context(folder.string(), [&] {
    if (!std::filesystem::exists(file)) {
      if (std::filesystem::exists(folder / "adapter_config.json")) {
        throw Error(ErrorCode::unsupported,
                    "the folder holds an adapter, not a model: merge it into the folder of its base (ckpt lora merge "
                    "BASE ADAPTER -o merged), which gives a folder that runs");
      }
      throw Error(ErrorCode::unsupported, "the folder has no config.json, which says what model its weights are of");
    }
    return config_in(Config::read(file));
  });
}

std::vector<std::string> class_names(const Config& config) {
  const std::string* json = config.json_of("id2label");
  if (json == nullptr) return {};
  const auto document = ckpt::JsonDocument::parse(std::string_view(*json), {.what = "field 'id2label'"});
  if (!document.root().is(ckpt::JsonView::Kind::object)) return {};
  const auto members = document.root().members();
  std::vector<std::string> names(members.size());
  for (const auto& [number, name] : members) {  // no number is there twice, so that each name is set
    std::size_t at = 0;
    std::from_chars(number.data(), number.data() + number.size(), at);
    if (at >= names.size() || std::to_string(at) != number || !name.is(ckpt::JsonView::Kind::text)) return {};
    names[at] = name.as_text();
  }
  return names;
}

core::DType folder_dtype(const std::filesystem::path& folder) {
  return dtype_of(ckpt::open(folder, {.foreign_objects = true}));
}

FolderModel from_folder(const std::filesystem::path& folder, const FolderOptions& options) {
  FolderConfig said = folder_config(folder);
  return core::with_context(folder.string(), [&] {
    FolderModel made;
    made.family = said.family;
    made.config = said.config.with(options.config);
    ckpt::OpenOptions open = options.load.open;
    open.foreign_objects = true;
    const ckpt::Checkpoint weights = options.weights ? *options.weights : ckpt::open(folder, open);
    made.dtype = options.dtype ? *options.dtype : dtype_of(weights);
    add_what_weights_say(*made.family, weights, made.config);
    check_memory(*made.family, made.config, made.dtype);
    {
      const MadeAs scope{made.dtype};
      made.model = build(*made.family, made.config);
    }
    if (options.weights) {
      ckpt::load_into(*made.model, with_ties(weights, *made.model), {.map_location = "cpu", .reconcile = false});
    } else {
      load_weights(made, weights, folder, options.load);
    }
    made.model->eval();
    return made;
  });
}

}  // namespace zoo
