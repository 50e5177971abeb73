// Rarer operations, made of the common ones.
#include "libcore/tensor/more_ops.h"

#include <algorithm>

#include "libcore/autograd/composed.h"
#include "libcore/base/error.h"
#include "libcore/tensor/device_assert.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/order_ops.h"
#include "libcore/tensor/raw_ops.h"

namespace core {
namespace {

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::runtime, text);
}

}  // namespace

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  if (!low.defined() && !high.defined()) fail("torch.clamp: At least one of 'min' or 'max' must not be None");
  return composed("ClampBackward0", {x, low, high}, [](const TensorList& in) {
    Tensor y = in[0];
    if (in[1].defined()) y = where(y < in[1], in[1], y);
    if (in[2].defined()) y = where(y > in[2], in[2], y);
    return y;
  });
}

VarMean var_mean(const Tensor& x, const VarOptions& o) {
  if (!is_floating(x.dtype())) {
    throw Error(ErrorCode::not_implemented, "var_mean only support floating point and complex dtypes");
  }
  const TensorList both = composed_many("VarMeanBackward0", {x}, [o](const TensorList& in) {
    return TensorList{var(in[0], o), mean(in[0], {.dims = o.dims, .keepdim = o.keepdim})};
  });
  return {both[0], both[1]};
}

Tensor bincount(const Tensor& x, std::int64_t minlength) {
  if (x.dim() != 1) fail("bincount only supports 1-d non-negative integral inputs.");
  const std::vector<std::int64_t> values = x.to_vector<std::int64_t>();
  std::int64_t size = minlength;
  for (const std::int64_t value : values) {
    if (value < 0) fail("bincount only supports 1-d non-negative integral inputs.");
    size = std::max(size, value + 1);
  }
  const Tensor zero = zeros({size}, {.dtype = DType::i64, .device = x.device()});
  return index_add(zero, 0, x.to(DType::i64), ones(x.sizes(), {.dtype = DType::i64, .device = x.device()}));
}

Tensor unique(const Tensor& x) {
  return unique_with(x).values;
}

Tensor one_hot(const Tensor& index, std::int64_t classes) {
  if (index.dtype() != DType::i64) {
    fail("one_hot is only applicable to index tensor of type LongTensor.");
  }
  if (index.numel() == 0 && classes <= 0) fail("Can not infer total number of classes from empty tensor.");
  const NoGradGuard no_history;
  if (classes > 0 && index.numel() > 0 && detail::asserts_later(index)) {
    detail::assert_none(logical_or(lt(index, 0), ge(index, classes)));
    return eq(index.unsqueeze(-1), arange(classes, {.device = index.device()})).to(DType::i64);
  }
  const std::int64_t top = index.numel() == 0 ? -1 : max(index).item<std::int64_t>();
  if (index.numel() > 0 && min(index).item<std::int64_t>() < 0) fail("Class values must be non-negative.");
  if (classes == -1) classes = top + 1;
  if (classes < 1) fail("num_classes should be positive");
  if (top >= classes) fail("Class values must be smaller than num_classes.");
  return eq(index.unsqueeze(-1), arange(classes, {.device = index.device()})).to(DType::i64);
}

Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return composed("BaddbmmBackward0", {c, a, b},
                  [beta, alpha](const TensorList& in) { return in[0] * beta + bmm(in[1], in[2]) * alpha; });
}

Tensor addmv(const Tensor& c, const Tensor& matrix, const Tensor& vector, Scalar beta, Scalar alpha) {
  return composed("AddmvBackward0", {c, matrix, vector},
                  [beta, alpha](const TensorList& in) { return in[0] * beta + mv(in[1], in[2]) * alpha; });
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> dim) {
  if (repeats < 0) fail("Repeats must be non-negative");
  if (!dim) return repeat_interleave(x.flatten(), repeats, 0);
  const std::int64_t at = raw::wrap_dim(*dim, x.dim());
  Shape sizes = x.unsqueeze(at + 1).sizes();
  sizes[static_cast<std::size_t>(at) + 1] = repeats;
  return x.unsqueeze(at + 1).expand(sizes).contiguous().flatten(at, at + 1);
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Shape sizes;
  for (const Tensor& x : tensors) sizes = broadcast_shapes(sizes, x.sizes());
  std::vector<Tensor> result;
  for (const Tensor& x : tensors) result.push_back(x.expand(sizes));
  return result;
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
  if (!swap) return result;
  std::swap(result[0], result[1]);
  for (Tensor& grid : result) grid = grid.transpose(0, 1);
  return result;
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

}  // namespace core
