#include "libcore/ops/linalg/norm.h"

#include <cmath>
#include <optional>
#include <string>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/text.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

/// "3", "2.5", "inf": a number as PyTorch's C++ prints it.
std::string order_text(double value) {
  std::string text = python_float(value);
  if (text.size() > 2 && text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

bool reduces_nothing(const Tensor& x, const Shape& dims) {
  if (dims.empty()) return x.numel() == 0;
  for (const std::int64_t d : dims) {
    if (x.size(d) == 0) return true;
  }
  return false;
}

Shape two_dims(const Tensor& a, const Shape& given) {
  if (given.size() != 2) {
    linalg_fail("linalg.matrix_norm: dim must be a 2-tuple. Got " + to_list(given));
  }
  Shape dims{raw::wrap_dim(given[0], a.dim()), raw::wrap_dim(given[1], a.dim())};
  if (dims[0] == dims[1]) {
    linalg_fail("linalg.matrix_norm: dims must be different. Got (" + std::to_string(given[0]) + ", " +
                std::to_string(given[1]) + ")");
  }
  return dims;
}

/// The two dimensions moved to the end.
Tensor as_matrices(const Tensor& a, const Shape& dims) {
  Shape order;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (d != dims[0] && d != dims[1]) order.push_back(d);
  }
  order.push_back(dims[0]);
  order.push_back(dims[1]);
  return a.permute(order);
}

/// Dimensions of size 1 where the two were.
Tensor kept(Tensor x, const Shape& dims, bool keepdim) {
  if (!keepdim) return x;
  x = x.unsqueeze(std::min(dims[0], dims[1]));
  return x.unsqueeze(std::max(dims[0], dims[1]));
}

Tensor spectral_norm(const Tensor& a, const Shape& dims, const MatrixNormOptions& o) {
  const Tensor values = svdvals(as_matrices(a, dims));
  if (o.ord.text == "nuc") return kept(values.sum(Shape{-1}), dims, o.keepdim);
  if (values.size(-1) == 0 && o.ord.number > 0) return kept(values.sum(Shape{-1}), dims, o.keepdim);
  return kept(o.ord.number > 0 ? amax(values, {.dims = {-1}}) : amin(values, {.dims = {-1}}), dims, o.keepdim);
}

Tensor sums_norm(const Tensor& a, const Shape& dims, const MatrixNormOptions& o) {
  const bool by_rows = std::isinf(o.ord.number);
  std::int64_t summed = dims[by_rows ? 1 : 0], left = dims[by_rows ? 0 : 1];
  const Tensor sums = vector_norm(a, {.ord = 1, .dims = {summed}, .keepdim = o.keepdim});
  if (!o.keepdim && left > summed) --left;
  const ReduceOptions how{.dims = {left}, .keepdim = o.keepdim};
  if (o.ord.number < 0) return amin(sums, how);
  return sums.size(left) == 0 ? sums.sum(how.dims, how.keepdim) : amax(sums, how);
}

}  // namespace

Tensor vector_norm(const Tensor& x, const VectorNormOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return vector_norm(to(x), o);
  check_linalg_type(x, "linalg.vector_norm", true);
  if ((o.ord < 0 || std::isinf(o.ord)) && reduces_nothing(x, o.dims)) {
    linalg_fail("linalg.vector_norm cannot compute the " + order_text(o.ord) +
                " norm on an empty tensor because the operation does not have an identity");
  }
  return composed("LinalgVectorNormBackward0", {x}, [o](const TensorList& in) {
    return core::norm(in[0], {.p = o.ord, .dims = o.dims, .keepdim = o.keepdim});
  });
}

Tensor matrix_norm(const Tensor& a, const MatrixNormOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&a}); to) return matrix_norm(to(a), o);
  check_matrix(a, "linalg.matrix_norm");
  check_linalg_type(a, "linalg.matrix_norm", true);
  const Shape dims = two_dims(a, o.dims);
  const double order = std::abs(o.ord.number);
  if (!o.ord.text.empty() && o.ord.text != "fro" && o.ord.text != "nuc") {
    linalg_fail("linalg.matrix_norm: Order " + o.ord.text + " not supported.");
  }
  if (o.ord.text == "fro") return vector_norm(a, {.ord = 2, .dims = dims, .keepdim = o.keepdim});
  if (o.ord.text == "nuc" || order == 2) return spectral_norm(a, dims, o);
  if (order == 1 || std::isinf(order)) return sums_norm(a, dims, o);
  linalg_fail("linalg.matrix_norm: Order " + order_text(o.ord.number) + " not supported.");
}

Tensor norm(const Tensor& x, const NormOptions& o) {
  if (!o.ord) return vector_norm(x, {.ord = 2, .dims = o.dims, .keepdim = o.keepdim});
  if (!o.dims.empty() && o.dims.size() > 2) {
    linalg_fail("linalg.norm: If dim is specified, it must be of length 1 or 2. Got " + to_list(o.dims));
  }
  const bool by_name = !o.ord->text.empty();
  if (o.dims.empty() && !by_name && x.dim() != 1 && x.dim() != 2) {
    linalg_fail("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got " +
                std::to_string(x.dim()) + "D.");
  }
  const bool matrices = by_name || o.dims.size() == 2 || (o.dims.empty() && x.dim() == 2);
  if (!matrices) return vector_norm(x, {.ord = o.ord->number, .dims = o.dims, .keepdim = o.keepdim});
  return matrix_norm(x, {.ord = *o.ord, .dims = o.dims.empty() ? Shape{-2, -1} : o.dims, .keepdim = o.keepdim});
}

Tensor cond(const Tensor& a, const std::optional<MatrixOrder>& ord) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return cond(to(a), ord);
  if (a.dim() < 2) linalg_fail("linalg.cond: The input tensor must have at least 2 dimensions.");
  const bool by_values = !ord || (ord->text.empty() && std::abs(ord->number) == 2);
  if (a.numel() == 0) return zeros(batch_sizes(a), {.dtype = real(a).dtype(), .device = a.device()});
  if (by_values) {
    const Tensor values = svdvals(a);
    const Tensor ratio = values.narrow(-1, 0, 1) / values.narrow(-1, values.size(-1) - 1, 1);
    return (ord && ord->number < 0 ? reciprocal(ratio) : ratio).squeeze(-1);
  }
  const std::string name = ord->text.empty() ? order_text(ord->number) : ord->text;
  check_square(a, ("linalg.cond(ord=" + name + ")").c_str());
  const WithInfo inverse = inv_ex(a);
  const Tensor singular = inverse.info.ne(zeros_like(inverse.info));
  const Tensor value = matrix_norm(a, {.ord = *ord}) * matrix_norm(inverse.result, {.ord = *ord});
  const Tensor infinite =
      full({}, std::numeric_limits<double>::infinity(), {.dtype = value.dtype(), .device = a.device()});
  return where(singular, infinite, value);
}

}  // namespace core::linalg

namespace core {

Tensor frobenius_norm(const Tensor& x, const Shape& dims, bool keepdim) {
  if (dims.size() > 2) {
    detail::linalg_fail("Expected at most 2 dimensions, but got " + std::to_string(dims.size()) +
                        " dimensions instead.");
  }
  return norm(x, {.p = 2, .dims = dims, .keepdim = keepdim});
}

Tensor nuclear_norm(const Tensor& x, bool keepdim) {
  return nuclear_norm(x, {-2, -1}, keepdim);
}

Tensor nuclear_norm(const Tensor& x, const Shape& dims, bool keepdim) {
  return linalg::matrix_norm(x, {.ord = "nuc", .dims = dims, .keepdim = keepdim});
}

}  // namespace core
