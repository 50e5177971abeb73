#pragma once
// The sizes of a model as the names and shapes of its tensors say them, in the fields of its family; and which fields
// no shape says. Thread safety: pure. Use: auto sizes = zoo::measure("GPT2LMHeadModel", shape_of); if (sizes) config =
// config.with(sizes->config);

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/shape.h"
#include "zoo/config.h"

namespace zoo {

/// The shape of the tensor of this name; null where there is none.
using ShapeOf = std::function<const core::Shape*(const std::string& key)>;

struct Measured {
  Config config;                    ///< what shapes say
  std::vector<std::string> unsaid;  ///< fields that matter and that no shape says: heads, epsilons
  std::string width;                ///< the field of config that the unsaid ones usually go with
};

/// nullopt for a family whose sizes are not read here, and where the tensors that say them are not there.
std::optional<Measured> measure(std::string_view family, const ShapeOf& shape_of);

/// Whether `name` is `key`, or `key` behind a prefix and a dot.
bool ends_with_key(std::string_view name, std::string_view key);

/// The field that says how many attention heads there are; empty for a family without.
std::string_view heads_field(std::string_view family);

}  // namespace zoo
