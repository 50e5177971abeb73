#pragma once
// What dotted names have in common: a branch, a last component, a prefix that came or went. Internal.
// Thread safety: pure. Use: common_branch({"fc.weight", "fc.bias"}) == "fc";

#include <string>
#include <utility>
#include <vector>

namespace ckpt::detail {

/// The longest run of whole components that all names begin with (never all of a name), "" for none.
std::string common_branch(const std::vector<std::string>& names);

/// The last component when all have the same, else "".
std::string common_last(const std::vector<std::string>& names);

/// "'module.' is added" or "'module.' is removed" or "'a.' becomes 'b.'" when that explains every pair, else "".
std::string prefix_change(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace ckpt::detail
