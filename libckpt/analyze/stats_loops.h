#pragma once
// The inner loops of stats.h over blocks of doubles; built with full optimisation in every build. Internal.
// Thread safety: an accumulator has one owner. Use: moments.merge(moments_of(numbers, smallest_normal(dtype)));

#include <cstdint>
#include <span>
#include <vector>

namespace ckpt::detail {

/// Counts and moments of a run of numbers. Runs are merged in order, so the result is the same on any machine.
struct Moments {
  std::uint64_t values = 0;
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;
  std::uint64_t zeros = 0;
  std::uint64_t negative = 0;
  std::uint64_t denormals = 0;
  double min = 0;
  double max = 0;
  double mean = 0;
  double squares = 0;  ///< sum of squared distances from the mean

  std::uint64_t finite() const { return values - nan - inf; }
  void merge(const Moments& other);
};

/// REQUIRES: at most 4096 numbers.
Moments moments_of(std::span<const double> numbers, double smallest_normal);

/// (re, im) pairs to magnitudes, in place; returns the first half.
std::span<double> magnitudes(std::span<double> pairs);

/// Finite numbers counted by the upper 16 bits of their float32 form: sign, exponent and 7 bits of the fraction.
class FineCounts {
 public:
  static constexpr std::size_t kBins = 65'536;
  FineCounts() : counts_(kBins) {}
  /// Each of `numbers` counts `times` times.
  void add(std::span<const double> numbers, std::uint64_t times = 1);
  void add(const FineCounts& other);
  void clear();
  /// `bins` equal bins over [low, high], each fine bin put where its middle is.
  std::vector<std::uint64_t> rebin(double low, double high, std::size_t bins) const;

 private:
  std::vector<std::uint64_t> counts_;
};

/// Counts finite numbers into equal bins of [low, high].
void add_to_bins(std::span<const double> numbers, double low, double high, std::vector<std::uint64_t>& counts);

}  // namespace ckpt::detail
