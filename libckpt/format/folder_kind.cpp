#include "libckpt/format/folder_kind.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

#include "libckpt/format/fsdp/fsdp_files.h"
#include "libckpt/io/mapped_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <class Test>
Names those(const Names& names, Test test) {
  Names out;
  std::copy_if(names.begin(), names.end(), std::back_inserter(out), test);
  return out;
}

std::string list_of(const Names& names) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) text += (i > 0 ? ", " : "") + core::quote(names[i]);
  return names.size() > kMost ? text + " and " + std::to_string(names.size() - kMost) + " more" : text;
}

std::string look_at(const fs::path& path) {
  return "ckpt ls " + core::quote(path.string());
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// The number behind `prefix` in "checkpoint-500", -1 for another name.
std::int64_t number_behind(std::string_view name, std::string_view prefix) {
  std::int64_t number = -1;
  if (!name.starts_with(prefix)) return -1;
  name.remove_prefix(prefix.size());
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : -1;
}

/// The folder in it with the highest number behind `prefix`, "" for none.
std::string last_numbered(const fs::path& folder, const Names& names, std::string_view prefix) {
  std::string last;
  for (const std::string& name : names) {
    bool later = number_behind(name, prefix) > (last.empty() ? -1 : number_behind(last, prefix));
    if (later && is_folder(folder / name)) last = name;
  }
  return last;
}

bool is_training_state(std::string_view name) {
  constexpr std::array<std::string_view, 8> kStarts = {"optimizer", "scheduler",     "rng_state",     "training_args",
                                                       "scaler",    "random_states", "trainer_state", "tf_model"};
  return std::any_of(kStarts.begin(), kStarts.end(), [&](std::string_view start) { return name.starts_with(start); });
}

bool is_weights(std::string_view name) {
  constexpr std::array<std::string_view, 10> kEnds = {".safetensors", ".bin", ".pt",   ".pth", ".pth.tar",
                                                      ".ckpt",        ".npz", ".gguf", ".h5",  ".keras"};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) { return name.ends_with(end); });
}

/// Of forms that are only read: they count where nothing else does, as they often lie beside the same weights.
bool is_read_only_weights(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEnds = {".msgpack", ".onnx", ".pdparams", ".pt2"};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) { return name.ends_with(end); });
}

/// "model-00001-of-00002.safetensors".
bool is_shard(std::string_view name) {
  std::size_t of = name.find("-of-");
  return of != std::string_view::npos && of > 5 && name[of - 6] == '-' && is_weights(name);
}

Names entries_of(const fs::path& folder) {
  Names names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// What one process wrote of a ZeRO checkpoint of one model-parallel rank, which stands for all; "" for none.
std::string zero_part(const Names& names) {
  Names parts = those(names, [](const std::string& name) {
    return name.find("zero_pp_rank_") != std::string::npos && name.ends_with("_optim_states.pt");
  });
  bool one_rank = !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const std::string& name) {
    return name.ends_with("_mp_rank_00_optim_states.pt");
  });
  return one_rank ? parts[0] : "";
}

/// What DeepSpeed wrote: the parts of a ZeRO checkpoint, which are joined; the weights of each model-parallel rank, and
/// the parts of the optimizer of each process.
FolderModel deepspeed(const fs::path& folder, const Names& names) {
  if (std::string part = zero_part(names); !part.empty()) return {part};
  Names ranks = those(names, [](const std::string& name) {
    return name.starts_with("mp_rank_") && name.ends_with("_model_states.pt");
  });
  if (ranks.size() == 1) return {ranks[0]};
  if (ranks.size() > 1) {
    return {"", "this is a DeepSpeed checkpoint in " + std::to_string(ranks.size()) +
                    " parts, one for each model-parallel rank (" + list_of(ranks) +
                    "); name one of them: " + look_at(folder / ranks[0])};
  }
  bool split = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.find("zero_pp_rank_") != std::string::npos && name.ends_with(".pt");
  });
  if (split) {
    return {"",
            "this is a DeepSpeed ZeRO-3 checkpoint: each file holds a part of every weight; join them with the script "
            "that DeepSpeed puts into the folder above: python zero_to_fp32.py . pytorch_model.bin"};
  }
  if (!has(names, "latest")) return {};
  std::string latest;
  std::ifstream(folder / "latest") >> latest;
  bool plain = !latest.empty() && latest.size() < 256 && latest.find('/') == std::string::npos && latest != "..";
  if (!plain || !is_folder(folder / latest)) return {};
  if (std::string part = zero_part(entries_of(folder / latest)); !part.empty()) return {latest + "/" + part};
  return {"", "this is the folder of a DeepSpeed run, whose last checkpoint is in " + core::quote(latest) + ": " +
                  look_at(folder / latest)};
}

/// The file of one rank of a checkpoint of Megatron-LM in its format "torch", which stands for all; "" for none.
std::string megatron_part(const fs::path& folder, const Names& names) {
  for (const std::string& name : names) {
    if (!name.starts_with("mp_rank_")) continue;
    for (const char* file : {"model_optim_rng.pt", "model_rng.pt"}) {
      std::error_code ignored;
      if (fs::exists(folder / name / file, ignored)) return name + "/" + file;
    }
  }
  return "";
}

FolderModel megatron(const fs::path& folder, const Names& names) {
  if (std::string part = megatron_part(folder, names); !part.empty()) return {part};
  if (!has(names, "latest_checkpointed_iteration.txt")) return {};
  std::string latest;
  std::ifstream(folder / "latest_checkpointed_iteration.txt") >> latest;
  const bool number =
      !latest.empty() && latest.size() < 8 && latest.find_first_not_of("0123456789") == std::string::npos;
  if (!number && latest != "release") return {};
  const std::string step = number ? "iter_" + std::string(7 - latest.size(), '0') + latest : latest;
  if (!is_folder(folder / step)) return {};
  if (std::string part = megatron_part(folder / step, entries_of(folder / step)); !part.empty()) {
    return {step + "/" + part};
  }
  return {"", "this is the folder of a Megatron run, whose last checkpoint is in " + core::quote(step) + ": " +
                  look_at(folder / step)};
}

/// What the ranks of FSDP each wrote: the first file stands for all. Of Accelerate's folders the one with the model.
FolderModel fsdp(const fs::path& folder, const Names& names) {
  std::map<std::pair<std::string, std::string>, FsdpName>
      groups;  // of names that differ in their ranks: the first rank
  for (const std::string& name : names) {
    const std::optional<FsdpName> parts = fsdp_name(name);
    if (!parts || is_training_state(name)) continue;
    auto [at, fresh] = groups.try_emplace({parts->before, parts->behind}, *parts);
    if (!fresh && parts->rank < at->second.rank) at->second = *parts;
  }
  Names firsts;
  for (const auto& [group, first] : groups) {
    const std::string name = first.of(first.rank);
    if (is_fsdp_part(folder / name)) firsts.push_back(name);
  }
  if (firsts.size() == 1) return {firsts[0]};
  if (firsts.size() > 1) {
    return {"", "this folder holds the rank files of several FSDP models (" + list_of(firsts) +
                    "); move those of one into a folder of their own"};
  }
  Names inside = those(names, [&](const std::string& name) {
    std::error_code ignored;
    return number_behind(name, "pytorch_model_fsdp_") >= 0 && fs::exists(folder / name / ".metadata", ignored);
  });
  return inside.size() == 1 ? FolderModel{inside[0] + "/.metadata"} : FolderModel();
}

/// A path that a line of Python can name as it is.
bool is_plain(const std::string& path) {
  return path.find_first_of("'\"\\$`") == std::string::npos;
}

FolderModel tensorflow(const fs::path& folder, const Names& names) {
  if (!has(names, "saved_model.pb")) return {};
  std::string text = folder.string();
  bool plain = is_plain(text);
  std::string command =
      "python -c \"import numpy, tensorflow as tf; numpy.savez('variables.npz', **{v.name: v.numpy() "
      "for v in tf.saved_model.load('" +
      text + "').variables})\"";
  return {"", "this is a TensorFlow SavedModel, which is not read; TensorFlow itself can save its variables" +
                  (plain ? ": " + command : std::string())};
}

/// What TensorFlow, Orbax and Core ML write; each with the line that makes a file of it that is read.
FolderModel other_frameworks(const fs::path& folder, const Names& names) {
  const std::string text = folder.string();
  const bool plain = is_plain(text);
  if (has(names, "_METADATA") && (has(names, "manifest.ocdbt") || has(names, "_CHECKPOINT_METADATA"))) {
    return {"",
            "this is an Orbax checkpoint, which is not read; Orbax and flax can make a msgpack file of it, which is" +
                (plain ? ": python -c \"import flax.serialization as f, orbax.checkpoint as o, pathlib; "
                         "pathlib.Path('params.msgpack').write_bytes(f.to_bytes(o.PyTreeCheckpointer().restore("
                         "pathlib.Path('" +
                             text + "').absolute())))\""
                       : std::string())};
  }
  if (has(names, "Manifest.json") && has(names, "Data")) {
    return {"", "this is a Core ML package, which is not read; save the weights of the model that it was made from"};
  }
  for (const std::string& name : names) {
    std::string prefix = name.substr(0, name.size() - std::min<std::size_t>(name.size(), 6));
    bool data = name.ends_with(".index") && std::any_of(names.begin(), names.end(), [&](const std::string& other) {
                  return other.starts_with(prefix + ".data-");
                });
    if (!data) continue;
    prefix = (folder / prefix).string();
    return {"", "this is a TensorFlow checkpoint, which is not read; TensorFlow itself can save its variables" +
                    (is_plain(prefix)
                         ? ": python -c \"import numpy, tensorflow as tf; r = tf.train.load_checkpoint('" + prefix +
                               "'); numpy.savez('variables.npz', **{n: r.get_tensor(n) for n in "
                               "r.get_variable_to_shape_map()})\""
                         : std::string())};
  }
  return {};
}

/// Folders that hold models in folders of their own.
FolderModel folder_of_folders(const fs::path& folder, const Names& names) {
  if (has(names, "model_index.json")) {
    Names parts = those(names, [&](const std::string& name) {
      return is_folder(folder / name) && !name.starts_with('.') && name != "scheduler" &&
             !name.starts_with("tokenizer");
    });
    return {"", "this is a diffusers pipeline of several models: " + list_of(parts) +
                    (parts.empty() ? "" : "; name one of them: " + look_at(folder / parts.back()))};
  }
  if (has(names, "snapshots") && has(names, "blobs")) {
    std::error_code ignored;
    for (fs::directory_iterator at(folder / "snapshots", ignored), end; !ignored && at != end; at.increment(ignored)) {
      return {"", "this is a folder of the Hugging Face cache; the files are in a snapshot: " + look_at(at->path())};
    }
  }
  for (std::string_view prefix : {"checkpoint-", "global_step", "epoch_", "step_"}) {
    std::string last = last_numbered(folder, names, prefix);
    if (!last.empty()) {
      return {"", "this is the folder of a training run; its last checkpoint is " + core::quote(last) + ": " +
                      look_at(folder / last)};
    }
  }
  return {};
}

FolderModel only_weights(const fs::path& folder, const Names& names) {
  Names weights = those(names, [](const std::string& name) { return is_weights(name) && !is_training_state(name); });
  if (weights.empty()) weights = those(names, is_read_only_weights);
  Names shards = those(weights, is_shard);
  if (!shards.empty()) {
    return {"", "it holds " + std::to_string(shards.size()) + " shards of a model (" + list_of(shards) +
                    ") and not the index that names their tensors (*.index.json): fetch that file too, or name one "
                    "shard: " +
                    look_at(folder / shards[0])};
  }
  if (weights.size() == 1 && !is_folder(folder / weights[0])) return {weights[0]};
  return {};
}

}  // namespace

bool is_fsdp_part(const fs::path& file) {
  try {
    return fsdp_name(file.filename().string()) && names_shards(*open_file(file));
  } catch (const core::Error&) {
    return false;
  }
}

FolderModel find_model(const fs::path& folder, const std::vector<std::string>& names) {
  constexpr std::array<std::string_view, 8> kUsual = {"model.safetensors",
                                                      "model.safetensors.index.json",
                                                      "pytorch_model.bin",
                                                      "pytorch_model.bin.index.json",
                                                      "adapter_model.safetensors",
                                                      "adapter_model.bin",
                                                      "diffusion_pytorch_model.safetensors",
                                                      "diffusion_pytorch_model.bin"};
  for (std::string_view name : kUsual) {
    if (has(names, name)) return {std::string(name)};
  }
  for (auto look : {deepspeed, megatron, fsdp, tensorflow, other_frameworks, only_weights, folder_of_folders}) {
    FolderModel found = look(folder, names);
    if (!found.file.empty() || !found.sentence.empty()) return found;
  }
  return {};
}

}  // namespace ckpt::detail
