#include "libcore/ops/raw/complex_refusals.h"

#include <string>

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/raw/checks.h"

namespace core::raw {
namespace {

using core::detail::fail;

bool has_own_text(const Backend& backend, DType dtype) {
  return is_complex(dtype) && backend.has_memory() && backend.device().is_cpu();
}

/// The names of PyTorch's kernels, which its messages show.
std::string kernel_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::erf:
    case UnaryOp::lgamma:
    case UnaryOp::round:
      return std::string(name(op)) + "_vml_cpu";
    case UnaryOp::frac:
    case UnaryOp::elu:
    case UnaryOp::leaky_relu:
    case UnaryOp::log_sigmoid:
    case UnaryOp::softplus:
    case UnaryOp::threshold:
      return std::string(name(op)) + "_cpu";
    case UnaryOp::gelu:
    case UnaryOp::gelu_tanh:
      return "GeluKernelImpl";
    default:
      return std::string(name(op));
  }
}

}  // namespace

void throw_missing(UnaryOp op, const Backend& backend, DType dtype) {
  if (!has_own_text(backend, dtype)) throw_unsupported(name(op), backend, dtype);
  switch (op) {
    case UnaryOp::floor:
      fail("floor is not supported for complex inputs", ErrorCode::not_implemented);
    case UnaryOp::ceil:
    case UnaryOp::trunc:
      fail(std::string(name(op)) + " is not supported for complex inputs", ErrorCode::not_implemented);
    case UnaryOp::clamp:
    case UnaryOp::relu:
      fail("clamp is not supported for complex types", ErrorCode::not_implemented);
    case UnaryOp::sign:
      fail("Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
           ErrorCode::not_implemented);
    default:
      throw_unsupported(kernel_of(op), backend, dtype);
  }
}

void throw_missing(BinaryOp op, const Backend& backend, DType dtype) {
  if (!has_own_text(backend, dtype)) throw_unsupported(name(op), backend, dtype);
  if (op == BinaryOp::maximum || op == BinaryOp::minimum) {
    fail(std::string(name(op)) + " not implemented for complex tensors.", ErrorCode::type);
  }
  throw_unsupported(op == BinaryOp::div_floor ? "div_floor_cpu" : std::string(name(op)) + "_cpu", backend, dtype);
}

void throw_missing(CompareOp op, const Backend& backend, DType dtype) {
  if (!has_own_text(backend, dtype)) throw_unsupported(name(op), backend, dtype);
  throw_unsupported(std::string(name(op)) + "_cpu", backend, dtype);
}

void throw_missing(ReduceOp op, const Backend& backend, DType dtype) {
  if (!has_own_text(backend, dtype)) throw_unsupported(name(op), backend, dtype);
  if (op == ReduceOp::argmax || op == ReduceOp::argmin) {
    fail(std::string(name(op)) + "(): does not support complex input", ErrorCode::type);
  }
  const bool is_extreme = op == ReduceOp::max || op == ReduceOp::min;
  throw_unsupported(is_extreme ? std::string(name(op)) + "_all" : std::string(name(op)), backend, dtype);
}

}  // namespace core::raw
