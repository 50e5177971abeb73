#pragma once
// GGUF metadata as text, which is what a checkpoint's metadata are, and back. The typed values stay in GgufDetail, so
// that a file that is written again keeps every type and bit.
// Thread safety: pure functions. Use: checkpoint.metadata.emplace_back(value.key, metadata_text(value));

#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/format/gguf/gguf_header.h"

namespace ckpt::detail {

struct GgufDetail final : FormatDetail {
  std::vector<GgufValue> values;  ///< those of the file, in order
};

/// "llama", "32", "1e-05", "true", ["<s>", "</s>"]. Long arrays only say how long they are.
std::string metadata_text(const GgufValue& value);

/// A value of the type of `old` that `text` stands for: what metadata_text() gave is `old` itself, numbers and truth
/// values are read, a new key (null) becomes a text. Nullopt when the text is no such value (or a changed array).
std::optional<GgufValue> metadata_value(const std::string& key, const std::string& text, const GgufValue* old);

/// The values to be written for a checkpoint, in order. `bad`: keys whose text is no value of their type.
std::vector<GgufValue> metadata_values(const Checkpoint& checkpoint, std::vector<std::string>* bad);

}  // namespace ckpt::detail
