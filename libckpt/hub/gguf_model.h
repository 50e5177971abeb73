#pragma once
// Models of llama.cpp from the folders of Hugging Face, and back: a GGUF file with general.architecture,
// hyperparameters, tokenizer, and tensors with the names, layout and types that llama.cpp's own converter writes; and a
// folder that transformers loads. For Llama, Mistral (as llama), Qwen 2 and 3, Phi-3, Gemma 2, GPT-2, GPT-NeoX, T5,
// BERT, RoBERTa and DistilBERT (as bert), also those that tell texts apart. Tensors are computed when they are read,
// with bounded memory. Thread safety: pure. Use:
// ckpt::save(ckpt::to_gguf_model(ckpt::open("Llama-3.2-1B"), "Llama-3.2-1B"), "llama.gguf");

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/hub/hub_model.h"
#include "libcore/base/dtype.h"

namespace ckpt {

/// What config.json in `folder` names under "architectures", as "T5ForConditionalGeneration"; "" where it names none or
/// several. Errors: Error(corrupt) for a config.json that is none.
std::string hub_class(const std::filesystem::path& folder, bool allow_symlinks = false);
/// What llama.cpp calls the model of a folder ("llama"), by "architectures" of its config.json; "" for a folder without
/// config.json and for models that are not known here. Errors: Error(corrupt) for a config.json that is none.
std::string gguf_architecture(const std::filesystem::path& folder, bool allow_symlinks = false);
/// The same of a GGUF file, by its general.architecture; "" for other files.
std::string gguf_architecture(const Checkpoint& checkpoint);

struct GgufModelOptions {
  /// f32, f16 or bf16: the type of the matrices; nullopt keeps theirs. Norms, biases and tables of positions are f32.
  std::optional<core::DType> dtype = {};
  bool allow_symlinks = false;  ///< as in OpenOptions, for config.json and the files of the tokenizer
  bool dequantized = false;     ///< the weights are no longer what "quantization_config" of config.json says
};

struct GgufModelReport {
  std::string architecture;
  std::vector<std::string> left_out = {};  ///< tensors that llama.cpp has no place for
  std::vector<std::string> notes = {};     ///< what could not be taken over, one sentence each
};

/// Bytes that the name of a tensor may have in a GGUF file.
std::size_t longest_gguf_name();

/// Tensors of llama.cpp that are f32 in every file, whatever the others are.
bool is_gguf_float(const std::string& name, const Entry& entry);

/// `weights`: the state dict of the model in `folder`. Errors: Error(unsupported) naming a field of config.json whose
/// feature llama.cpp's architecture lacks, a tensor that it has no name for, or a type that is no float; Error(value)
/// for weights that config.json does not describe; Error(corrupt) naming the file for files that contradict themselves.
Checkpoint to_gguf_model(const Checkpoint& weights, const std::filesystem::path& folder,
                         const GgufModelOptions& options = {}, GgufModelReport* report = nullptr);

/// A folder that transformers loads. Errors: Error(unsupported) for another architecture, a tensor that transformers
/// has no name for, and quantised blocks (dequantize() them first); Error(corrupt) for metadata that do not describe
/// the tensors.
HubModel from_gguf_model(const Checkpoint& gguf, GgufModelReport* report = nullptr);

}  // namespace ckpt
