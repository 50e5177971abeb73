#pragma once
// stats: what the values of tensors are like: range, mean, spread, zeros, NaN, infinities, denormals, a histogram.
// Every tensor is read once, in pieces, by several threads; the result does not depend on their number. Thread safety:
// pure. Use: ckpt::ModelStats s = ckpt::stats(ckpt::list_entries(checkpoint.root)); if (s.total.nan > 0) ...

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"

namespace ckpt {

/// Finite values counted by size; the first bin begins at `low`, the last ends at `high`, all are equally wide. Empty
/// when there are none.
struct ValueHistogram {
  double low = 0;
  double high = 0;
  std::vector<std::uint64_t> counts = {};
};

/// Of complex tensors the magnitudes count (`negative` then stays 0), of packed ones the single values, of bools 0 and
/// 1, of quantised ones the stored integers.
struct TensorStats {
  std::uint64_t values = 0;  ///< how many there are
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;  ///< of either sign
  std::uint64_t zeros = 0;
  std::uint64_t negative = 0;   ///< below zero, infinity included
  std::uint64_t denormals = 0;  ///< not zero, below the smallest normal number of the type
  // Of the finite values; 0 when there are none:
  double min = 0;
  double max = 0;
  double mean = 0;
  double deviation = 0;  ///< standard deviation, divided by the count
  double norm = 0;       ///< square root of the sum of squares
  bool numbers = true;   ///< false: a type that is no number, or no bytes: nothing was counted
  ValueHistogram histogram = {};

  std::uint64_t finite() const { return values - nan - inf; }
};

struct NamedStats {
  std::string name;
  EntryPtr entry;
  TensorStats stats;
};

struct ModelStats {
  std::vector<NamedStats> tensors;  ///< in the order they were given
  /// All together; tensors that share their values are counted once, integers and bools not at all.
  TensorStats total;
  std::uint64_t bytes = 0;  ///< read
};

struct StatsOptions {
  unsigned threads = 0;
  /// Bins of the histograms; 0 = none. Tensors above 4 MiB and the total are binned through 65,536 logarithmic bins, so
  /// that a value close to an edge (within 1/128 of it) may be counted beside it.
  std::size_t bins = 40;
  Progress progress = {};  ///< bytes
};

/// Errors: those of reading, with the key as context.
ModelStats stats(const std::vector<NamedEntry>& entries, const StatsOptions& options = {});

}  // namespace ckpt
