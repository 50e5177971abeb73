#include "libckpt/format/dcp/tiling.h"

#include <algorithm>
#include <vector>

#include "libckpt/format/corrupt.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

std::string box_text(const Box& box) {
  return "the chunk " + core::to_list(box.sizes) + " at " + core::to_list(box.offsets);
}

bool is_empty(const Box& box) {
  return std::find(box.sizes.begin(), box.sizes.end(), 0) != box.sizes.end();
}

void check_inside(const core::Shape& shape, const Box& box) {
  bool fits = box.offsets.size() == shape.size() && box.sizes.size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = box.offsets[d] >= 0 && box.sizes[d] >= 0 && box.offsets[d] <= shape[d] &&
           box.sizes[d] <= shape[d] - box.offsets[d];
  }
  if (!fits) corrupt(box_text(box) + " reaches outside of the tensor " + core::to_list(shape));
}

/// True when the boxes lie one behind the other along one dimension and fill the tensor: each as Shard() cuts it, in
/// the order of the ranks.
bool is_row(const core::Shape& shape, std::span<const Box> boxes) {
  if (boxes.empty() || boxes[0].sizes.size() != shape.size()) return false;
  std::size_t along = 0;
  while (along + 1 < shape.size() && boxes[0].sizes[along] == shape[along]) ++along;
  core::Shape next(shape.size(), 0);
  for (const Box& box : boxes) {
    if (!(box.offsets == next) || box.sizes.size() != shape.size() || is_empty(box)) return false;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool fits = d == along ? box.sizes[d] <= shape[d] - next[d] : box.sizes[d] == shape[d];
      if (!fits || box.sizes[d] < 0) return false;
    }
    if (!shape.empty()) next[along] += box.sizes[along];
  }
  return shape.empty() ? boxes.size() == 1 : next[along] == shape[along];
}

/// True when the boxes are all cells of a grid, each once. Then they neither overlap nor leave anything out.
bool is_grid(const core::Shape& shape, const std::vector<const Box*>& boxes) {
  std::uint64_t cells = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> cuts;
    for (const Box* box : boxes) cuts.push_back(box->offsets[d]);
    if (!std::is_sorted(cuts.begin(), cuts.end())) std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (const Box* box : boxes) {
      auto next = std::upper_bound(cuts.begin(), cuts.end(), box->offsets[d]);
      std::int64_t end = next == cuts.end() ? shape[d] : *next;
      if (box->offsets[d] + box->sizes[d] != end) return false;
    }
    if (cuts.front() != 0) return false;
    cells *= cuts.size();
    if (cells > boxes.size()) return false;
  }
  if (cells != boxes.size()) return false;
  auto before = [](const Box* a, const Box* b) {
    return std::lexicographical_compare(a->offsets.begin(), a->offsets.end(), b->offsets.begin(), b->offsets.end());
  };
  std::vector<const Box*> places = boxes;
  if (!std::is_sorted(places.begin(), places.end(), before)) std::sort(places.begin(), places.end(), before);
  return std::adjacent_find(places.begin(), places.end(),
                            [](const Box* a, const Box* b) { return a->offsets == b->offsets; }) == places.end();
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.offsets.size(); ++d) {
    if (a.offsets[d] + a.sizes[d] <= b.offsets[d] || b.offsets[d] + b.sizes[d] <= a.offsets[d]) return false;
  }
  return true;
}

void check_pairs(const std::vector<const Box*>& boxes) {
  if (boxes.size() > kMaxOddChunks) {
    throw Error(ErrorCode::refused, core::format_count(boxes.size()) + " chunks do not form a grid; at most " +
                                        core::format_count(kMaxOddChunks) + " such chunks are accepted");
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t k = i + 1; k < boxes.size(); ++k) {
      if (overlap(*boxes[i], *boxes[k])) corrupt(box_text(*boxes[i]) + " and " + box_text(*boxes[k]) + " overlap");
    }
  }
}

}  // namespace

void check_tiling(const core::Shape& shape, std::span<const Box> boxes) {
  if (is_row(shape, boxes)) return;
  std::vector<const Box*> filled;
  for (const Box& box : boxes) {
    check_inside(shape, box);
    if (!is_empty(box)) filled.push_back(&box);
  }
  std::uint64_t wanted = core::try_numel(shape.span()).value_or(0);
  if (filled.empty() && wanted == 0) return;
  if (!filled.empty() && is_grid(shape, filled)) return;
  check_pairs(filled);
  std::uint64_t covered = 0;
  for (const Box* box : filled) covered += core::try_numel(box->sizes.span()).value_or(0);
  if (covered == wanted) return;
  corrupt("its chunks hold " + core::format_count(covered) + " of " + core::format_count(wanted) + " elements");
}

}  // namespace ckpt::detail
