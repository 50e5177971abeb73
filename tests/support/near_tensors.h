#pragma once
// Checkpoints whose values were computed in another order than those of golden data.
// Use: test::check_near(run, "case", ckpt::merge(models, options), ckpt::open("case.safetensors"), tolerance_of);

#include <functional>
#include <string>

#include "libckpt/checkpoint.h"
#include "libcore/base/dtype.h"
#include "tests/support/golden.h"

namespace test {

/// One case for the names, "ID/names", and one a tensor, "ID/NAME": same dtype, same shape, and no value off by more
/// than `tolerance_of(dtype)` times the largest of the tensor.
void check_near(GoldenRun& run, const std::string& id, const ckpt::Checkpoint& got, const ckpt::Checkpoint& wanted,
                const std::function<double(core::DType)>& tolerance_of);

}  // namespace test
