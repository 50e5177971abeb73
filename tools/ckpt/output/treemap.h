#pragma once
// treemap: divides a rectangle among areas so that the pieces come close to squares.
// Thread safety: pure. Use: std::vector<Rect> pieces = treemap({6, 3, 1}, {0, 0, 100, 50});

#include <vector>

namespace cli {

struct Rect {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// One piece an area, in the given order, their sizes in proportion. REQUIRES: areas positive and finite, largest
/// first. Source: Bruls, Huizing, van Wijk, "Squarified Treemaps", 2000.
std::vector<Rect> treemap(const std::vector<double>& areas, const Rect& whole);

}  // namespace cli
