#include "libcore/ops/raw/softmax.h"

#include "libcore/backend/op_tables.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {
namespace {

using kernel::dense;

/// (outer, length, inner) around one dimension.
SoftmaxParams softmax_params(const Shape& sizes, std::int64_t dim) {
  SoftmaxParams params{1, 1, 1, nullptr, nullptr};
  const auto wrapped = static_cast<std::size_t>(wrap_dim(dim, static_cast<std::int64_t>(sizes.size())));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    (i < wrapped ? params.outer : i == wrapped ? params.length : params.inner) *= sizes[i];
  }
  return params;
}

bool is_half(const Tensor& x) {
  return x.dtype() == DType::f16 || x.dtype() == DType::bf16;
}

/// Where a device has no kernel for the half types, they are computed in f32 and rounded once, at the end.
template <class Row>
bool goes_by_f32(const Tensor& x, Row NnTable::*row) {
  if (!is_half(x)) return false;
  const NnTable* table = backend_of(x).ops().nn;
  return table == nullptr || (table->*row)[static_cast<std::size_t>(x.dtype())] == nullptr;
}

Tensor softmax_with(const char* name, const Tensor& x, std::int64_t dim, KernelRow<SoftmaxParams> NnTable::*row) {
  if (goes_by_f32(x, row)) return cast(softmax_with(name, cast(x, DType::f32), dim, row), x.dtype());
  SoftmaxParams params = softmax_params(x.sizes(), dim);
  Tensor out = kernel::empty_as(x, x.sizes());
  if (x.numel() == 0 || !kernel::has_bytes(x)) return out;
  const Tensor in = dense(x);
  params.input = in.raw_data();
  params.output = out.mutable_raw_data();
  kernel::run(name, x, row, params);
  return out;
}

Tensor softmax_grad_with(const char* name, const Tensor& output_grad, const Tensor& output, std::int64_t dim,
                         KernelRow<SoftmaxGradParams> NnTable::*row) {
  if (goes_by_f32(output, row)) {
    Tensor wide = softmax_grad_with(name, cast(output_grad, DType::f32), cast(output, DType::f32), dim, row);
    return cast(wide, output.dtype());
  }
  const SoftmaxParams sizes = softmax_params(output.sizes(), dim);
  Tensor out = kernel::empty_as(output, output.sizes());
  if (output.numel() == 0 || !kernel::has_bytes(output)) return out;
  const Tensor grad = dense(output_grad);
  kernel::run(name, output, row,
              SoftmaxGradParams{sizes.outer, sizes.length, sizes.inner, grad.raw_data(), output.raw_data(),
                                out.mutable_raw_data()});
  return out;
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) {
  const core::detail::OpScope scope("_softmax", x);
  return softmax_with("softmax_lastdim_kernel_impl", x, dim, &NnTable::softmax);
}

Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  const core::detail::OpScope scope("_log_softmax", x);
  return softmax_with("log_softmax_lastdim_kernel_impl", x, dim, &NnTable::log_softmax);
}

Tensor softmax_grad(const Tensor& output_grad, const Tensor& output, std::int64_t dim) {
  const core::detail::OpScope scope("_softmax_backward_data", output_grad, output);
  return softmax_grad_with("softmax_backward", output_grad, output, dim, &NnTable::softmax_grad);
}

Tensor log_softmax_grad(const Tensor& output_grad, const Tensor& output, std::int64_t dim) {
  const core::detail::OpScope scope("_log_softmax_backward_data", output_grad, output);
  return softmax_grad_with("log_softmax_backward", output_grad, output, dim, &NnTable::log_softmax_grad);
}

}  // namespace core::raw
