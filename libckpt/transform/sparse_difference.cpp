#include "libckpt/transform/sparse_difference.h"

#include <algorithm>
#include <string>
#include <vector>

#include "libckpt/io/checksum.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kBins = 1 << 16;
constexpr double kNoSum = 1e-7;  ///< sums below count as zero

/// How many values fall into a bin, and the sum of their sizes.
struct Bins {
  std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(kBins);
  std::vector<double> sums = std::vector<double>(kBins);

  void add(std::size_t bin, float value) {
    ++counts[bin];
    sums[bin] += std::abs(static_cast<double>(value));
  }

  double total() const {
    double sum = 0;
    for (double part : sums) sum += part;
    return sum;
  }
};

/// The bin that holds value number `wanted` from the largest down; of those above it count and sum are added up.
std::size_t bin_of(const Bins& bins, std::uint64_t wanted, std::uint64_t& above, double& sum_above) {
  for (std::size_t bin = kBins; bin-- > 1;) {
    if (above + bins.counts[bin] >= wanted) return bin;
    above += bins.counts[bin];
    sum_above += bins.sums[bin];
  }
  return 0;
}

double ratio(double before, double after) {
  return before < kNoSum || after < kNoSum ? 1 : before / after;
}

/// Behind the `wanted`th value of exactly this size.
std::uint64_t end_of_equal(std::uint32_t bits, std::uint64_t wanted, const ForEachPiece& for_each_piece) {
  std::uint64_t end = 0;
  for_each_piece([&](std::uint64_t first, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size() && wanted > 0; ++i) {
      if (size_bits(values[i]) != bits) continue;
      end = first + i + 1;
      --wanted;
    }
  });
  return end;
}

}  // namespace

Kept largest_values(std::uint64_t count, double density, bool rescale, const ForEachPiece& for_each_piece) {
  if (density >= 1) return {};
  if (density <= 0 || count == 0) return {.by = Kept::By::none};
  const std::uint64_t wanted =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(density * static_cast<double>(count)));
  Bins coarse;
  for_each_piece([&](std::uint64_t, std::span<const float> values) {
    for (float value : values) coarse.add(size_bits(value) >> 16, value);
  });
  std::uint64_t above = 0;
  double sum = 0;
  const std::size_t high = bin_of(coarse, wanted, above, sum);
  Bins fine;
  for_each_piece([&](std::uint64_t, std::span<const float> values) {
    for (float value : values) {
      if (size_bits(value) >> 16 == high) fine.add(size_bits(value) & 0xffff, value);
    }
  });
  const std::size_t low = bin_of(fine, wanted, above, sum);
  Kept kept{.by = Kept::By::size, .least = static_cast<std::uint32_t>(high << 16 | low)};
  const std::uint64_t equal = wanted - above;
  if (equal < fine.counts[low]) kept.end = end_of_equal(kept.least, equal, for_each_piece);
  sum += fine.sums[low] * static_cast<double>(equal) / static_cast<double>(fine.counts[low]);
  if (rescale) kept.scale = ratio(coarse.total(), sum);
  return kept;
}

Kept values_by_chance(std::uint64_t key, double density, bool rescale, const ForEachPiece& for_each_piece) {
  if (density >= 1) return {};
  Kept kept{.by = Kept::By::chance, .key = key, .density = density};
  if (!rescale) return kept;
  double before = 0;
  double after = 0;
  for_each_piece([&](std::uint64_t first, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double size = std::abs(static_cast<double>(values[i]));
      before += size;
      if (kept.has(values[i], first + i)) after += size;
    }
  });
  kept.scale = ratio(before, after);
  return kept;
}

bool stays_by_chance(std::uint64_t key, std::uint64_t index, double density) {
  // SplitMix64 of a counter: number `index` without those before it.
  std::uint64_t x = key + (index + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-53 < density;
}

std::uint64_t chance_key(std::uint64_t seed, std::string_view name, std::size_t model) {
  const std::string text = std::to_string(seed) + "/" + std::to_string(model) + "/" + std::string(name);
  return hash128(std::as_bytes(std::span(text.data(), text.size()))).low;
}

}  // namespace ckpt::detail
