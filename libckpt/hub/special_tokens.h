#pragma once
// Which tokens begin and end a text, pad it and so on, and whether they are added by themselves, as gguf-py's
// SpecialVocab finds it in the files of a folder. Internal to libckpt/hub. Thread safety: pure. Use:
// SpecialTokens special = find_special_tokens(files); special.ids.at(0)

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/hub/config_fields.h"

namespace ckpt::detail {

/// The files of a folder that say what its tokenizer is.
struct TokenizerFiles {
  std::filesystem::path folder;
  Links links = Links::inside;
  std::optional<ConfigFields> config;        ///< config.json
  std::optional<ConfigFields> tokenizer;     ///< tokenizer.json
  std::optional<ConfigFields> settings;      ///< tokenizer_config.json
  std::optional<core::ByteVector> pieces;    ///< tokenizer.model or spiece.model
  std::optional<ConfigFields> added;         ///< added_tokens.json
  std::optional<std::string> chat_template;  ///< of tokenizer_config.json or a file of its own
};

/// Error(corrupt) for files that are not what their names say.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, Links links);

struct SpecialTokens {
  std::vector<std::pair<std::string, std::int64_t>> ids;  ///< "bos" -> 1, in the order in which they were found
  std::vector<std::pair<std::string, bool>> added;        ///< "bos" -> true: is put before a text by itself
  std::optional<bool> lowercase;
  std::optional<bool> strip_accents;
};

/// `tokens`: ids from there on are left out.
SpecialTokens find_special_tokens(const TokenizerFiles& files, std::optional<std::int64_t> tokens);

}  // namespace ckpt::detail
