#pragma once
// Small text helpers: quoting names in messages, sizes with units, joining.
// Thread safety: pure functions. Use: core::quote("a\nb") == "'a\\nb'".

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace core {

/// 'name' in single quotes; control characters, quotes, backslashes and bytes that are no UTF-8 are escaped (\n, \x1b,
/// \u202e), so that a name from a file can never move the cursor or reorder a line. Cut to `max` bytes with "..."
/// behind.
std::string quote(std::string_view text, std::size_t max = 200);
/// The same escaping without the quotes and without a cut.
std::string printable(std::string_view text);
/// True when `text` is well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string_view> split(std::string_view text, char separator);

/// "1.5 GiB", "312 B". Binary units, three significant digits at most.
std::string format_size(std::uint64_t bytes);
/// "1,234,567".
std::string format_count(std::uint64_t count);
/// The shortest text that reads back as the same double, as Python writes it: "0.1", "1e-05", "1.0", "nan".
std::string python_float(double value);
/// Reads "512", "64K", "64KiB", "1.5GB", "2G": K, M, G, T (and KiB ...) are powers of 1024, KB, MB ... powers of 1000.
std::optional<std::uint64_t> try_parse_size(std::string_view text);

}  // namespace core
