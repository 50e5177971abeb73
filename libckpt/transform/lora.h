#pragma once
// LoRA adapters as PEFT saves them: a folder of adapter_config.json and adapter_model.safetensors (or .bin), whose
// matrices A and B stand for the change scale * B A of a weight of another model. merge_lora adds the changes to that
// model's weights. Values are computed while the result is read, a few rows at a time, in f32 (f64 for f64 weights),
// and rounded once to the weight's type; A and B of the weights that are being read are in memory. Source: PEFT's
// LoraConfig and its merge_and_unload(). Thread safety: pure. Use: ckpt::save(ckpt::merge_lora(ckpt::open("base"),
// ckpt::open_lora("adapter")), "merged.safetensors");

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"

namespace ckpt {

/// What adapter_config.json says, as far as the weights depend on it.
struct LoraConfig {
  std::string base = {};  ///< base_model_name_or_path
  double alpha = 8;
  /// Expressions for the ends of module names with an alpha of their own, in the order of the file.
  std::vector<std::pair<std::string, double>> alpha_patterns = {};
  bool rank_stabilized = false;  ///< use_rslora: the scale is alpha / sqrt(rank), else alpha / rank
  bool directions = false;       ///< use_dora: rows get the lengths that lora_magnitude_vector says
  bool fan_in_fan_out = false;   ///< weights are stored as [in, out], as GPT-2's are
};

/// The change of one weight.
struct LoraTarget {
  std::string module;       ///< name of the module in the base model: "layers.0.q_proj"
  EntryPtr a;               ///< [rank, in]; of a convolution [rank, in, k, k]
  EntryPtr b;               ///< [out, rank]; of a convolution [out, rank, 1, 1]
  EntryPtr magnitude = {};  ///< length of each row of the result; null without DoRA
  EntryPtr weight = {};     ///< what is changed, where the adapter brings it (an embedding that grew); else the base's
  bool embedding = false;   ///< the weight is [numbers, size], the transpose of a linear layer's
  std::int64_t rank = 0;
  double scale = 1;
};

struct LoraAdapter {
  std::filesystem::path path;
  LoraConfig config;
  std::vector<LoraTarget> targets;
  /// Tensors of modules_to_save and biases: they take the place of the model's, or are new to it.
  std::vector<NamedEntry> replaced;
};

struct MergeLoraOptions {
  std::string at = {};  ///< dotted path of the base's state dict; "" = the only one
  double strength = 1;  ///< factor of every change
};

struct MergeLoraReport {
  std::uint64_t merged = 0;             ///< weights that changed
  std::uint64_t replaced = 0;           ///< tensors that the adapter brings whole
  std::vector<std::string> added = {};  ///< of these the names that the base did not have
  std::string base_prefix = {};         ///< what the base's names have before the adapter's: "module."
  std::string adapter_prefix = {};      ///< what the adapter's names have before the base's: "transformer."
};

/// `folder` may be the folder or the file of weights in it. Errors: those of open(); Error(io) without an
/// adapter_config.json; Error(corrupt) for one that is none; Error(unsupported) naming the field for adapters of other
/// kinds (peft_type) and features that change more than weights.
LoraAdapter open_lora(const std::filesystem::path& folder, const OpenOptions& options = {});

/// The base's state dict with the changes in its weights. Errors: Error(key) when the base lacks modules of the
/// adapter; Error(value) for shapes that do not fit; Error(unsupported) for weights in quantised blocks and of types
/// that cannot be computed with, and for DoRA on transposed weights. All name the module.
Checkpoint merge_lora(const Checkpoint& base, const LoraAdapter& adapter, const MergeLoraOptions& options = {},
                      MergeLoraReport* report = nullptr);

}  // namespace ckpt
