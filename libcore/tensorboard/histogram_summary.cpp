// numpy.histogram() for limits that are given, and which of its bins PyTorch writes.

#include <algorithm>
#include <cmath>

#include "libcore/base/error.h"
#include "libcore/tensorboard/summaries.h"
#include "libcore/tensorboard/wire.h"

namespace core::tensorboard {
namespace {

using Numbers = std::vector<double>;

/// From -1e20 to 1e20 through 0, each a tenth larger than the one before.
Numbers default_bins() {
  Numbers positive;
  for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
  Numbers bins;
  for (auto v = positive.rbegin(); v != positive.rend(); ++v) bins.push_back(-*v);
  bins.push_back(0);
  bins.insert(bins.end(), positive.begin(), positive.end());
  return bins;
}

/// How many values are in [limits[i], limits[i + 1]); the last bin holds its upper limit too.
Numbers counts_of(const Numbers& values, const Numbers& limits) {
  Numbers counts(limits.size() - 1);
  for (const double v : values) {
    if (!(v >= limits.front() && v <= limits.back())) continue;
    const auto above = static_cast<std::size_t>(std::upper_bound(limits.begin(), limits.end(), v) - limits.begin());
    ++counts[std::min(above, counts.size()) - 1];
  }
  return counts;
}

/// Joins neighbours until there are about `max_bins`.
void join_bins(Numbers& counts, Numbers& limits, std::size_t max_bins) {
  if (counts.size() <= max_bins) return;
  const std::size_t step = counts.size() / max_bins;
  Numbers joined, starts;
  for (std::size_t i = 0; i < counts.size(); i += step) {
    double sum = 0;
    for (std::size_t j = i; j < std::min(i + step, counts.size()); ++j) sum += counts[j];
    joined.push_back(sum);
    starts.push_back(limits[i]);
  }
  starts.push_back(limits.back());
  counts = joined;
  limits = starts;
}

/// The bins from the first that holds something to the last, with an empty one before them for its lower limit.
void trim(Numbers& counts, Numbers& limits) {
  const auto holds = [](double count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), holds) - counts.begin();
  const auto last = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), holds);
  Numbers kept_counts{0}, kept_limits(limits.begin() + first, limits.begin() + last + 1);
  kept_counts.insert(kept_counts.end(), counts.begin() + first, counts.begin() + last);
  counts = kept_counts;
  limits = kept_limits;
}

void check_bins(const HistogramOptions& options) {
  if (!options.bins.empty() && options.bins.size() < 2)
    throw Error(ErrorCode::value, "`bins` must hold two limits or more");
  if (!std::is_sorted(options.bins.begin(), options.bins.end()))
    throw Error(ErrorCode::value, "`bins` must increase monotonically, when an array");
  if (options.max_bins && *options.max_bins < 1) throw Error(ErrorCode::value, "`max_bins` must be 1 or more");
}

}  // namespace

std::string histogram_summary(const std::string& tag, const Tensor& values, const HistogramOptions& options) {
  check_bins(options);
  const Numbers all = values.detach().to_vector<double>();
  if (all.empty()) throw Error(ErrorCode::value, "The input has no element.");
  Numbers limits = options.bins.empty() ? default_bins() : options.bins;
  Numbers counts = counts_of(all, limits);
  if (options.max_bins) join_bins(counts, limits, static_cast<std::size_t>(*options.max_bins));
  if (std::all_of(counts.begin(), counts.end(), [](double count) { return count == 0; }))
    throw Error(ErrorCode::value, "The histogram is empty, please file a bug report.");
  trim(counts, limits);

  double least = all[0], most = all[0], sum = 0, squares = 0;
  for (const double v : all) {
    least = std::isnan(v) || v < least ? v : least;
    most = std::isnan(v) || v > most ? v : most;
    sum += v;
    squares += v * v;
  }
  std::string histogram, value, out;
  wire::real(histogram, 1, least);
  wire::real(histogram, 2, most);
  wire::real(histogram, 3, static_cast<double>(all.size()));
  wire::real(histogram, 4, sum);
  wire::real(histogram, 5, squares);
  wire::reals(histogram, 6, limits);
  wire::reals(histogram, 7, counts);
  wire::bytes(value, 1, tag);
  wire::bytes(value, 5, histogram);
  wire::bytes(out, 1, value);
  return out;
}

}  // namespace core::tensorboard
