#pragma once
// Line charts as SVG pictures: curves with axes, ticks and a title.
// Thread safety: pure function. Use: text = loss_curve_svg({.title = "Loss", .marks = {938}}, losses);

#include <cstddef>
#include <string>
#include <vector>

namespace cli {

struct ChartOptions {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  /// Steps at which a dashed line stands, such as the ends of epochs.
  std::vector<std::size_t> marks = {};
};

/// The values over their index, thin, with a running mean over it. An empty list gives the empty axes.
std::string loss_curve_svg(const ChartOptions& options, const std::vector<float>& values);

struct Series {
  std::string name;
  std::vector<float> values;
};
/// Several curves over 1, 2, ... on one scale, with their names; those without values are left out.
std::string lines_svg(const ChartOptions& options, const std::vector<Series>& series);

}  // namespace cli
