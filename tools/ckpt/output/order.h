#pragma once
// Orders of a list: by name as people count (layer2 before layer10), by size, by type.
// Thread safety: pure. Use: std::sort(names.begin(), names.end(), natural_less);

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ckpt/output/listing.h"

namespace cli {

/// Runs of digits compare as numbers, the rest byte by byte; equal numbers with other zeros in front by their length.
bool natural_less(std::string_view a, std::string_view b);

enum class Order : std::uint8_t { file, name, size, numel, dtype };

/// "file", "name", "size", "numel", "dtype"; Error(usage) for another word.
Order parse_order(const std::string& text);

/// Indexes of a listing's tensors in this order; sizes largest first, equal ones as in the file.
std::vector<std::size_t> ordered(const Listing& listing, Order order);

}  // namespace cli
