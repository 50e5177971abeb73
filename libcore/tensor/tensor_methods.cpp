// The methods of Tensor that are functions of ops/ under another spelling.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/bitwise.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/index.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/ops/special.h"
#include "libcore/ops/stft.h"
#include "libcore/ops/synonyms.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace detail {
namespace {

/// x with what the operation gives for it.
template <class Operation>
const Tensor& written(const Tensor& x, Operation operation) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return Tensor(operation(t)); });
}

const Tensor& require_double(const Tensor& x) {
  if (x.dtype() == DType::f64) return x;
  throw Error(ErrorCode::runtime, std::string("the base given to float_power_ has dtype ") +
                                      scalar_type_name(x.dtype()) +
                                      " but the operation's result requires dtype Double");
}

bool truth_of(const Tensor& x) {
  if (x.numel() != 1) {
    throw Error(ErrorCode::runtime, std::string("Boolean value of Tensor with ") +
                                        (x.numel() == 0 ? "no values" : "more than one value") + " is ambiguous");
  }
  return x.to(DType::boolean).item<bool>();
}

std::string type_name_of(const Tensor& x) {
  const bool on_cpu = x.device().type() == DeviceType::cpu;
  return std::string("torch.") + (on_cpu ? "" : "cuda.") + scalar_type_name(x.dtype()) + "Tensor";
}

/// Of H, and of mH, which takes batches.
Tensor turned_matrix(const Tensor& x, bool takes_batches) {
  const std::string name = takes_batches ? "mH" : "H";
  if (x.dim() == 0) {
    warn("Tensor." + name + " is deprecated on 0-D tensors. Consider using x.conj().");
    return conj(x);
  }
  if (x.dim() == 1 || (x.dim() > 2 && !takes_batches)) {
    throw Error(ErrorCode::runtime, "tensor." + name + " is only supported on " +
                                        (takes_batches ? "matrices or batches of matrices" : "matrices (2-D tensors)") +
                                        ". Got " + std::to_string(x.dim()) + "-D tensor." +
                                        (x.dim() > 2 ? " For batches of matrices, consider using tensor.mH" : ""));
  }
  return conj(x.transpose(-2, -1));
}

linalg::LUFactors lu_parts(const Tensor& x) {
  const linalg::LUFactorsInfo found = linalg::lu_factor_ex(x);
  return {found.lu, found.pivots};
}

SingularValues singular_values(const Tensor& x, bool some, bool compute_uv) {
  if (compute_uv) {
    const linalg::SVD f = linalg::svd(x, !some);
    return {f.u, f.s, conj(f.vh.mT())};
  }
  const Tensor s = linalg::svdvals(x);
  const auto square = [&](std::int64_t n) {
    Shape sizes = x.sizes();
    sizes[sizes.size() - 1] = sizes[sizes.size() - 2] = n;
    return core::zeros(sizes, {.dtype = x.dtype(), .device = x.device()});
  };
  return {square(x.size(-2)), s, square(x.size(-1))};
}

Shape order_in_memory(const Tensor& x) {
  Shape order(static_cast<std::size_t>(x.dim()), 0);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return x.stride(a) > x.stride(b); });
  return order;
}

void* memory_of(const Tensor& x) {
  if (x.numel() == 0) return nullptr;
  return static_cast<std::byte*>(x.storage().data()) + x.storage_offset() * x.element_size();
}

}  // namespace
}  // namespace detail

#define CORE_DEFINES_METHODS
#include "libcore/tensor/methods.inc"

}  // namespace core
