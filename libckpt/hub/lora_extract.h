#pragma once
// extract_lora: what a fine-tuned model has learnt beyond its base, as an adapter of PEFT: of each layer the matrix of
// low rank that is nearest to the difference of the two weights. Differences are computed one layer at a time; the
// factors of all layers are held. Thread safety: pure; runs threads. Use:
// ckpt::save_hub_model(ckpt::extract_lora(ckpt::open("base"), ckpt::open("tuned"), {.rank = 16}), "adapter");

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/hub/hub_model.h"
#include "libckpt/report.h"
#include "libckpt/transform/selector.h"

namespace ckpt {

struct ExtractLoraOptions {
  std::int64_t rank = 16;
  double alpha = 0;          ///< lora_alpha; 0: the rank. Factors are scaled so that the change is the same
  Selection tensors = {};    ///< what may be held, all by default
  bool whole = false;        ///< hold what differs and is no layer too, as modules_to_save and biases
  std::string base_at = {};  ///< dotted path of the state dict; "" = the only one
  std::string tuned_at = {};
  std::string base_name = {};  ///< base_model_name_or_path of the adapter
  unsigned threads = 0;        ///< 0: one per core
  Progress progress = {};      ///< in bytes of the base's layers
};

struct ExtractLoraReport {
  struct Layer {
    std::string module;
    core::Shape shape;  ///< of the weight
    double norm = 0;    ///< of the difference (the root of the sum of its squares)
    double error = 0;   ///< of the adapter's change, as a share of `norm`
  };
  std::vector<Layer> layers = {};
  double error = 0;                        ///< of all layers together
  std::uint64_t unchanged = 0;             ///< tensors that are equal in both
  std::vector<std::string> whole = {};     ///< tensors that the adapter holds as they are
  std::vector<std::string> left_out = {};  ///< tensors that differ, or that one of the two lacks, and that it does not
  std::vector<std::string> notes = {};     ///< what the user should know, one sentence each
};

/// A folder for PEFT: adapter_model.safetensors and adapter_config.json. Layers are weights of linear layers and
/// convolutions: names that end in ".weight", of two dimensions or more, that are no embeddings by their name.
/// Errors: Error(usage) for a rank below 1 or above 65,536 and for an alpha that is negative, below 1e-9 or above 1e9;
/// Error(key) when the two have no layer in common, or none that differs; Error(value) for weights of other shapes;
/// Error(unsupported) for quantised blocks; Error(refused) for values that are not finite. All name the tensor.
HubModel extract_lora(const Checkpoint& base, const Checkpoint& tuned, const ExtractLoraOptions& options = {},
                      ExtractLoraReport* report = nullptr);

}  // namespace ckpt
