#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

/// Backward is an error, as in PyTorch.
CORE_NODE(LdlFactorBackward, "NotImplemented",
          linalg_fail("derivative for aten::linalg_ldl_factor_ex is not implemented");)

void check_ldl(const Tensor& a) {
  constexpr const char* kName = "torch.linalg.ldl_factor_ex";
  check_square(a, kName);
  if (is_floating(a.dtype()) && !is_lapack_type(a.dtype())) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"ldl_factor_kernel_cpu\" not implemented for '") + scalar_type_name(a.dtype()) + "'");
  }
  check_linalg_type(a, kName);
}

LDLFactorsInfo factors_of(const Tensor& a, bool hermitian) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> work(a);
    const int n = work.rows();
    std::vector<std::int32_t> pivots(static_cast<std::size_t>(n) * batch_count(a)), info;
    for (std::size_t b = 0; b < batch_count(a); ++b) {
      info.push_back(lapack::ldl(hermitian, n, work.matrix(b), pivots.data() + b * static_cast<std::size_t>(n)));
    }
    return LDLFactorsInfo{tril(work.tensor(a.device())),
                          batch_tensor(pivots, with_sizes(batch_sizes(a), {n}), a.device()), info_tensor(info, a)};
  });
}

}  // namespace

LDLFactorsInfo ldl_factor_ex(const Tensor& a, bool hermitian) {
  const core::detail::OpScope scope("linalg_ldl_factor_ex", a);
  check_ldl(a);
  LDLFactorsInfo f = factors_of(a, hermitian);
  if (needs_grad(a)) record(f.LD, make_node<LdlFactorBackward>(a));
  return f;
}

LDLFactors ldl_factor(const Tensor& a, bool hermitian) {
  const LDLFactorsInfo f = ldl_factor_ex(a, hermitian);
  const std::vector<std::int64_t> info = f.info.to_vector<std::int64_t>();
  for (std::size_t b = 0; b < info.size(); ++b) {
    if (info[b] == 0) continue;
    const std::string at = std::to_string(info[b]);
    linalg_fail("torch.linalg.ldl_factor" + batch_text(a, b) + "D[" + at + "," + at +
                "] is zero and using it on ldl_solve would result in a division by zero. linalg.ldl_factor_ex(A) gives "
                "the factors all the same");
  }
  return {f.LD, f.pivots};
}

}  // namespace core::linalg
