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
    case UnaryOp::exp:
    case UnaryOp::log:
    case UnaryOp::sin:
    case UnaryOp::cos:
    case UnaryOp::tan:
    case UnaryOp::tanh:
    case UnaryOp::sqrt:
    case UnaryOp::asin:
    case UnaryOp::acos:
    case UnaryOp::atan:
    case UnaryOp::log2:
    case UnaryOp::log10:
    case UnaryOp::log1p:
    case UnaryOp::expm1:
    case UnaryOp::erf:
    case UnaryOp::lgamma:
    case UnaryOp::round:
      return std::string(name(op)) + "_vml_cpu";
    case UnaryOp::square:
      return "pow";
    case UnaryOp::sinh:
    case UnaryOp::cosh:
    case UnaryOp::rsqrt:
    case UnaryOp::reciprocal:
    case UnaryOp::sigmoid:
    case UnaryOp::silu:
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
  if (op == BinaryOp::pow) throw_unsupported("pow", backend, dtype);
  throw_unsupported(op == BinaryOp::div_floor ? "div_floor_cpu" : std::string(name(op)) + "_cpu", backend, dtype);
}

void throw_missing(CompareOp op, const Backend& backend, DType dtype) {
  if (!has_own_text(backend, dtype)) throw_unsupported(name(op), backend, dtype);
  throw_unsupported(std::string(name(op)) + "_cpu", backend, dtype);
}

void throw_missing(ScanOp op, const Backend& backend, DType dtype) {
  const bool is_running = op == ScanOp::cumsum || op == ScanOp::cumprod;
  throw_unsupported(std::string(name(op)) + (has_own_text(backend, dtype) && is_running ? "_out_cpu" : ""), backend,
                    dtype);
}

void throw_missing(PredicateOp op, const Backend& backend, DType dtype) {
  const bool is_not = op == PredicateOp::logical_not && has_own_text(backend, dtype);
  throw_unsupported(is_not ? "logical_not_cpu" : name(op), backend, dtype);
}

void throw_missing(TernaryOp op, const Backend& backend, DType dtype) {
  if (!has_own_text(backend, dtype)) throw_unsupported(name(op), backend, dtype);
  throw_unsupported(op == TernaryOp::addcdiv ? "addcdiv_cpu_out"
                    : op == TernaryOp::lerp  ? "lerp_kernel_tensor"
                                             : std::string(name(op)),
                    backend, dtype);
}

void throw_missing(ReduceOp op, const Backend& backend, DType dtype) {
  if (!has_own_text(backend, dtype)) throw_unsupported(name(op), backend, dtype);
  if (op == ReduceOp::argmax || op == ReduceOp::argmin) {
    fail(std::string(name(op)) + "(): does not support complex input", ErrorCode::type);
  }
  if (op == ReduceOp::sum || op == ReduceOp::mean) throw_unsupported("sum_cpu", backend, dtype);
  if (op == ReduceOp::prod) throw_unsupported("prod_out_cpu", backend, dtype);
  const bool is_extreme = op == ReduceOp::max || op == ReduceOp::min;
  throw_unsupported(is_extreme ? std::string(name(op)) + "_all" : std::string(name(op)), backend, dtype);
}

}  // namespace core::raw
