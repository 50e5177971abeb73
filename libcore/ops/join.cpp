#include "libcore/ops/join.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/index_nodes.h"
#include "libcore/ops/index.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_impl.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::zeros_for;

struct CatBackward final : Node {
  std::int64_t dim = 0;
  std::vector<Shape> sizes;
  std::string_view name() const override { return "CatBackward0"; }
  TensorList apply(TensorList g) override {
    TensorList parts;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].size() == 1 && sizes[i][0] == 0) {
        parts.push_back(zeros_for(g[0], sizes[i]));
        continue;
      }
      std::int64_t length = sizes[i][static_cast<std::size_t>(dim)];
      parts.push_back(wants(i) ? g[0].narrow(dim, at, length) : Tensor());
      at += length;
    }
    return parts;
  }
};
struct StackBackward final : Node {
  std::int64_t dim = 0;
  std::string_view name() const override { return "StackBackward0"; }
  TensorList apply(TensorList g) override {
    TensorList parts;
    for (const Tensor& part : g[0].unbind(dim)) parts.push_back(part);
    return parts;
  }
};

bool any_needs_grad(const std::vector<Tensor>& parts) {
  const bool any =
      std::any_of(parts.begin(), parts.end(), [](const Tensor& t) { return t.defined() && t.requires_grad(); });
  return any && is_grad_enabled();
}

template <class F>
std::vector<Tensor> each(const std::vector<Tensor>& parts, F function) {
  std::vector<Tensor> result;
  for (const Tensor& part : parts) result.push_back(function(part));
  return result;
}

void check_equal_sizes(const std::vector<Tensor>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].sizes() == parts[0].sizes()) continue;
    throw Error(ErrorCode::runtime, "stack expects each tensor to be equal size, but got " + to_list(parts[0].sizes()) +
                                        " at entry 0 and " + to_list(parts[i].sizes()) + " at entry " +
                                        std::to_string(i));
  }
}

/// One part behind the other, as plain bytes: the batches of a data loader. Undefined when that is not all there is to
/// it.
Tensor stacked_bytes(const std::vector<Tensor>& parts) {
  constexpr std::size_t kMostBytes = 1 << 15;  // of a part; larger ones are copied by several threads
  Backend& backend = raw::backend_of(parts[0]);
  const DType dtype = parts[0].dtype();
  const bool has_bytes = backend.is_host_memory() && backend.has_memory() && bit_width(dtype) % 8 == 0;
  const std::int64_t width = bit_width(dtype) / 8;
  const auto bytes = static_cast<std::size_t>(parts[0].numel() * width);
  if (!has_bytes || bytes > kMostBytes) return {};
  for (const Tensor& part : parts) {
    if (part.dtype() != dtype || !part.is_contiguous() || &raw::backend_of(part) != &backend) return {};
  }
  Shape sizes{static_cast<std::int64_t>(parts.size())};
  for (std::int64_t size : parts[0].sizes()) sizes.push_back(size);
  Tensor out = raw::make(sizes, dtype, backend);
  auto* to = static_cast<std::byte*>(const_cast<void*>(out.raw_data()));
  for (const Tensor& part : parts) {
    const TensorImpl& impl = *part.impl();
    const auto* from = static_cast<const std::byte*>(impl.storage.data());
    if (bytes != 0) std::memcpy(to, from + impl.offset * width, bytes);
    to += bytes;
  }
  return out;
}

/// Any parts along any dimension.
Tensor stacked_views(const std::vector<Tensor>& parts, std::int64_t dim) {
  std::vector<Tensor> wide;
  for (const Tensor& part : parts) {
    Shape sizes = part.sizes(), strides = part.strides();
    sizes.insert(static_cast<std::size_t>(dim), 1);
    strides.insert(static_cast<std::size_t>(dim), 1);
    wide.push_back(raw::view(part, sizes, strides, part.storage_offset()));
  }
  return raw::cat(wide, dim);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& parts, std::int64_t dim) {
  if (core::detail::traced_now())
    return core::detail::traced("cat", parts, {{"dim", dim}}, [&] { return cat(parts, dim); });
  Tensor out = raw::cat(parts, dim);
  if (!any_needs_grad(parts)) return out;
  auto node = make_intrusive<CatBackward>();
  for (const Tensor& part : parts) {
    node->add_edge(part);
    node->sizes.push_back(part.sizes());
  }
  node->dim = raw::wrap_dim(dim, out.dim());
  record(out, node);
  return out;
}

Tensor stack(const std::vector<Tensor>& parts, std::int64_t dim) {
  if (core::detail::traced_now())
    return core::detail::traced("stack", parts, {{"dim", dim}}, [&] { return stack(parts, dim); });
  if (parts.empty()) throw Error(ErrorCode::runtime, "stack expects a non-empty TensorList");
  std::int64_t d = raw::wrap_dim(dim, parts[0].dim() + 1);
  check_equal_sizes(parts);
  Tensor out = d == 0 ? stacked_bytes(parts) : Tensor();
  if (!out.defined()) out = stacked_views(parts, d);
  if (!any_needs_grad(parts)) return out;
  auto node = make_intrusive<StackBackward>();
  for (const Tensor& part : parts) node->add_edge(part);
  node->dim = d;
  record(out, node);
  return out;
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, const std::string& indexing) {
  if (tensors.empty()) fail("meshgrid expects a non-empty TensorList");
  if (indexing != "ij" && indexing != "xy") {
    fail("torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: " + indexing);
  }
  std::vector<Tensor> ordered = tensors;
  const bool swap = indexing == "xy" && tensors.size() >= 2;
  if (swap) std::swap(ordered[0], ordered[1]);
  Shape sizes;
  for (const Tensor& x : ordered) sizes.push_back(x.numel());
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    Shape beside(sizes.size(), 1);
    beside[i] = sizes[i];
    result.push_back(ordered[i].view(beside).expand(sizes));
  }
  if (swap) std::swap(result[0], result[1]);
  return result;
}

Tensor hstack(const std::vector<Tensor>& parts) {
  if (parts.empty()) fail("hstack expects a non-empty TensorList");
  const auto wide = each(parts, atleast_1d);
  return cat(wide, wide[0].dim() == 1 ? 0 : 1);
}
Tensor vstack(const std::vector<Tensor>& parts) {
  if (parts.empty()) fail("vstack expects a non-empty TensorList");
  return cat(each(parts, atleast_2d), 0);
}
Tensor dstack(const std::vector<Tensor>& parts) {
  if (parts.empty()) fail("dstack expects a non-empty TensorList");
  return cat(each(parts, atleast_3d), 2);
}
Tensor column_stack(const std::vector<Tensor>& parts) {
  if (parts.empty()) fail("column_stack expects a non-empty TensorList");
  return hstack(each(parts, [](const Tensor& t) { return t.dim() <= 1 ? t.reshape({t.numel(), 1}) : t; }));
}

Tensor block_diag(const std::vector<Tensor>& parts) {
  TensorList blocks;
  std::int64_t rows = 0, columns = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].dim() > 2) {
      fail("torch.block_diag: Input tensors must have 2 or fewer dimensions. Input " + std::to_string(i) + " has " +
           std::to_string(parts[i].dim()) + " dimensions");
    }
    blocks.push_back(atleast_2d(parts[i]));
    rows += blocks[i].size(0);
    columns += blocks[i].size(1);
  }
  if (parts.empty()) return empty({1, 0});
  DType dtype = parts[0].dtype();
  for (const Tensor& part : parts) dtype = promote_types(dtype, part.dtype());
  return composed("BlockDiagBackward0", blocks, [=](const TensorList& in) {
    Tensor out = zeros({rows, columns}, {.dtype = dtype, .device = in[0].device()});
    std::int64_t row = 0, column = 0;
    for (const Tensor& block : in) {
      out.narrow(0, row, block.size(0)).narrow(1, column, block.size(1)).copy_(block);
      row += block.size(0);
      column += block.size(1);
    }
    return out;
  });
}

Tensor cartesian_prod(const std::vector<Tensor>& lists) {
  for (const Tensor& list : lists) {
    if (list.dim() != 1) fail("Expect a 1D vector, but got shape " + to_list(list.sizes()));
  }
  if (lists.size() == 1) return lists[0];
  return stack(each(meshgrid(lists), [](const Tensor& t) { return t.flatten(); }), 1);
}

Tensor combinations(const Tensor& list, std::int64_t r, bool with_replacement) {
  if (list.dim() != 1) fail("Expect a 1D vector, but got shape " + to_list(list.sizes()));
  if (r < 0) fail("Expect a non-negative number, but got " + std::to_string(r));
  if (r == 0) return empty({0}, {.dtype = list.dtype(), .device = list.device()});
  const std::int64_t n = list.numel();
  std::vector<std::int64_t> places, choice;
  const auto extend = [&](const auto& self, std::int64_t from) -> void {
    if (static_cast<std::int64_t>(choice.size()) == r) {
      places.insert(places.end(), choice.begin(), choice.end());
      return;
    }
    for (std::int64_t i = from; i < n; ++i) {
      choice.push_back(i);
      self(self, with_replacement ? i : i + 1);
      choice.pop_back();
    }
  };
  extend(extend, 0);
  const auto rows = static_cast<std::int64_t>(places.size()) / r;
  return index(list, {from_values(std::span<const std::int64_t>(places), {rows, r}, {.device = list.device()})});
}

}  // namespace core
