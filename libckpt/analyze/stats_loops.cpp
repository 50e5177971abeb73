#include "libckpt/analyze/stats_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ckpt::detail {
namespace {

constexpr double kHuge = std::numeric_limits<double>::infinity();

std::size_t bin_of(double value, double low, double scale, std::size_t bins) {
  double place = (value - low) * scale;
  return std::min(place > 0 ? static_cast<std::size_t>(place) : 0, bins - 1);
}

double scale_of(double low, double high, std::size_t bins) {
  return high > low ? static_cast<double>(bins) / (high - low) : 0;
}

}  // namespace

Moments moments_of(std::span<const double> numbers, double smallest_normal) {
  Moments out;
  out.values = numbers.size();
  double low = kHuge;
  double high = -kHuge;
  double sum = 0;
  std::int64_t nan = 0;
  std::int64_t inf = 0;
  std::int64_t zeros = 0;
  std::int64_t negative = 0;
  std::int64_t small = 0;
  for (double x : numbers) {
    bool finite = x - x == 0;
    double magnitude = std::abs(x);
    nan += x != x;
    inf += magnitude == kHuge;
    zeros += x == 0;
    negative += x < 0;
    small += magnitude < smallest_normal;
    low = finite && x < low ? x : low;
    high = finite && x > high ? x : high;
    sum += finite ? x : 0;
  }
  out.nan = static_cast<std::uint64_t>(nan);
  out.inf = static_cast<std::uint64_t>(inf);
  out.zeros = static_cast<std::uint64_t>(zeros);
  out.negative = static_cast<std::uint64_t>(negative);
  out.denormals = smallest_normal > 0 ? static_cast<std::uint64_t>(small - zeros) : 0;
  if (out.finite() == 0) return out;
  out.min = low;
  out.max = high;
  out.mean = sum / static_cast<double>(out.finite());
  double squares = 0;
  for (double x : numbers) {
    double distance = x - x == 0 ? x - out.mean : 0;
    squares += distance * distance;
  }
  out.squares = squares;
  return out;
}

void Moments::merge(const Moments& other) {
  std::uint64_t mine = finite();
  std::uint64_t theirs = other.finite();
  if (theirs > 0 && mine > 0) {
    double all = static_cast<double>(mine + theirs);
    double distance = other.mean - mean;
    squares += other.squares + distance * distance * (static_cast<double>(mine) * static_cast<double>(theirs) / all);
    mean += distance * (static_cast<double>(theirs) / all);
    min = std::min(min, other.min);
    max = std::max(max, other.max);
  } else if (theirs > 0) {
    min = other.min;
    max = other.max;
    mean = other.mean;
    squares = other.squares;
  }
  values += other.values;
  nan += other.nan;
  inf += other.inf;
  zeros += other.zeros;
  negative += other.negative;
  denormals += other.denormals;
}

std::span<double> magnitudes(std::span<double> pairs) {
  std::size_t count = pairs.size() / 2;
  for (std::size_t i = 0; i < count; ++i) pairs[i] = std::hypot(pairs[2 * i], pairs[2 * i + 1]);
  return pairs.first(count);
}

void FineCounts::add(std::span<const double> numbers, std::uint64_t times) {
  for (double x : numbers) {
    if (x - x != 0) continue;
    float narrow = static_cast<float>(std::clamp(x, -3.4e38, 3.4e38));
    counts_[std::bit_cast<std::uint32_t>(narrow) >> 16] += times;
  }
}

void FineCounts::add(const FineCounts& other) {
  for (std::size_t i = 0; i < kBins; ++i) counts_[i] += other.counts_[i];
}

void FineCounts::clear() {
  std::fill(counts_.begin(), counts_.end(), 0);
}

std::vector<std::uint64_t> FineCounts::rebin(double low, double high, std::size_t bins) const {
  std::vector<std::uint64_t> out(bins);
  double scale = scale_of(low, high, bins);
  for (std::size_t i = 0; i < kBins; ++i) {
    if (counts_[i] == 0) continue;
    // The middle of the fine bin; its first value stands for zero and for the numbers nearest to it.
    std::uint32_t half = (i & 0x7fffU) == 0 ? 0 : 0x8000U;
    auto middle = std::bit_cast<float>((static_cast<std::uint32_t>(i) << 16) | half);
    out[bin_of(middle, low, scale, bins)] += counts_[i];
  }
  return out;
}

void add_to_bins(std::span<const double> numbers, double low, double high, std::vector<std::uint64_t>& counts) {
  double scale = scale_of(low, high, counts.size());
  for (double x : numbers) {
    if (x - x == 0) ++counts[bin_of(x, low, scale, counts.size())];
  }
}

}  // namespace ckpt::detail
