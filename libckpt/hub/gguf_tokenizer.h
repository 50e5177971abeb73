#pragma once
// The tokenizer of a folder as GGUF metadata, as llama.cpp's converter writes it, and back. Internal to libckpt/hub.
// Thread safety: pure. Use: TokenizerNotes notes = add_tokenizer(values, folder_files, architecture, 32000);

#include <string>
#include <utility>
#include <vector>

#include "libckpt/hub/gguf_architectures.h"
#include "libckpt/hub/gguf_values.h"
#include "libckpt/hub/special_tokens.h"

namespace ckpt::detail {

/// Adds tokenizer.ggml.* and tokenizer.chat_template for `vocab_size` tokens (-1: as many as the tokenizer has). What
/// could not be taken over is said in `notes`, one sentence each. Errors: Error(corrupt) for files that contradict
/// themselves; Error(value) when the tokenizer has more tokens than the model.
void add_tokenizer(GgufValues& values, const TokenizerFiles& files, const GgufArchitecture& architecture,
                   std::int64_t vocab_size, std::vector<std::string>& notes);

/// A file of a folder: its name and what is in it.
using HubFile = std::pair<std::string, core::ByteVector>;

/// tokenizer.json or tokenizer.model, and tokenizer_config.json; none for a tokenizer that is not one of these kinds,
/// which `notes` then names. Error(corrupt) for metadata of other types, or lists that do not belong together.
std::vector<HubFile> tokenizer_files(const GgufValues& values, std::vector<std::string>& notes);

/// The pattern by which llama.cpp cuts text before byte-level BPE, for a name of tokenizer.ggml.pre; nullptr for
/// others.
struct PreTokenizer {
  std::string_view name;       ///< of tokenizer.ggml.pre
  std::string_view pattern;    ///< regular expression of tokenizer.json; "": that of ByteLevel itself
  bool single_digits = false;  ///< every digit for itself, before ByteLevel
  bool ignore_merges = false;  ///< words that are tokens are taken whole
};
const PreTokenizer* find_pre_tokenizer(std::string_view name);
/// By the "pre_tokenizer" of tokenizer.json.
const PreTokenizer* match_pre_tokenizer(const JsonView& pre_tokenizer);

}  // namespace ckpt::detail
