// Joining, splitting, turning and spreading, made of the common operations.
#include "libcore/tensor/shape_ops.h"

#include <algorithm>

#include "libcore/autograd/composed.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/indexing.h"
#include "libcore/tensor/more_ops.h"
#include "libcore/tensor/raw_ops.h"

namespace core {
namespace {

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::runtime, text);
}

template <class F>
std::vector<Tensor> each(const std::vector<Tensor>& parts, F function) {
  std::vector<Tensor> result;
  for (const Tensor& part : parts) result.push_back(function(part));
  return result;
}

}  // namespace

Tensor atleast_1d(const Tensor& x) {
  return x.dim() == 0 ? x.reshape({1}) : x;
}
Tensor atleast_2d(const Tensor& x) {
  if (x.dim() == 0) return x.reshape({1, 1});
  return x.dim() == 1 ? x.unsqueeze(0) : x;
}
Tensor atleast_3d(const Tensor& x) {
  if (x.dim() == 0) return x.reshape({1, 1, 1});
  if (x.dim() == 1) return x.unsqueeze(0).unsqueeze(-1);
  return x.dim() == 2 ? x.unsqueeze(-1) : x;
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

std::vector<Tensor> tensor_split(const Tensor& x, const Shape& positions, std::int64_t dim) {
  if (x.dim() == 0) fail("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  const std::int64_t d = raw::wrap_dim(dim, x.dim());
  std::vector<Tensor> parts;
  std::int64_t from = 0;
  for (const std::int64_t to : positions) {
    parts.push_back(x.slice(d, from, to));
    from = to;
  }
  parts.push_back(x.slice(d, from));
  return parts;
}

std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim) {
  if (x.dim() == 0) fail("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  if (sections <= 0) fail("number of sections must be larger than 0, got " + std::to_string(sections));
  const std::int64_t size = x.size(dim);
  Shape positions;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i + 1 < sections; ++i) {
    at += size / sections + (i < size % sections ? 1 : 0);
    positions.push_back(at);
  }
  return tensor_split(x, positions, dim);
}

namespace {

std::vector<Tensor> equal_split(const Tensor& x, std::int64_t sections, std::int64_t dim, const std::string& name) {
  if (sections <= 0 || x.size(dim) % sections != 0) {
    fail("torch." + name + " attempted to split along dimension " + std::to_string(dim) +
         ", but the size of the dimension " + std::to_string(x.size(dim)) + " is not divisible by the split_size " +
         std::to_string(sections) + "!");
  }
  return tensor_split(x, sections, dim);
}

void check_rank(const Tensor& x, std::int64_t least, const std::string& name) {
  if (x.dim() >= least) return;
  fail("torch." + name + " requires a tensor with at least " + std::to_string(least) +
       " dimension, but got a tensor with " + std::to_string(x.dim()) + " dimensions!");
}

}  // namespace

std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections) {
  check_rank(x, 1, "hsplit");
  return equal_split(x, sections, x.dim() == 1 ? 0 : 1, "hsplit");
}
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections) {
  check_rank(x, 2, "vsplit");
  return equal_split(x, sections, 0, "vsplit");
}

namespace {

/// The dimensions from the front. Error for one that is named twice.
Shape distinct_dims(const Shape& dims, std::int64_t rank, const char* what) {
  Shape wrapped;
  for (const std::int64_t dim : dims) {
    const std::int64_t d = raw::wrap_dim(dim, rank);
    if (std::find(wrapped.begin(), wrapped.end(), d) != wrapped.end()) {
      fail(std::string("movedim: repeated dim in `") + what + "` (" + to_list(dims) + ")");
    }
    wrapped.push_back(d);
  }
  return wrapped;
}

}  // namespace

Tensor movedim(const Tensor& x, const Shape& from, const Shape& to) {
  if (from.size() != to.size()) {
    fail("movedim: Invalid source or destination dims: source (" + to_list(from) +
         " dims) should contain the same number of dims as destination (" + to_list(to) + " dims)");
  }
  const Shape source = distinct_dims(from, x.dim(), "source"), target = distinct_dims(to, x.dim(), "destination");
  if (x.dim() == 0) return x.permute({});
  Shape order(x.sizes().size(), -1);
  for (std::size_t i = 0; i < source.size(); ++i) order[static_cast<std::size_t>(target[i])] = source[i];
  std::int64_t next = 0;
  for (std::int64_t& slot : order) {
    if (slot != -1) continue;
    while (std::find(source.begin(), source.end(), next) != source.end()) ++next;
    slot = next++;
  }
  return x.permute(order);
}

Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b) {
  return x.transpose(a, b);
}
Tensor matrix_transpose(const Tensor& x) {
  if (x.dim() < 2) {
    fail("tensor.mT is only supported on matrices or batches of matrices. Got " + std::to_string(x.dim()) +
         "-D tensor.");
  }
  return x.transpose(-2, -1);
}
Tensor broadcast_to(const Tensor& x, const Shape& sizes) {
  return x.expand(sizes);
}
Tensor ravel(const Tensor& x) {
  return x.contiguous().view({-1});
}
Tensor squeeze(const Tensor& x, const Shape& dims) {
  const auto chosen = raw::reduced_dims(dims, x.dim());
  Tensor out = x;
  for (std::int64_t d = x.dim() - 1; d >= 0 && !dims.empty(); --d) {
    if (chosen[static_cast<std::size_t>(d)]) out = out.squeeze(d);
  }
  return out;
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

namespace {

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
