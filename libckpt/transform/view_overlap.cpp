#include "libckpt/transform/view_overlap.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "libckpt/view_key.h"

namespace ckpt::detail {
namespace {

/// Elements, and pairs of views, that may be looked at for one storage before we assume the worst.
constexpr std::uint64_t kBudget = 1 << 26;
constexpr std::uint64_t kMaxPairs = 1 << 22;

struct Dim {
  std::uint64_t size;
  std::uint64_t stride;  ///< bytes
};

std::uint64_t width_of(const ViewSpan& span) {
  return static_cast<std::uint64_t>(core::bit_width(span.entry->dtype)) / 8;
}

/// Dimensions that move, the widest stride first.
std::vector<Dim> dims_of(const ViewSpan& span) {
  std::vector<Dim> dims;
  for (std::size_t d = 0; d < span.entry->shape.size(); ++d) {
    auto stride = static_cast<std::uint64_t>(span.entry->view->strides[d]) * width_of(span);
    if (span.entry->shape[d] > 1 && stride > 0)
      dims.push_back({static_cast<std::uint64_t>(span.entry->shape[d]), stride});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  return dims;
}

/// True when a stride reaches past everything that the smaller ones reach, as in a window of an ordinary tensor.
bool is_nested(const std::vector<Dim>& dims) {
  std::uint64_t reach = 0;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->stride <= reach) return false;
    reach += (dim->size - 1) * dim->stride;
  }
  return true;
}

/// Whether an element begins `offset` bytes behind the first. REQUIRES: is_nested(dims).
bool has_element(const std::vector<Dim>& dims, std::uint64_t offset) {
  for (const Dim& dim : dims) offset -= std::min(offset / dim.stride, dim.size - 1) * dim.stride;
  return offset == 0;
}

/// Calls body(offset of an element) until it says true.
template <class Body>
bool any_element(const std::vector<Dim>& dims, Body body) {
  std::vector<std::uint64_t> index(dims.size(), 0);
  std::uint64_t offset = 0;
  for (;;) {
    if (body(offset)) return true;
    std::size_t d = dims.size();
    for (; d > 0; --d) {
      Dim dim = dims[d - 1];
      if (++index[d - 1] < dim.size) {
        offset += dim.stride;
        break;
      }
      offset -= (dim.size - 1) * dim.stride;
      index[d - 1] = 0;
    }
    if (d == 0) return false;
  }
}

std::uint64_t count_of(const std::vector<Dim>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::uint64_t{1},
                         [](std::uint64_t n, const Dim& d) { return n * d.size; });
}

/// REQUIRES: the spans overlap.
bool share_elements(const ViewSpan& a, const ViewSpan& b, std::uint64_t& budget) {
  if (width_of(a) != width_of(b) || same_view(*a.entry, *b.entry)) return true;
  std::vector<Dim> dims_a = dims_of(a);
  std::vector<Dim> dims_b = dims_of(b);
  bool a_walks = count_of(dims_a) <= count_of(dims_b);
  const std::vector<Dim>& walked = a_walks ? dims_a : dims_b;
  const std::vector<Dim>& asked = a_walks ? dims_b : dims_a;
  std::uint64_t from = a_walks ? a.begin : b.begin;
  std::uint64_t to = a_walks ? b.begin : a.begin;
  std::uint64_t cost = count_of(walked);
  if (!is_nested(asked) || cost > budget) return true;
  budget -= cost;
  return any_element(
      walked, [&](std::uint64_t offset) { return from + offset >= to && has_element(asked, from + offset - to); });
}

/// Which parts spans belong to, while the parts grow together.
class Parts {
 public:
  explicit Parts(const std::vector<ViewSpan>& spans) : spans_(spans), parent_(spans.size()) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    std::map<ViewKey, std::size_t> first;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      auto [known, fresh] = first.try_emplace(view_key(*spans[i].entry), i);
      parent_[i] = known->second;  // the names of one view are one to all that follows
      if (fresh) distinct_.push_back(i);
    }
  }

  /// Puts together what shares elements: pair by pair while the budgets last.
  void join() {
    std::uint64_t budget = kBudget;
    std::uint64_t pairs = kMaxPairs;
    for (std::size_t n = 0; n < distinct_.size(); ++n) {
      for (std::size_t m = n + 1; m < distinct_.size() && begin(m) < end(n); ++m) {
        if (budget == 0 || pairs-- == 0) return join_overlapping(n);
        std::size_t a = root(distinct_[n]);
        std::size_t b = root(distinct_[m]);
        if (a != b && share_elements(spans_[distinct_[n]], spans_[distinct_[m]], budget)) unite(a, b);
      }
    }
  }

  std::vector<std::vector<ViewSpan>> take() {
    std::map<std::size_t, std::vector<ViewSpan>> groups;
    for (std::size_t i = 0; i < spans_.size(); ++i) groups[root(i)].push_back(spans_[i]);
    std::vector<std::vector<ViewSpan>> parts;
    for (auto& [first, members] : groups) parts.push_back(std::move(members));
    return parts;
  }

 private:
  std::uint64_t begin(std::size_t n) const { return spans_[distinct_[n]].begin; }
  std::uint64_t end(std::size_t n) const { return spans_[distinct_[n]].end; }

  /// From the n-th view on all that overlap count as sharing: one pass over them, as they are sorted by their begin.
  void join_overlapping(std::size_t n) {
    std::uint64_t reach = end(n);
    for (std::size_t m = n + 1; m < distinct_.size(); ++m) {
      if (begin(m) < reach) unite(root(distinct_[m - 1]), root(distinct_[m]));
      reach = std::max(reach, end(m));
    }
  }

  std::size_t root(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void unite(std::size_t a, std::size_t b) { parent_[std::max(a, b)] = std::min(a, b); }

  const std::vector<ViewSpan>& spans_;
  std::vector<std::size_t> parent_;
  std::vector<std::size_t> distinct_;  ///< the first span of each view
};

}  // namespace

ViewSpan span_of(const EntryPtr& entry) {
  auto width = static_cast<std::uint64_t>(core::bit_width(entry->dtype)) / 8;
  std::uint64_t begin = static_cast<std::uint64_t>(entry->view->offset) * width;
  if (entry->numel() == 0) return {entry, begin, begin};
  std::uint64_t reach = 1;
  for (std::size_t d = 0; d < entry->shape.size(); ++d) {
    reach += static_cast<std::uint64_t>(entry->shape[d] - 1) * static_cast<std::uint64_t>(entry->view->strides[d]);
  }
  return {entry, begin, begin + reach * width};
}

std::vector<std::vector<ViewSpan>> part_views(std::vector<ViewSpan> spans) {
  auto first_empty =
      std::stable_partition(spans.begin(), spans.end(), [](const ViewSpan& s) { return s.begin < s.end; });
  std::vector<ViewSpan> empty(first_empty, spans.end());
  spans.erase(first_empty, spans.end());
  std::stable_sort(spans.begin(), spans.end(), [](const ViewSpan& a, const ViewSpan& b) { return a.begin < b.begin; });
  Parts joined(spans);
  joined.join();
  std::vector<std::vector<ViewSpan>> parts = joined.take();
  if (!empty.empty()) parts.push_back(std::move(empty));
  return parts;
}

}  // namespace ckpt::detail
