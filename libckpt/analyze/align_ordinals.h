#pragma once
// What names say about order: numbers in them, and words such as "before" and "after". Internal to align.
// Thread safety: pure. Use: auto pairs = zip_by_order({"ln_1", "ln_2"}, {"norm_before", "norm_after"});

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ckpt::detail {

/// "h.#.ln_#.weight": names that differ in numbers only are the same.
std::string without_numbers(std::string_view name);

/// What stands before the last dot, and behind it.
std::string_view module_of(std::string_view name);
std::string_view last_of(std::string_view name);

/// Pairs of indexes where each list is one name counted through, both in the same way: the first with the first, and so
/// on. Nothing when names differ in more than their numbers, or are counted otherwise.
using IndexPairs = std::vector<std::pair<std::size_t, std::size_t>>;
std::optional<IndexPairs> zip_by_order(const std::vector<std::string_view>& from,
                                       const std::vector<std::string_view>& to);

}  // namespace ckpt::detail
