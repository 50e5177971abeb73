#pragma once
// What operations share that pick one place of each line: results, and the gradient that goes back there. Internal to
// ops.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// The gradient is added where each value was taken from.
struct PlaceBackward final : Node {
  const char* printed = "";
  std::int64_t dim = 0;
  bool keepdim = true;
  Shape sizes;
  std::string_view name() const override { return printed; }
  TensorList apply(TensorList g) override {
    if (sizes.empty()) return {g[0]};
    const Tensor at = keepdim ? saved(0) : saved(0).unsqueeze(dim), up = keepdim ? g[0] : g[0].unsqueeze(dim);
    return {scatter_add(zeros(sizes, {.dtype = g[0].dtype(), .device = g[0].device()}), dim, at, up)};
  }
};

/// Values of x at `places` (with dim kept) under a node.
inline ValuesIndices picked(const char* printed, const Tensor& x, const Tensor& places, std::int64_t dim,
                            bool keepdim) {
  Tensor values = raw::gather(x, dim, places);
  Tensor indices = places;
  const bool drop = !keepdim && x.dim() > 0;
  if (drop) {
    const NoGradGuard no_history;
    values = raw::alias(values).squeeze(dim).clone();
    indices = places.squeeze(dim).clone();
  }
  if (!needs_grad(x)) return {values, indices};
  auto node = make_node<PlaceBackward>(x);
  node->printed = printed;
  node->dim = dim;
  node->keepdim = !drop;
  node->sizes = x.sizes();
  node->save(indices);
  record(values, node);
  return {values, indices};
}

/// Calls line(values, places) for every line along dim, and gives the places as a tensor: `count` a line, or as many as
/// the line has.
template <class Value, class Line>
Tensor places_of_lines(const Tensor& x, std::int64_t dim, std::optional<std::int64_t> count, Line line) {
  const NoGradGuard no_history;
  const Tensor last = x.dim() == 0 ? raw::alias(x).reshape({1}) : raw::alias(x).movedim(dim, -1);
  const std::int64_t length = last.size(-1), kept = count.value_or(length);
  const std::vector<Value> values = last.to_vector<Value>();
  const std::int64_t lines = length == 0 ? 0 : last.numel() / length;
  std::vector<std::int64_t> places(static_cast<std::size_t>(lines * kept));
  for (std::int64_t i = 0; i < lines; ++i) {
    line(std::span<const Value>(values).subspan(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length)),
         std::span<std::int64_t>(places).subspan(static_cast<std::size_t>(i * kept), static_cast<std::size_t>(kept)));
  }
  Shape sizes = last.sizes();
  sizes[sizes.size() - 1] = kept;
  const Tensor result = from_values(std::span<const std::int64_t>(places), sizes, {.device = x.device()});
  return x.dim() == 0 ? result.reshape({}) : result.movedim(-1, dim).contiguous();
}

/// Integers keep all their bits.
template <class Line>
Tensor places(const Tensor& x, std::int64_t dim, std::optional<std::int64_t> count, Line line) {
  detail::check_host_dtype(x, "sort");
  if (is_floating(x.dtype())) return places_of_lines<double>(x, dim, count, line);
  return places_of_lines<std::int64_t>(x, dim, count, line);
}

}  // namespace core::detail
