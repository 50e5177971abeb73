#pragma once
// The key lists of known models, compiled in: names in order, shapes, dtypes, parameter or buffer, versions, ties. No
// tensor and no runtime is needed. The text is packed and unpacked on first use (a few milliseconds).
// Thread safety: any number of threads. Use: std::optional<ckpt::KeyList> resnet = zoo::find_manifest("resnet50");

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/analyze/key_list.h"

namespace zoo {

struct ManifestInfo {
  std::string name;
  std::string reference;         ///< library and version that the list was taken from
  std::string arguments;         ///< what the model was constructed with, JSON
  std::uint64_t parameters = 0;  ///< elements, tied ones once
  std::uint64_t tensors = 0;
  bool runs = false;  ///< the zoo has the model itself, and `ckpt zoo run` runs it
};

/// All of them, sorted by name.
const std::vector<ManifestInfo>& list_manifests();

/// Letter case does not matter, '-' and '.' mean '_', and a trailing "_shape" may be left out ("Llama-7B"). nullopt
/// when no model has that name.
std::optional<ckpt::KeyList> find_manifest(std::string_view name);

/// Names that look like `name`, best first, at most `max`: what a mistyped name may have meant.
std::vector<std::string> similar_names(std::string_view name, std::size_t max = 3);

/// Every list, for searching by shapes. Parsed on first use and kept.
const std::vector<ckpt::KeyList>& all_manifests();

}  // namespace zoo
