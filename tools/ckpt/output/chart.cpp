#include "tools/ckpt/output/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "libcore/base/text.h"
#include "tools/ckpt/output/output.h"

namespace cli {
namespace {

constexpr std::size_t kChartRows = 20;

std::vector<std::uint64_t> grouped(const ckpt::ValueHistogram& histogram, std::size_t groups) {
  std::vector<std::uint64_t> out(std::min(groups, histogram.counts.size()));
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    out[i * out.size() / histogram.counts.size()] += histogram.counts[i];
  }
  return out;
}

}  // namespace

std::string short_number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

std::string sparkline(const ckpt::ValueHistogram& histogram, std::size_t width) {
  static constexpr std::array<const char*, 9> kBars = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                                       "\u2585", "\u2586", "\u2587", "\u2588"};
  std::vector<std::uint64_t> counts = grouped(histogram, width);
  if (counts.empty()) return "";
  auto largest = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  std::string out;
  for (std::uint64_t count : counts) {
    double height = count == 0 ? 0 : 1 + std::sqrt(static_cast<double>(count) / largest) * 7;
    out += kBars[static_cast<std::size_t>(std::lround(height))];
  }
  return out;
}

std::string bar_chart(const ckpt::ValueHistogram& histogram, std::size_t width) {
  std::vector<std::uint64_t> counts = grouped(histogram, kChartRows);
  if (counts.empty()) return "";
  std::uint64_t largest = *std::max_element(counts.begin(), counts.end());
  double step = (histogram.high - histogram.low) / static_cast<double>(counts.size());
  std::string out;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::string label = short_number(histogram.low + step * static_cast<double>(i));
    std::size_t length = static_cast<std::size_t>(
        std::llround(static_cast<double>(counts[i]) / static_cast<double>(largest) * static_cast<double>(width)));
    out += std::string(12 - std::min<std::size_t>(12, label.size()), ' ') + label + "  ";
    out += std::string(counts[i] > 0 ? std::max<std::size_t>(length, 1) : 0, '#');
    out += (counts[i] > 0 ? " " : "") + core::format_count(counts[i]) + "\n";
    if (step == 0) break;
  }
  return out;
}

}  // namespace cli
