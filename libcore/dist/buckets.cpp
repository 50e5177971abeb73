#include "libcore/dist/buckets.h"

#include <algorithm>
#include <numeric>

namespace core::distributed {
namespace {

/// PyTorch's "kNoSizeLimit".
constexpr std::int64_t kNoLimit = 0;

/// The bucket of one dtype and device that is being filled.
struct Open {
  DType dtype;
  Device device;
  std::vector<std::int64_t> indices = {};
  std::int64_t bytes = 0;
  std::size_t limit = 0;  // which of the limits
};

void sort_by_lowest(BucketAssignment& result) {
  std::vector<std::size_t> order(result.buckets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto lowest = [&](std::size_t i) {
    return *std::min_element(result.buckets[i].begin(), result.buckets[i].end());
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return lowest(a) < lowest(b); });
  BucketAssignment sorted;
  for (const std::size_t i : order) {
    sorted.buckets.push_back(std::move(result.buckets[i]));
    sorted.limits.push_back(result.limits[i]);
  }
  result = std::move(sorted);
}

}  // namespace

BucketAssignment assign_buckets(const std::vector<BucketItem>& items, const std::vector<std::int64_t>& limits,
                                const std::vector<std::int64_t>& indices) {
  BucketAssignment result;
  std::vector<Open> all;
  const auto close = [&](Open& open) {
    result.buckets.push_back(std::move(open.indices));
    result.limits.push_back(limits[open.limit]);
    open.indices = {};
    open.bytes = 0;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    const BucketItem& item = items[i];
    const std::int64_t index = indices.empty() ? static_cast<std::int64_t>(i) : indices[i];
    if (item.sparse) {
      result.buckets.push_back({index});
      result.limits.push_back(kNoLimit);
      continue;
    }
    auto open = std::find_if(all.begin(), all.end(),
                             [&](const Open& each) { return each.dtype == item.dtype && each.device == item.device; });
    if (open == all.end()) open = all.insert(all.end(), Open{item.dtype, item.device});
    open->indices.push_back(index);
    open->bytes += item.bytes;
    if (open->bytes < limits[open->limit]) continue;
    close(*open);
    if (open->limit + 1 < limits.size()) ++open->limit;
  }
  for (Open& open : all) {
    if (!open.indices.empty()) close(open);
  }
  if (indices.empty()) sort_by_lowest(result);
  return result;
}

}  // namespace core::distributed
