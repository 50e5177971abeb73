#include "tools/ckpt/output/treemap.h"

#include <algorithm>

namespace cli {
namespace {

/// The worst ratio of sides in a row of pieces of these areas along a side of this length.
double worst(double sum, double smallest, double largest, double side) {
  double square = side * side;
  return std::max(square * largest / (sum * sum), sum * sum / (square * smallest));
}

/// Places areas[begin, end) along the shorter side of `free` and takes their strip off it.
void place_row(const std::vector<double>& areas, std::size_t begin, std::size_t end, Rect& free,
               std::vector<Rect>& out) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += areas[i];
  bool upright = free.width >= free.height;
  double side = upright ? free.height : free.width;
  double thickness = side > 0 ? sum / side : 0;
  double at = upright ? free.y : free.x;
  for (std::size_t i = begin; i < end; ++i) {
    double length = sum > 0 ? side * areas[i] / sum : 0;
    out.push_back(upright ? Rect{free.x, at, thickness, length} : Rect{at, free.y, length, thickness});
    at += length;
  }
  (upright ? free.x : free.y) += thickness;
  double& rest = upright ? free.width : free.height;
  rest = std::max(0.0, rest - thickness);
}

}  // namespace

std::vector<Rect> treemap(const std::vector<double>& areas, const Rect& whole) {
  double total = 0;
  for (double area : areas) total += area;
  std::vector<double> scaled;
  for (double area : areas) scaled.push_back(area / total * whole.width * whole.height);
  std::vector<Rect> out;
  Rect free = whole;
  std::size_t begin = 0;
  while (begin < scaled.size()) {
    double side = std::min(free.width, free.height);
    double sum = scaled[begin];
    std::size_t end = begin + 1;
    for (; end < scaled.size(); ++end) {
      double before = worst(sum, scaled[end - 1], scaled[begin], side);
      if (worst(sum + scaled[end], scaled[end], scaled[begin], side) > before) break;
      sum += scaled[end];
    }
    place_row(scaled, begin, end, free, out);
    begin = end;
  }
  return out;
}

}  // namespace cli
