#pragma once
// How far two words are apart, to find the one that was probably meant.
// Thread safety: pure. Use: if (core::edit_distance("resnet5O", name) <= 2) ...

#include <cstddef>
#include <string_view>

namespace core {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace core
