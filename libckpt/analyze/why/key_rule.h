#pragma once
// What a KeyRule does to a key and to the path of a module.
// Thread safety: pure. Use: auto rename = key_function(rule); rename("module.fc.weight");

#include <functional>
#include <string>
#include <string_view>

#include "libckpt/analyze/why.h"

namespace ckpt::detail {

/// The new name of a key, or the same. Valid as long as `rule`.
std::function<std::string(const std::string&)> key_function(const KeyRule& rule);
/// The same for the path of a module in _metadata, where "" is the root.
std::function<std::string(const std::string&)> module_function(const KeyRule& rule);

/// Replaces every run of whole components `from` by `to` (either may be several components; "" for none).
std::string replace_components(std::string_view key, std::string_view from, std::string_view to);
/// Without the components that wrappers add; the last one stays unless `last_too`.
std::string without_wrappers(std::string_view key, bool last_too);

}  // namespace ckpt::detail
