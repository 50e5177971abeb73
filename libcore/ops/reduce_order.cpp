// Medians, modes and k-th values.
#include "libcore/ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/picked_places.h"
#include "libcore/ops/detail/reduce_nodes.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::picked;
using core::detail::places;

void refuse_bool(const Tensor& x, const char* kernel) {
  if (x.dtype() != DType::boolean) return;
  throw Error(ErrorCode::not_implemented, std::string("\"") + kernel + "\" not implemented for 'Bool'");
}

void check_length(const Tensor& x, std::int64_t d, const char* name) {
  if (x.dim() > 0 && x.size(d) == 0) {
    throw Error(ErrorCode::index,
                std::string(name) + "(): Expected reduction dim " + std::to_string(d) + " to have non-zero size.");
  }
}

/// NaN is the largest.
template <class Value>
bool less(Value a, Value b) {
  return a < b || (a == a && b != b);
}

/// Places of the line's elements in ascending order; equal ones as they stand.
template <class Values>
std::vector<std::int64_t> ascending(Values values) {
  std::vector<std::int64_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return less(values[static_cast<std::size_t>(a)], values[static_cast<std::size_t>(b)]);
  });
  return order;
}

template <class Values>
std::int64_t place_of_mode(Values values) {
  const std::vector<std::int64_t> order = ascending(values);
  std::size_t best_end = 0, best_count = 0, count = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto value = values[static_cast<std::size_t>(order[i])];
    const bool same = i > 0 && value == values[static_cast<std::size_t>(order[i - 1])];
    count = same ? count + 1 : 1;
    if (count > best_count) {
      best_count = count;
      best_end = i;
    }
  }
  return order[best_end];
}

template <class Values>
std::int64_t place_of_median(Values values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != values[i]) return static_cast<std::int64_t>(i);
  }
  return ascending(values)[(values.size() - 1) / 2];
}

template <class Values>
std::int64_t place_of_nanmedian(Values values) {
  const std::vector<std::int64_t> order = ascending(values);
  std::int64_t numbers = 0;
  for (const auto value : values) numbers += value == value ? 1 : 0;
  return order[static_cast<std::size_t>(numbers == 0 ? 0 : (numbers - 1) / 2)];
}

/// The place in each line that `place_of` finds.
template <class PlaceOf>
ValuesIndices middle_along(const char* printed, const char* name, const Tensor& x, std::int64_t dim, bool keepdim,
                           PlaceOf place_of) {
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  check_length(x, d, name);
  refuse_bool(x, "median_out");
  const Tensor at = places(x, d, 1, [&](auto values, std::span<std::int64_t> out) { out[0] = place_of(values); });
  return picked(printed, x, at, d, keepdim);
}

template <class PlaceOf>
Tensor middle_of_all(const char* printed, const Tensor& x, PlaceOf place_of) {
  refuse_bool(x, "median_cpu");
  if (x.numel() == 0) return full({}, std::nan(""), {.dtype = x.dtype(), .device = x.device()});
  const Tensor flat = raw::alias(x).reshape({-1});
  const Tensor at = places(flat, 0, 1, [&](auto values, std::span<std::int64_t> out) { out[0] = place_of(values); });
  Tensor value = raw::view(raw::gather(flat, 0, at), {}, {}, 0);
  detail::record_equals(x, value, printed);
  return value;
}

}  // namespace

ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim, bool keepdim) {
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  check_length(x, d, "kthvalue");
  refuse_bool(x, "kthvalue_cpu");
  if (k < 1 || k > (x.dim() == 0 ? 1 : x.size(d))) {
    fail("kthvalue(): selected number k out of range for dimension " + std::to_string(d));
  }
  const Tensor at = places(x, d, 1, [k](auto values, std::span<std::int64_t> out) {
    out[0] = ascending(values)[static_cast<std::size_t>(k - 1)];
  });
  return picked("KthvalueBackward0", x, at, d, keepdim);
}

ValuesIndices mode(const Tensor& x, std::int64_t dim, bool keepdim) {
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  check_length(x, d, "mode");
  const Tensor at = places(x, d, 1, [](auto values, std::span<std::int64_t> out) { out[0] = place_of_mode(values); });
  return picked("ModeBackward0", x, at, d, keepdim);
}

ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim) {
  return middle_along("MedianBackward1", "median", x, dim, keepdim,
                      [](auto values) { return place_of_median(values); });
}
Tensor median(const Tensor& x) {
  return middle_of_all("MedianBackward0", x, [](auto values) { return place_of_median(values); });
}
ValuesIndices nanmedian(const Tensor& x, std::int64_t dim, bool keepdim) {
  return middle_along("NanmedianBackward1", "nanmedian", x, dim, keepdim,
                      [](auto values) { return place_of_nanmedian(values); });
}
Tensor nanmedian(const Tensor& x) {
  return middle_of_all("NanmedianBackward0", x, [](auto values) { return place_of_nanmedian(values); });
}

}  // namespace core
