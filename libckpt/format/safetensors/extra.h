#pragma once
// What a state dict holds beyond names and tensors: per-module versions (_metadata), Python attributes of tensors,
// names that are tied to another tensor. safetensors has no place for them but its text metadata; they go there as one
// JSON text under kExtraKey, which other readers ignore. Thread safety: pure functions. Use: std::string json =
// extra_json(extra); Extra back = parse_extra(json);

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libckpt/value.h"

namespace ckpt::detail {

/// {"_metadata": {...}, "attributes": {"name": {...}}, "tied": {"dropped name": "kept name"}}, each part only when it
/// is not empty. Values: null, true, false, integers, numbers, text, lists, objects with text keys.
inline constexpr std::string_view kExtraKey = "ckpt.extra";

struct Extra {
  Value module_metadata;                                  ///< null, or what _metadata was
  std::vector<std::pair<std::string, Value>> attributes;  ///< by tensor name
  std::vector<std::pair<std::string, std::string>> tied;  ///< dropped name, kept name

  bool empty() const { return module_metadata.is_null() && attributes.empty() && tied.empty(); }
};

/// True when `value` survives a way through JSON.
bool is_json_value(const Value& value);
/// REQUIRES: is_json_value of all parts.
std::string extra_json(const Extra& extra);
/// nullopt when the text is not what extra_json writes.
std::optional<Extra> parse_extra(std::string_view json);

}  // namespace ckpt::detail
