// Running sums and products, and sorting, along one dimension.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/loops.h"
#include "libcore/backend/element_types.h"

namespace core::cpu {
namespace {

template <class T, bool kProduct>
void scan_kernel(const ScanParams& p) {
  using Running = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  for_each(p.lines, kGrain / std::max<std::int64_t>(p.length, 1) + 1, [&](const Offsets<2>& at) {
    T* out = static_cast<T*>(p.out) + at[0];
    const T* in = static_cast<const T*>(p.in) + at[1];
    Running running = kProduct ? 1 : 0;
    for (std::int64_t i = 0; i < p.length; ++i) {
      auto value = static_cast<Running>(in[i * p.in_step]);
      running = kProduct ? running * value : running + value;
      out[i * p.out_step] = static_cast<T>(running);
    }
  });
}

/// NaN counts as larger than everything.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return false;
    if (b != b) return true;
  }
  return a < b;
}

template <class T>
void sort_kernel(const SortParams& p) {
  for_each(p.lines, kGrain / std::max<std::int64_t>(p.length, 1) + 1, [&](const Offsets<2>& at) {
    const T* in = static_cast<const T*>(p.in) + at[1];
    std::vector<std::int64_t> order(static_cast<std::size_t>(p.length));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return p.descending ? less(in[b * p.in_step], in[a * p.in_step]) : less(in[a * p.in_step], in[b * p.in_step]);
    });
    T* values = static_cast<T*>(p.values) + at[0];
    for (std::int64_t i = 0; i < p.length; ++i) {
      p.indices[at[0] + i * p.out_step] = order[static_cast<std::size_t>(i)];
      values[i * p.out_step] = in[order[static_cast<std::size_t>(i)] * p.in_step];
    }
  });
}

template <class... Ts>
void set_scans(ReductionTable& table) {
  (table.scan.set(ScanOp::cumsum, dtype_of<Ts>, scan_kernel<Ts, false>), ...);
  (table.scan.set(ScanOp::cumprod, dtype_of<Ts>, scan_kernel<Ts, true>), ...);
}

template <class... Ts>
void set_sorts(ReductionTable& table) {
  ((table.sort[static_cast<std::size_t>(dtype_of<Ts>)] = sort_kernel<Ts>), ...);
}

}  // namespace

void fill_scans(ReductionTable& table) {
  set_scans<std::int64_t, float, double>(table);
  set_sorts<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double>(table);
}

}  // namespace core::cpu
