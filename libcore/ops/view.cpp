#include "libcore/ops/view.h"

#include <algorithm>
#include <string>
#include <vector>

#include "libcore/base/fail.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;

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

std::vector<Tensor> copies(std::vector<Tensor> views) {
  for (Tensor& view : views) view = alias_copy(view);
  return views;
}

}  // namespace

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Shape sizes;
  for (const Tensor& x : tensors) sizes = broadcast_shapes(sizes, x.sizes());
  std::vector<Tensor> result;
  for (const Tensor& x : tensors) result.push_back(x.expand(sizes));
  return result;
}

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

std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections) {
  check_rank(x, 1, "hsplit");
  return equal_split(x, sections, x.dim() == 1 ? 0 : 1, "hsplit");
}
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections) {
  check_rank(x, 2, "vsplit");
  return equal_split(x, sections, 0, "vsplit");
}

std::vector<Tensor> dsplit(const Tensor& x, std::int64_t sections) {
  check_rank(x, 3, "dsplit");
  return equal_split(x, sections, 2, "dsplit");
}

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
Tensor narrow_copy(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  return x.narrow(dim, start, length).clone();
}
Tensor sum_to_size(const Tensor& x, const Shape& sizes) {
  const std::size_t lead = x.sizes().size() - std::min(sizes.size(), x.sizes().size());
  bool fits = sizes.size() <= x.sizes().size();
  for (std::size_t i = 0; fits && i < sizes.size(); ++i) fits = sizes[i] == 1 || sizes[i] == x.sizes()[lead + i];
  if (!fits) fail("size {" + to_list(sizes) + "} is not expandable to size {" + to_list(x.sizes()) + "}.");
  return sum_to(x, sizes);
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

Tensor alias_copy(const Tensor& x) {
  return x.clone(MemoryFormat::contiguous);
}
Tensor detach_copy(const Tensor& x) {
  return x.detach().clone(MemoryFormat::contiguous);
}
Tensor as_strided_copy(const Tensor& x, const Shape& sizes, const Shape& strides, std::optional<std::int64_t> offset) {
  return alias_copy(x.as_strided(sizes, strides, offset));
}
Tensor diagonal_copy(const Tensor& x, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  return alias_copy(x.diagonal(offset, dim1, dim2));
}
Tensor expand_copy(const Tensor& x, const Shape& sizes) {
  return alias_copy(x.expand(sizes));
}
Tensor permute_copy(const Tensor& x, const Shape& dims) {
  return alias_copy(x.permute(dims));
}
Tensor select_copy(const Tensor& x, std::int64_t dim, std::int64_t index) {
  return alias_copy(x.select(dim, index));
}
Tensor slice_copy(const Tensor& x, std::int64_t dim, std::optional<std::int64_t> start, std::optional<std::int64_t> end,
                  std::int64_t step) {
  return alias_copy(x.slice(dim, start, end, step));
}
Tensor squeeze_copy(const Tensor& x) {
  return alias_copy(x.squeeze());
}
Tensor squeeze_copy(const Tensor& x, std::int64_t dim) {
  return alias_copy(x.squeeze(dim));
}
Tensor unsqueeze_copy(const Tensor& x, std::int64_t dim) {
  return alias_copy(x.unsqueeze(dim));
}
Tensor t_copy(const Tensor& x) {
  return alias_copy(x.t());
}
Tensor transpose_copy(const Tensor& x, std::int64_t a, std::int64_t b) {
  return alias_copy(x.transpose(a, b));
}
Tensor unfold_copy(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step) {
  return alias_copy(x.unfold(dim, size, step));
}
Tensor view_copy(const Tensor& x, const Shape& sizes) {
  return alias_copy(x.view(sizes));
}
Tensor view_as_real_copy(const Tensor& x) {
  return alias_copy(view_as_real(x));
}
Tensor view_as_complex_copy(const Tensor& x) {
  return alias_copy(view_as_complex(x));
}
std::vector<Tensor> split_copy(const Tensor& x, std::int64_t size, std::int64_t dim) {
  return copies(x.split(size, dim));
}
std::vector<Tensor> split_with_sizes_copy(const Tensor& x, const Shape& sizes, std::int64_t dim) {
  return copies(x.split(sizes, dim));
}
std::vector<Tensor> unbind_copy(const Tensor& x, std::int64_t dim) {
  return copies(x.unbind(dim));
}

}  // namespace core
