#pragma once
// LoRA: beside linear layers of a model that stays as it is, products of two narrow matrices learn. Saved as PEFT has
// it, which loads it. Source: Hu et al. 2021. Thread safety: as core::Module; the model's layers call what is here.
// Use: auto lora = std::make_shared<train::Lora>(model, train::LoraOptions{.rank = 8}); optimizer over
// lora->parameters();

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "libcore/module/module.h"
#include "tools/train/options.h"

namespace train {

struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 8;                    ///< changes count alpha / rank
  std::vector<std::string> targets;    ///< ends of the names of layers; none: what PEFT takes for the family
  std::vector<std::string> learn_too;  ///< modules of the model that learn as they are: its head
};
LoraOptions lora_options(const RunOptions& o);

/// The factors, and what learns besides; its state holds nothing else.
class Lora : public core::ModuleOf<Lora> {
 public:
  struct Layer {
    std::string path;
    core::Parameter a;  ///< (rank, in), drawn as PEFT draws it from the same seed
    core::Parameter b;  ///< (out, rank), zeros
  };

  /// Lets the rest of `model`, which has to outlive this, learn no more. Errors: Error(usage) naming a target that is
  /// no linear layer of the model, and a rank below 1.
  Lora(core::Module& model, LoraOptions options);
  void members(core::Members& m) override;

  const core::Module& base() const { return *base_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const LoraOptions& options() const { return options_; }
  bool is_transposed() const { return is_transposed_; }  ///< weights are (in, out), as GPT-2 has them
  std::uint64_t kept() const { return kept_; }           ///< numbers of the model that stay as they are

  /// `state`, of this or of a copy, under PEFT's names.
  core::StateDict named_as_peft(const core::StateDict& state) const;
  /// Takes what named_as_peft() gave. Errors: those of Module::load_state_dict().
  void load_peft(const core::StateDict& state);

 private:
  std::vector<std::pair<std::string, std::string>> names() const;

  const core::Module* base_;
  LoraOptions options_;
  std::vector<Layer> layers_;
  std::vector<std::pair<std::string, core::Tensor>> besides_;  ///< by their names in the model
  bool is_transposed_ = false;
  std::uint64_t kept_ = 0;
};

/// A model and its factors as one module, of which copies may be made on other devices. Thread safety: as core::Module.
class WithFactors : public core::ModuleOf<WithFactors> {
 public:
  WithFactors(std::shared_ptr<core::Module> base, const Lora& lora) : base_(std::move(base)), layers_(lora.layers()) {}
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);

 private:
  std::shared_ptr<core::Module> base_;
  std::vector<Lora::Layer> layers_;
};

/// Puts layers that count means and deviations of batches (BatchNorm) into eval mode: they use those they have.
void keep_statistics(core::Module& model);

/// Writes adapter_config.json and adapter_model.safetensors for the model of `base`. Errors: Error(io).
void write_adapter_folder(const Lora& lora, const std::string& base, const char* task, const core::StateDict& state,
                          const std::filesystem::path& target);

/// "LoRA of rank 8 beside 24 layers (q_proj, v_proj), all else as it is".
std::string about_lora(const Lora& lora);

}  // namespace train
