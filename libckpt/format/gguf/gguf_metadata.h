#pragma once
// GGUF metadata as text, which is what a checkpoint's metadata are, and back. The typed values stay in GgufDetail, so
// that a file that is written again keeps every type and bit.
// Thread safety: pure functions. Use: checkpoint.metadata.emplace_back(value.key, metadata_text(value));

#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/format/gguf/gguf_header.h"
#include "libckpt/obstacle.h"

namespace ckpt::detail {

/// Where the tensors of a file lie that an edit may leave there.
struct GgufInPlace {
  SourcePtr file;
  std::vector<GgufTensor> tensors;  ///< in order of the file
  std::vector<SourcePtr> sources;   ///< their data, as the entries have them
};

struct GgufDetail final : FormatDetail {
  const ByteSource* file_read() const override { return in_place ? in_place->file.get() : nullptr; }

  std::vector<GgufValue> values;        ///< those of the file, in order, but for the one that is only room
  std::optional<GgufInPlace> in_place;  ///< nullopt where a save writes other data: of several files, of the other byte
                                        ///< order, less than what was let pass
};

/// The key of a text of spaces, which keeps room in a header for edits in place and says nothing.
inline constexpr std::string_view kSlackKey = "ckpt.slack";
bool is_slack(const GgufValue& value);

/// "llama", "32", "1e-05", "true", ["<s>", "</s>"]. Long arrays only say how long they are.
std::string metadata_text(const GgufValue& value);

/// A value of the type of `old` that `text` stands for: what metadata_text() gave is `old` itself, numbers and truth
/// values are read, a new key (null) becomes a text. Nullopt when the text is no such value (or a changed array).
std::optional<GgufValue> metadata_value(const std::string& key, const std::string& text, const GgufValue* old);

/// The values to be written for a checkpoint, in order. What cannot be held goes to `obstacles`, where there is one.
std::vector<GgufValue> metadata_values(const Checkpoint& checkpoint, std::vector<Obstacle>* obstacles);

}  // namespace ckpt::detail
