#include "libcore/ops/detail/linalg_checks.h"

#include <string>
#include <string_view>

#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
void check_matrix(const Tensor& a, const char* name) {
  if (a.dim() < 2) linalg_fail(std::string(name) + ": The input tensor A must have at least 2 dimensions.");
}

void check_square(const Tensor& a, const char* name) {
  check_matrix(a, name);
  if (a.size(-1) == a.size(-2)) return;
  linalg_fail(std::string(name) + ": A must be batches of square matrices, but they are " + std::to_string(a.size(-2)) +
              " by " + std::to_string(a.size(-1)) + " matrices");
}

namespace {

/// The kernel that PyTorch's message names where low precision comes as far as that; else null.
const char* kernel_of(std::string_view name) {
  if (name == "linalg.det") return "lu_cpu";
  if (name == "linalg.cholesky") return "cholesky_cpu";
  if (name == "linalg.qr") return "geqrf_cpu";
  return name == "linalg.svd" ? "linalg_svd_cpu" : nullptr;
}

}  // namespace

void check_linalg_type(const Tensor& a, const char* name, bool allow_low) {
  if (is_lapack_type(a.dtype())) return;
  const bool low = is_floating(a.dtype());
  if (low && allow_low) return;
  const std::string type = scalar_type_name(a.dtype());
  if (const char* kernel = low ? kernel_of(name) : nullptr) {
    throw Error(ErrorCode::not_implemented, "\"" + std::string(kernel) + "\" not implemented for '" + type + "'");
  }
  if (is_complex(a.dtype())) {
    throw Error(ErrorCode::not_implemented, "\"" + std::string(name) + "\" not implemented for '" + type + "'");
  }
  throw Error(ErrorCode::not_implemented, std::string(name) +
                                              (low ? ": Low precision dtypes not supported. Got "
                                                   : ": Expected a floating point or complex tensor as input. Got ") +
                                              type);
}

void check_equation(const Tensor& a, const Tensor& b, const char* name, bool left) {
  if (a.dtype() != b.dtype()) {
    linalg_fail(std::string(name) + ": Expected A and B to have the same dtype, but found A of type " +
                scalar_type_name(a.dtype()) + " and B of type " + scalar_type_name(b.dtype()) + " instead");
  }
  if (a.size(-1) == b.size(left ? -2 : -1)) return;
  const auto by = [](const Tensor& x) { return std::to_string(x.size(-2)) + "x" + std::to_string(x.size(-1)); };
  linalg_fail(std::string(name) + ": Incompatible shapes of A and B for the equation " + (left ? "AX = B" : "XA = B") +
              " (" + by(a) + " and " + by(b) + ")");
}

std::string batch_text(const Tensor& a, std::size_t index) {
  return a.dim() > 2 ? ": (Batch element " + std::to_string(index) + "): " : ": ";
}

void check_phase(const Tensor& seen, const char* what, const char* so) {
  if (allclose(imag(seen.detach().diagonal(0, -2, -1)), zeros({}, {.dtype = real(seen).dtype()}),
               {.rtol = 1e-2, .atol = 1e-2})) {
    return;
  }
  linalg_fail(std::string(what) +
              " in the complex case are specified up to multiplication by e^{i phi}. The specified loss function "
              "depends on this " +
              so);
}

Tensor half_lower(const Tensor& x) {
  const Tensor lower = tril(x);
  return lower - diag_embed(lower.diagonal(0, -2, -1)) * 0.5;
}

}  // namespace core::detail
