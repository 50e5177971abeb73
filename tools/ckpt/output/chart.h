#pragma once
// Small charts for the terminal.
// Thread safety: pure. Use: out.print(bar_chart(histogram, 60));

#include <string>

#include "libckpt/analyze/stats.h"

namespace cli {

/// One character a group of bins, from ' ' over "\u2581" to "\u2588", by the root of the counts so that tails show.
std::string sparkline(const ckpt::ValueHistogram& histogram, std::size_t width);

/// One line a group of bins: where it begins, a bar, the count; the longest line has about `width` columns.
std::string bar_chart(const ckpt::ValueHistogram& histogram, std::size_t width);

/// "%.4g", and "-" for nothing to say.
std::string short_number(double value);

}  // namespace cli
