#include "libckpt/format/folder_kind.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string_view>

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

/// "model-00001-of-00002.safetensors".
bool is_shard(std::string_view name) {
  std::size_t of = name.find("-of-");
  return of != std::string_view::npos && of > 5 && name[of - 6] == '-' && is_weights(name);
}

/// What DeepSpeed wrote: the weights of each model-parallel rank, and the parts of the optimizer of each process.
FolderModel deepspeed(const fs::path& folder, const Names& names) {
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
  return {"", "this is the folder of a DeepSpeed run, whose last checkpoint is in " + core::quote(latest) + ": " +
                  look_at(folder / latest)};
}

FolderModel tensorflow(const fs::path& folder, const Names& names) {
  if (!has(names, "saved_model.pb")) return {};
  std::string text = folder.string();
  bool plain = text.find_first_of("'\"\\$`") == std::string::npos;
  std::string command =
      "python -c \"import numpy, tensorflow as tf; numpy.savez('variables.npz', **{v.name: v.numpy() "
      "for v in tf.saved_model.load('" +
      text + "').variables})\"";
  return {"", "this is a TensorFlow SavedModel, which is not read; TensorFlow itself can save its variables" +
                  (plain ? ": " + command : std::string())};
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
  for (auto look : {deepspeed, tensorflow, only_weights, folder_of_folders}) {
    FolderModel found = look(folder, names);
    if (!found.file.empty() || !found.sentence.empty()) return found;
  }
  return {};
}

}  // namespace ckpt::detail
