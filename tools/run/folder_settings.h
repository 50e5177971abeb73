#pragma once
// What generation_config.json of a folder says about the texts that its model writes. Thread safety: pure.
// Use: zoo::GenerateOptions how = folder_settings("Llama-3.2-1B", config, Suppressed::refused);

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "zoo/config.h"
#include "zoo/generate.h"

namespace cli {

/// Whether "suppress_tokens" and "begin_suppress_tokens" are looked at.
enum class Suppressed : std::uint8_t { refused, here };

/// nullopt for a field that is no count.
std::optional<std::int64_t> count_in(const zoo::Config& config, std::string_view name);
/// How many positions a model of texts has; the largest number where its config.json does not say.
std::int64_t context_of(const zoo::Config& config);

/// `model`: config.json, which says what generation_config.json leaves out. Errors: Error(unsupported) naming a field
/// whose feature is not here; Error(corrupt) for one of another kind.
zoo::GenerateOptions folder_settings(const std::filesystem::path& folder, const zoo::Config& model,
                                     Suppressed suppressed);

}  // namespace cli
