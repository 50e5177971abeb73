#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

/// Backward is an error, as in PyTorch.
CORE_NODE(LdlSolveBackward, "NotImplemented", linalg_fail("derivative for aten::linalg_ldl_solve is not implemented");)

std::string rows_by_columns(const Tensor& t) {
  return std::to_string(t.size(-2)) + " by " + std::to_string(t.size(-1));
}

Shape without_last(const Shape& sizes) {
  Shape fewer = sizes;
  fewer.pop_back();
  return fewer;
}

void check_ldl_solve(const LDLFactors& f, const Tensor& b) {
  constexpr const char* kName = "torch.linalg.ldl_solve";
  if (f.LD.dim() < 2) linalg_fail(std::string(kName) + ": The input tensor A must have at least 2 dimensions.");
  if (f.LD.size(-2) != b.size(-2)) {
    linalg_fail(std::string("Incompatible matrix sizes for ") + kName + ": each A matrix is " + rows_by_columns(f.LD) +
                " but each b matrix is " + rows_by_columns(b));
  }
  check_square(f.LD, kName);
  check_linalg_type(b, kName);
  if (f.LD.dtype() != b.dtype()) {
    linalg_fail(std::string("Expected b and A to have the same dtype, but found b of type ") +
                scalar_type_name(b.dtype()) + " and A of type " + scalar_type_name(f.LD.dtype()) + " instead.");
  }
  if (is_inexact(f.pivots.dtype()) || f.pivots.dtype() == DType::boolean) {
    linalg_fail(std::string(kName) + ": Expected pivots to be integers. Got " + scalar_type_name(f.pivots.dtype()));
  }
  if (f.pivots.sizes() != without_last(f.LD.sizes())) {
    linalg_fail(std::string(kName) +
                ": Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape " +
                to_list(f.pivots.sizes()) + " instead");
  }
}

/// LAPACK swaps the rows that pivots name and takes two negative ones for a block of two, whatever they are.
void check_blocks(const std::vector<std::int32_t>& pivots, std::size_t n) {
  const auto is_row = [&](std::int64_t row) { return row >= 1 && static_cast<std::size_t>(row) <= n; };
  for (std::size_t i = 0; i < pivots.size();) {
    const bool pair = pivots[i] < 0 && i % n + 1 < n;
    const bool fits =
        pair ? is_row(-std::int64_t{pivots[i]}) && is_row(-std::int64_t{pivots[i + 1]}) : is_row(pivots[i]);
    if (!fits) {
      linalg_fail("torch.linalg.ldl_solve: pivots are not those of a matrix of " + std::to_string(n) +
                  " rows, see position " + std::to_string(i % n) + ". Did you properly pass the result of ldl_factor?");
    }
    i += pair ? 2 : 1;
  }
}

}  // namespace

Tensor ldl_solve(const LDLFactors& f, const Tensor& b, bool hermitian) {
  const core::detail::OpScope scope("linalg_ldl_solve", f.LD, b);
  check_ldl_solve(f, b);
  const Shape batch = broadcast_shapes(batch_sizes(f.LD), batch_sizes(b));
  const Tensor left = f.LD.detach().expand(with_sizes(batch, {b.size(-2), b.size(-2)}));
  const Tensor right = b.detach().expand(with_sizes(batch, {b.size(-2), b.size(-1)}));
  const std::vector<std::int32_t> pivots = f.pivots.expand(with_sizes(batch, {b.size(-2)})).to_vector<std::int32_t>();
  check_blocks(pivots, static_cast<std::size_t>(f.LD.size(-1)));
  Tensor x = in_linalg_type(b, [&]<class T>() {
    Columns<T> factors(left), solution(right);
    const auto n = static_cast<std::size_t>(factors.rows());
    for (std::size_t k = 0; k < batch_count(right); ++k) {
      lapack::ldl_solve(hermitian, factors.rows(), solution.columns(), factors.matrix(k), pivots.data() + k * n,
                        solution.matrix(k));
    }
    return solution.tensor(b.device());
  });
  if (needs_grad(f.LD, b)) record(x, make_node<LdlSolveBackward>(f.LD, b));
  return x;
}

}  // namespace core::linalg
