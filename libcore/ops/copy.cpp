#include "libcore/ops/copy.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using detail::in_place;

struct RepeatBackward final : Node {
  Shape times, sizes;
  std::string_view name() const override { return "RepeatBackward0"; }
  TensorList apply(TensorList g) override {
    // (t0, t1 * n1, ...) as (t0, 1, t1, n1, ...), then the repetitions are summed.
    Shape split, dims;
    std::size_t lead = times.size() - sizes.size();
    for (std::size_t i = 0; i < times.size(); ++i) {
      dims.push_back(static_cast<std::int64_t>(split.size()));
      split.push_back(times[i]);
      if (i >= lead) split.push_back(sizes[i - lead]);
    }
    return {sum(g[0].reshape(split), {.dims = dims})};
  }
};
struct FlipBackward final : Node {
  Shape dims;
  std::string_view name() const override { return "FlipBackward0"; }
  TensorList apply(TensorList g) override { return {flip(g[0], dims)}; }
};
struct RollBackward final : Node {
  Shape shifts, dims;
  std::string_view name() const override { return "RollBackward0"; }
  TensorList apply(TensorList g) override { return {roll(g[0], shifts, dims)}; }
};
template <bool kLower>
struct TriangleBackward final : Node {
  std::int64_t diagonal = 0;
  std::string_view name() const override { return kLower ? "TrilBackward0" : "TriuBackward0"; }
  TensorList apply(TensorList g) override { return {kLower ? tril(g[0], diagonal) : triu(g[0], diagonal)}; }
};

/// One dimension: the last `shift` elements come first.
Tensor rolled(const Tensor& x, std::int64_t shift, std::int64_t dim) {
  std::int64_t n = x.size(dim);
  if (n == 0) return x;
  std::int64_t by = ((shift % n) + n) % n;
  Tensor parts[] = {x.slice(dim, n - by), x.slice(dim, 0, n - by)};
  return raw::cat(parts, dim);
}

template <bool kLower>
Tensor triangle(const Tensor& x, std::int64_t diagonal) {
  if (x.dim() < 2) {
    throw Error(ErrorCode::runtime,
                std::string(kLower ? "tril" : "triu") + ": input tensor must have at least 2 dimensions");
  }
  Tensor rows = arange(x.size(-2), {.device = x.device()}).unsqueeze(1);
  Tensor columns = arange(x.size(-1), {.device = x.device()});
  Tensor distance = raw::binary(BinaryOp::sub, columns, rows);
  Tensor keep = kLower ? distance <= diagonal : distance >= diagonal;
  Tensor zero = zeros({}, {.dtype = x.dtype(), .device = x.device()});
  Tensor out = raw::where(keep, x, zero);
  if (!needs_grad(x)) return out;
  auto node = make_node<TriangleBackward<kLower>>(x);
  node->diagonal = diagonal;
  record(out, node);
  return out;
}

/// A view of the main diagonal's elements.
Tensor main_diagonal(const Tensor& x, bool wrap) {
  if (x.dim() < 2) throw Error(ErrorCode::runtime, "dimensions must larger than 1");
  std::int64_t step = 0, length = x.size(0);
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (x.dim() > 2 && x.size(d) != x.size(0)) {
      throw Error(ErrorCode::runtime, "all dimensions of input must be of equal length");
    }
    step += x.stride(d);
    length = std::min(length, x.size(d));
  }
  if (!wrap || x.dim() != 2 || x.size(0) <= x.size(1) + 1 || !x.is_contiguous()) {
    return x.as_strided({length}, {step}, x.storage_offset());
  }
  return x.as_strided({(x.numel() + step - 1) / step}, {step}, x.storage_offset());
}

Tensor triangle_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset, bool lower) {
  std::vector<std::int64_t> places[2];
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (lower ? j - i > offset : j - i < offset) continue;
      places[0].push_back(i);
      places[1].push_back(j);
    }
  }
  return stack({from_values(places[0]), from_values(places[1])});
}

}  // namespace

Tensor repeat(const Tensor& x, const Shape& times) {
  if (core::detail::traced_now())
    return core::detail::traced("repeat", {x}, {{"times", times}}, [&] { return repeat(x, times); });
  if (static_cast<std::int64_t>(times.size()) < x.dim()) {
    throw Error(ErrorCode::runtime,
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  }
  Shape split, split_strides, sizes;
  std::size_t lead = times.size() - x.sizes().size();
  for (std::size_t i = 0; i < times.size(); ++i) {
    std::int64_t own = i < lead ? 1 : x.sizes()[i - lead];
    split.push_back(times[i]);
    split.push_back(own);
    split_strides.push_back(0);
    split_strides.push_back(i < lead ? 0 : x.strides()[i - lead]);
    sizes.push_back(times[i] * own);
  }
  Tensor dense = raw::make(split, x.dtype(), raw::backend_of(x));
  raw::copy_into(dense, raw::view(x, split, split_strides, x.storage_offset()));
  Tensor out = raw::view(dense, sizes, contiguous_strides(sizes), 0);
  if (!needs_grad(x)) return out;
  auto node = make_node<RepeatBackward>(x);
  node->times = times;
  node->sizes = x.sizes();
  record(out, node);
  return out;
}

Tensor flip(const Tensor& x, const Shape& dims) {
  if (core::detail::traced_now())
    return core::detail::traced("flip", {x}, {{"dims", dims}}, [&] { return flip(x, dims); });
  auto flipped = raw::reduced_dims(dims, x.dim());
  Tensor out = raw::alias(x);
  for (std::size_t d = 0; d < x.sizes().size() && !dims.empty(); ++d) {
    if (!flipped[d]) continue;
    Tensor backwards = arange(x.sizes()[d] - 1, -1, -1, {.device = x.device()});
    if (x.sizes()[d] > 0) out = raw::index_select(out, static_cast<std::int64_t>(d), backwards);
  }
  out = raw::clone(out);
  if (!needs_grad(x)) return out;
  auto node = make_node<FlipBackward>(x);
  node->dims = dims;
  record(out, node);
  return out;
}

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims) {
  if (core::detail::traced_now())
    return core::detail::traced("roll", {x}, {{"shifts", shifts}, {"dims", dims}},
                                [&] { return roll(x, shifts, dims); });
  bool flat = dims.empty() && shifts.size() == 1;
  if (!flat && shifts.size() != dims.size()) {
    throw Error(ErrorCode::runtime, "shifts and dimensions must align. shifts: " + std::to_string(shifts.size()) +
                                        ", dims:" + std::to_string(dims.size()));
  }
  Tensor out = raw::alias(x);
  if (flat) out = rolled(out.reshape({-1}), shifts[0], 0).view(x.sizes());
  for (std::size_t i = 0; i < dims.size(); ++i) out = rolled(out, shifts[i], raw::wrap_dim(dims[i], x.dim()));
  if (!needs_grad(x)) return out;
  auto node = make_node<RollBackward>(x);
  node->dims = dims;
  for (std::int64_t shift : shifts) node->shifts.push_back(-shift);
  record(out, node);
  return out;
}

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  if (core::detail::traced_now())
    return core::detail::traced("tril", {x}, {{"diagonal", diagonal}}, [&] { return tril(x, diagonal); });
  return triangle<true>(x, diagonal);
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  if (core::detail::traced_now())
    return core::detail::traced("triu", {x}, {{"diagonal", diagonal}}, [&] { return triu(x, diagonal); });
  return triangle<false>(x, diagonal);
}

const Tensor& tril_(const Tensor& x, std::int64_t diagonal) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return tril(t, diagonal); });
}
const Tensor& triu_(const Tensor& x, std::int64_t diagonal) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return triu(t, diagonal); });
}

const Tensor& fill_diagonal_(const Tensor& x, Scalar value, bool wrap) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) {
    return composed("FillDiagonalBackward0", {t}, [=](const TensorList& in) {
      Tensor copy = in[0].clone();
      main_diagonal(copy, wrap).fill_(value);
      return copy;
    });
  });
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> dim) {
  if (repeats < 0) fail("Repeats must be non-negative");
  if (!dim) return repeat_interleave(x.flatten(), repeats, 0);
  const std::int64_t at = raw::wrap_dim(*dim, x.dim());
  Shape sizes = x.unsqueeze(at + 1).sizes();
  sizes[static_cast<std::size_t>(at) + 1] = repeats;
  return x.unsqueeze(at + 1).expand(sizes).contiguous().flatten(at, at + 1);
}

Tensor diag(const Tensor& x, std::int64_t diagonal) {
  if (x.dim() == 2) return x.diagonal(diagonal).clone();
  if (x.dim() != 1) fail("diag(): Supports 1D or 2D tensors. Got " + std::to_string(x.dim()) + "D");
  const std::int64_t size = x.numel() + std::abs(diagonal);
  return composed("DiagEmbedBackward0", {x}, [=](const TensorList& in) {
    const Tensor out = zeros({size, size}, {.dtype = in[0].dtype(), .device = in[0].device()});
    out.diagonal(diagonal).copy_(in[0]);
    return out;
  });
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> dim) {
  if (!dim) return repeat_interleave(x.flatten(), repeats, 0);
  if (repeats.dtype() != DType::i64 && repeats.dtype() != DType::i32) {
    throw Error(ErrorCode::not_implemented, std::string("\"repeat_interleave_cpu\" not implemented for '") +
                                                scalar_type_name(repeats.dtype()) + "'");
  }
  const std::int64_t d = raw::wrap_dim(*dim, x.dim());
  const std::int64_t size = x.dim() == 0 ? 1 : x.size(d);
  std::vector<std::int64_t> counts = repeats.to_vector<std::int64_t>();
  if (repeats.dim() == 0 || (repeats.dim() == 1 && repeats.numel() == 1)) {
    counts.assign(static_cast<std::size_t>(size), counts[0]);
  } else if (repeats.dim() != 1) {
    fail("repeats must be 0-dim or 1-dim tensor");
  }
  if (static_cast<std::int64_t>(counts.size()) != size) {
    fail("repeats must have the same size as input along dim, but got repeats.size(0) = " +
         std::to_string(counts.size()) + " and input.size(" + std::to_string(*dim) + ") = " + std::to_string(size));
  }
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0) fail("repeats can not be negative");
    positions.insert(positions.end(), static_cast<std::size_t>(counts[i]), static_cast<std::int64_t>(i));
  }
  const Tensor index = from_values(positions, {.device = x.device()});
  return index_select(x.dim() == 0 ? x.reshape({1}) : x, d, index);
}

Tensor rot90(const Tensor& x, std::int64_t k, const Shape& dims) {
  if (dims.size() != 2) fail("expected total rotation dims == 2, but got dims = " + std::to_string(dims.size()));
  if (x.dim() < 2) fail("expected total dims >= 2, but got total dims = " + std::to_string(x.dim()));
  if (dims[0] == dims[1]) {
    fail("expected rotation dims to be different, but got dim0 = " + std::to_string(dims[0]) +
         " and dim1 = " + std::to_string(dims[1]));
  }
  const std::int64_t a = raw::wrap_dim(dims[0], x.dim()), b = raw::wrap_dim(dims[1], x.dim());
  const std::int64_t turns = ((k % 4) + 4) % 4;
  return composed("Rot90Backward0", {x}, [=](const TensorList& in) {
    if (turns == 1) return flip(in[0], {b}).transpose(a, b).clone();
    if (turns == 2) return flip(in[0], {a, b});
    if (turns == 3) return flip(in[0], {a}).transpose(a, b).clone();
    return in[0].clone();
  });
}
Tensor fliplr(const Tensor& x) {
  if (x.dim() < 2) fail("Input must be >= 2-d.");
  return flip(x, {1});
}
Tensor flipud(const Tensor& x) {
  if (x.dim() < 1) fail("Input must be >= 1-d.");
  return flip(x, {0});
}

Tensor diag_embed(const Tensor& x, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  const std::int64_t a = raw::wrap_dim(dim1, x.dim() + 1), b = raw::wrap_dim(dim2, x.dim() + 1);
  if (a == b) fail("diagonal dimensions cannot be identical " + std::to_string(dim1) + ", " + std::to_string(dim2));
  const std::int64_t size = x.size(-1) + std::abs(offset);
  Shape sizes(x.sizes().size() + 1, 0);
  std::int64_t next = 0;
  for (std::int64_t d = 0; d <= x.dim(); ++d) {
    sizes[static_cast<std::size_t>(d)] = d == a || d == b ? size : x.size(next++);
  }
  return composed("DiagEmbedBackward0", {x}, [=](const TensorList& in) {
    Tensor out = zeros(sizes, {.dtype = in[0].dtype(), .device = in[0].device()});
    out.diagonal(offset, a, b).copy_(in[0]);
    return out;
  });
}
Tensor diagflat(const Tensor& x, std::int64_t offset) {
  return diag_embed(x.reshape({-1}), offset);
}

Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset) {
  return triangle_indices(rows, columns, offset, true);
}
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset) {
  return triangle_indices(rows, columns, offset, false);
}

Tensor vander(const Tensor& x, std::optional<std::int64_t> count, bool increasing) {
  if (x.dim() != 1) fail("x must be a one-dimensional tensor.");
  const std::int64_t columns = count.value_or(x.numel());
  if (columns < 0) fail("N must be non-negative.");
  if (columns == 0) return empty({x.numel(), 0}, {.dtype = x.dtype(), .device = x.device()});
  std::vector<Tensor> powers{ones_like(x)};
  for (std::int64_t i = 1; i < columns; ++i) powers.push_back(powers.back() * x);
  if (!increasing) std::reverse(powers.begin(), powers.end());
  return stack(powers, 1);
}

}  // namespace core
