// Products made of the basic ones.
#include "libcore/ops/blas.h"

#include <algorithm>
#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;
using detail::in_place;

/// beta * c + alpha * product; c's NaN do not count where beta is 0.
Tensor scaled_sum(const Tensor& c, const Tensor& product, Scalar beta, Scalar alpha) {
  const Tensor scaled = alpha.to_double() == 1 ? product : product * alpha;
  if (beta.to_double() == 0) return scaled;
  return (beta.to_double() == 1 ? c : c * beta) + scaled;
}

/// beta * c; zeros where beta is 0, so that c's NaN do not count, with a gradient of zeros.
Tensor scaled_start(const Tensor& c, Scalar beta) {
  if (is_complex(beta.kind()) || beta.to_double() != 0) return c * beta;
  return masked_fill(c, ones(c.sizes(), {.dtype = DType::boolean, .device = c.device()}), 0);
}

/// The dimensions of x that are not summed over, before or behind those that are.
struct Parted {
  Shape order, kept;
  std::int64_t kept_numel = 1, summed_numel = 1;

  Parted(const Tensor& x, const Shape& dims, bool summed_first) {
    Shape summed;
    for (const std::int64_t dim : dims) summed.push_back(raw::wrap_dim(dim, x.dim()));
    Shape rest;
    for (std::int64_t d = 0; d < x.dim(); ++d) {
      if (std::find(summed.begin(), summed.end(), d) != summed.end()) continue;
      rest.push_back(d);
      kept.push_back(x.size(d));
      kept_numel *= x.size(d);
    }
    for (const std::int64_t d : summed) summed_numel *= x.size(d);
    order = summed_first ? summed : rest;
    for (const std::int64_t d : summed_first ? rest : summed) order.push_back(d);
  }
};

void check_grouped(const Tensor& a, const Tensor& b, const Tensor& offs) {
  const auto name_of = [](const Tensor& x) { return std::string(scalar_type_name(x.dtype())); };
  if (a.dim() != 2 && a.dim() != 3) fail("mat_a has to be 2 or 3d");
  if (b.dim() != 2 && b.dim() != 3) fail("mat_b has to be 2 or 3d");
  const bool both_2d = a.dim() == 2 && b.dim() == 2, both_3d = a.dim() == 3 && b.dim() == 3;
  if (!both_2d && a.size(-1) != b.size(-2)) fail("contraction dimension of mat_a and mat_b must match");
  if (a.dtype() != DType::f32 && a.dtype() != DType::bf16 && a.dtype() != DType::f16) {
    fail("Expected mat_a to be Float32, BFloat16 or Float16 matrix, got " + name_of(a));
  }
  if (a.dtype() != b.dtype()) {
    fail("Expected mat_a and mat_b to have the same dtype, got " + name_of(a) + " and " + name_of(b));
  }
  if (both_3d == offs.defined()) {
    fail("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
  }
  if (both_3d && a.size(0) != b.size(0)) fail("batched dimension has to match");
  if (both_3d) return;
  if (offs.dim() != 1) fail("offs has to be 1D");
  if (offs.dtype() != DType::i32) fail("Offsets have to be int32");
  const Tensor& batch = a.dim() == 3 ? a : b;
  if (!both_2d && offs.size(0) != batch.size(0)) fail("matrix batch sizes have to match");
}

}  // namespace

const Tensor& addmm_(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return in_place(x, needs_grad(x, a, b), [&](const Tensor& t) { return addmm(t, a, b, beta, alpha); });
}
const Tensor& addmv_(const Tensor& x, const Tensor& matrix, const Tensor& vector, Scalar beta, Scalar alpha) {
  return in_place(x, needs_grad(x, matrix, vector),
                  [&](const Tensor& t) { return addmv(t, matrix, vector, beta, alpha); });
}
const Tensor& baddbmm_(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  return in_place(x, needs_grad(x, a, b), [&](const Tensor& t) { return baddbmm(t, a, b, beta, alpha); });
}

Tensor outer(const Tensor& a, const Tensor& b) {
  if (a.dim() != 1 || b.dim() != 1) {
    const Tensor& wrong = a.dim() != 1 ? a : b;
    throw Error(ErrorCode::runtime, std::string("outer: Expected 1-D argument ") + (a.dim() != 1 ? "self" : "vec2") +
                                        ", but got " + std::to_string(wrong.dim()) + "-D");
  }
  return a.reshape({a.numel(), 1}) * b;
}

Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (const Casts to(CastRule::lower, CastOn::any, {&c, &a, &b}); to) return baddbmm(to(c), to(a), to(b), beta, alpha);
  const Scalar of_start = raw::product_factor(beta, a.dtype()), of_product = raw::product_factor(alpha, a.dtype());
  return composed("BaddbmmBackward0", {c, a, b}, [of_start, of_product](const TensorList& in) {
    return scaled_start(in[0], of_start) + bmm(in[1], in[2]) * of_product;
  });
}

Tensor addmv(const Tensor& c, const Tensor& matrix, const Tensor& vector, Scalar beta, Scalar alpha) {
  if (const Casts to(CastRule::lower, CastOn::cuda, {&c, &matrix, &vector}); to)
    return addmv(to(c), to(matrix), to(vector), beta, alpha);
  const Scalar of_start = raw::product_factor(beta, matrix.dtype()),
               of_product = raw::product_factor(alpha, matrix.dtype());
  return composed("AddmvBackward0", {c, matrix, vector}, [of_start, of_product](const TensorList& in) {
    return scaled_start(in[0], of_start) + mv(in[1], in[2]) * of_product;
  });
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  if (const Casts to(CastRule::widest, CastOn::cuda, {&a, &b, &weight, &bias}); to)
    return bilinear(to(a), to(b), to(weight), to(bias));
  const auto check = [&](const Tensor& x, std::int64_t dim, const char* what) {
    if (x.size(-1) == weight.size(dim)) return;
    fail(std::string("bilinear(): ") + what + " size does not match weight size: got " + std::to_string(x.size(-1)) +
         " but expected " + std::to_string(weight.size(dim)));
  };
  check(a, 1, "input1");
  check(b, 2, "input2");
  const Tensor y = composed("TrilinearBackward0", {a, weight, b}, [](const TensorList& in) {
    const Tensor rows = in[0].reshape({-1, in[0].size(-1)}), others = in[2].reshape({-1, 1, in[2].size(-1)});
    const Tensor flat = in[1].permute({1, 0, 2}).reshape({in[1].size(1), -1});
    const Tensor sums = (matmul(rows, flat).reshape({-1, in[1].size(0), in[1].size(2)}) * others).sum(Shape{-1});
    Shape sizes = in[0].sizes();
    sizes[sizes.size() - 1] = in[1].size(0);
    return sums.reshape(sizes);
  });
  return bias.defined() ? y + bias : y;
}

Tensor trace(const Tensor& x) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&x}); to) return trace(to(x));
  if (x.dim() != 2) fail("trace: expected a matrix, but got tensor with dim " + std::to_string(x.dim()));
  return composed("TraceBackward0", {x}, [](const TensorList& in) { return in[0].diagonal().sum(); });
}

Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) return a * b;
  if (a.size(-1) != b.size(-1)) {
    fail("inner() the last dimension must match on both input tensors but got shapes " + to_list(a.sizes()) + " and " +
         to_list(b.sizes()));
  }
  return tensordot(a, b, {-1}, {-1});
}

Tensor vdot(const Tensor& a, const Tensor& b) {
  if (const Casts to(CastRule::widest, CastOn::cuda, {&a, &b}); to) return vdot(to(a), to(b));
  if (a.dim() != 1 || b.dim() != 1) {
    fail("1D tensors expected, but got " + std::to_string(a.dim()) + "D and " + std::to_string(b.dim()) + "D tensors");
  }
  return composed("VdotBackward0", {a, b}, [](const TensorList& in) { return dot(in[0], in[1]); });
}

Tensor kron(const Tensor& a, const Tensor& b) {
  const auto rank = static_cast<std::size_t>(std::max(a.dim(), b.dim()));
  Shape sizes_a, sizes_b, sizes;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto size_of = [&](const Tensor& t) {
      const std::size_t lead = rank - t.sizes().size();
      return i < lead ? 1 : t.sizes()[i - lead];
    };
    sizes_a.push_back(size_of(a));
    sizes_a.push_back(1);
    sizes_b.push_back(1);
    sizes_b.push_back(size_of(b));
    sizes.push_back(size_of(a) * size_of(b));
  }
  return (a.reshape(sizes_a) * b.reshape(sizes_b)).reshape(sizes);
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t count) {
  if (count < 0) fail("tensordot expects dims >= 0, but got dims=" + std::to_string(count));
  if (count > std::min(a.dim(), b.dim())) {
    fail("tensordot expects dims < ndim_a or ndim_b, but got dims=" + std::to_string(count));
  }
  Shape dims_a, dims_b;
  for (std::int64_t i = 0; i < count; ++i) {
    dims_a.push_back(i - count);
    dims_b.push_back(i);
  }
  return tensordot(a, b, dims_a, dims_b);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& dims_a, const Shape& dims_b) {
  if (dims_a.size() != dims_b.size()) fail("both dimension lists should have same length");
  for (std::size_t i = 0; i < dims_a.size(); ++i) {
    if (a.size(dims_a[i]) == b.size(dims_b[i])) continue;
    fail("contracted dimensions need to match, but first has size " + std::to_string(a.size(dims_a[i])) + " in dim " +
         std::to_string(dims_a[i]) + " and second has size " + std::to_string(b.size(dims_b[i])) + " in dim " +
         std::to_string(dims_b[i]));
  }
  raw::reduced_dims(dims_a, a.dim());  // no dimension twice
  raw::reduced_dims(dims_b, b.dim());
  const Parted left(a, dims_a, false), right(b, dims_b, true);
  const Tensor rows = a.permute(left.order).reshape({left.kept_numel, left.summed_numel});
  const Tensor columns = b.permute(right.order).reshape({right.summed_numel, right.kept_numel});
  Shape sizes = left.kept;
  for (const std::int64_t size : right.kept) sizes.push_back(size);
  return mm(rows, columns).reshape(sizes);
}

Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim) {
  if (const Casts to(CastRule::widest, CastOn::cuda, {&a, &b}); to) return cross(to(a), to(b), dim);
  if (a.dim() != b.dim()) fail("linalg.cross: inputs must have the same number of dimensions.");
  if (a.size(dim) != 3 || b.size(dim) != 3) {
    fail("linalg.cross: inputs dimension " + std::to_string(dim) + " must have length 3. Got " +
         std::to_string(a.size(dim)) + " and " + std::to_string(b.size(dim)));
  }
  return composed("LinalgCrossBackward0", {a, b}, [dim](const TensorList& in) {
    const std::int64_t d = raw::wrap_dim(dim, in[0].dim());
    return roll(in[0], {-1}, {d}) * roll(in[1], {-2}, {d}) - roll(in[0], {-2}, {d}) * roll(in[1], {-1}, {d});
  });
}

Tensor addr(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (const Casts to(CastRule::lower, CastOn::cuda, {&c, &a, &b}); to) return addr(to(c), to(a), to(b), beta, alpha);
  if (a.dim() != 1) fail("addr: Expected 1-D argument vec1, but got " + std::to_string(a.dim()) + "-D");
  if (b.dim() != 1) fail("addr: Expected 1-D argument vec2, but got " + std::to_string(b.dim()) + "-D");
  const DType dtype = promote_types(c.dtype(), promote_types(a.dtype(), b.dtype()));
  raw::check_factor(beta, dtype, "beta");
  raw::check_factor(alpha, dtype, "alpha");
  const Shape sizes{a.numel(), b.numel()};
  const Tensor wide = c.expand(sizes);
  return composed("AddrBackward0", {wide, a, b}, [beta, alpha](const TensorList& in) {
    return scaled_sum(in[0], in[1].unsqueeze(1) * in[2], beta, alpha);
  });
}

Tensor addbmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  if (const Casts to(CastRule::lower, CastOn::any, {&c, &a, &b}); to) return addbmm(to(c), to(a), to(b), beta, alpha);
  const Tensor product_sizes = bmm(a.detach(), b.detach());  // checks the shapes
  const Tensor wide = c.expand({product_sizes.size(1), product_sizes.size(2)});
  return composed("AddbmmBackward0", {wide, a, b}, [beta, alpha](const TensorList& in) {
    return scaled_sum(in[0], bmm(in[1], in[2]).sum(Shape{0}), beta, alpha);
  });
}

Tensor matrix_power(const Tensor& x, std::int64_t n) {
  if (x.dim() < 2 || x.size(-1) != x.size(-2)) {
    fail("linalg.matrix_power: A must be batches of square matrices, but they are " +
         std::to_string(x.dim() < 2 ? 1 : x.size(-2)) + " by " + std::to_string(x.dim() < 1 ? 1 : x.size(-1)) +
         " matrices");
  }
  if (n < 0) {
    throw Error(ErrorCode::not_implemented,
                "linalg.matrix_power: negative powers need the inverse, which is not offered");
  }
  if (n == 0) return eye(x.size(-1), {}, {.dtype = x.dtype(), .device = x.device()}).expand(x.sizes()).clone();
  Tensor result, square = x;
  for (std::int64_t left = n; left > 0; left /= 2) {
    if (left % 2 == 1) result = result.defined() ? matmul(result, square) : square;
    if (left > 1) square = matmul(square, square);
  }
  return result.is_same(x) ? x.clone() : result;
}

Tensor chain_matmul(const std::vector<Tensor>& matrices) {
  if (const Casts to(CastRule::lower, CastOn::cuda, matrices); to) return chain_matmul(to(matrices));
  if (matrices.empty()) fail("chain_matmul(): Expected one or more matrices");
  Tensor product = matrices[0];
  for (std::size_t i = 1; i < matrices.size(); ++i) product = mm(product, matrices[i]);
  return product;
}

Tensor grouped_mm(const Tensor& a, const Tensor& b, const Tensor& offs) {
  check_grouped(a, b, offs);
  if (!offs.defined()) return bmm(a, b);
  const std::vector<std::int64_t> ends = offs.to_vector<std::int64_t>();
  const bool rows = a.dim() == 2 && b.dim() == 3, columns = a.dim() == 3;
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (std::size_t g = 0; g < ends.size(); ++g) {
    const auto group = static_cast<std::int64_t>(g);
    const std::int64_t length = ends[g] - start;
    const Tensor left = columns ? a.select(0, group) : a.narrow(rows ? 0 : 1, start, length);
    const Tensor right = rows ? b.select(0, group) : b.narrow(columns ? 1 : 0, start, length);
    parts.push_back(matmul(left, right));
    start = ends[g];
  }
  if (!rows && !columns) return stack(parts);
  const std::int64_t whole = rows ? a.size(0) : b.size(1), rest = whole - start, dim = rows ? 0 : 1;
  const Shape behind = rows ? Shape{rest, b.size(2)} : Shape{a.size(1), rest};
  if (rest > 0) parts.push_back(zeros(behind, {.dtype = a.dtype(), .device = a.device()}));
  return cat(parts, dim);
}

}  // namespace core
