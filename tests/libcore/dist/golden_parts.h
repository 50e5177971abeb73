#pragma once
// The sections of golden/dist/ddp.json, each run by the processes that golden_dist starts. A rank says of each of its
// cases "INDEX<tab>" and nothing more when it is right, else what is wrong ("skip: " why it was not run). Use: see
// golden_dist.cpp.

#include <string>

#include "libcore/tensor/tensor.h"
#include "tests/support/golden_json.h"

namespace test {

/// "" when right.
std::string collective_difference(Json json);
std::string training_difference(Json json, const GoldenArrays& arrays);
std::string ddp_buckets_difference(Json json);
std::string sync_batch_norm_difference(Json json, const GoldenArrays& arrays);

// Of one process.
std::string sampler_difference(Json json);
std::string buckets_difference(Json json);

/// value(dtype, n, seed) of the README.
core::Tensor golden_value(core::DType dtype, std::int64_t n, std::int64_t seed);

}  // namespace test
