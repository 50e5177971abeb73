// Square f32 matrix products without a gradient.

#include <array>

#include "libcore/ops/blas.h"
#include "tests/bench/bench_steps.h"
#include "tests/bench/bench_training.h"

namespace bench {
namespace {

using core::Device;
using core::Tensor;

template <int kSize>
Step matmul(Device d) {
  Tensor a = randn_on({kSize, kSize}, d), b = randn_on({kSize, kSize}, d);
  return [=]() { return static_cast<double>(core::matmul(a, b).numel()); };
}

constexpr std::array kSteps = {
    StepKind{"matmul_256", "product of two 256 x 256 matrices", matmul<256>},
    StepKind{"matmul_512", "product of two 512 x 512 matrices", matmul<512>},
    StepKind{"matmul_1024", "product of two 1024 x 1024 matrices", matmul<1024>},
    StepKind{"matmul_2048", "product of two 2048 x 2048 matrices", matmul<2048>},
};

}  // namespace

StepTable matmul_steps() {
  return kSteps;
}

}  // namespace bench
