#pragma once
// Fills of plain buffers with random numbers: the exact algorithms, before any Tensor. random.h is what users call.
// CPU generators give PyTorch's CPU bits; CUDA generators (here: of logical devices on host memory) its Philox numbers.
// Thread safety: each fill locks its generator. Use: fill_uniform(g, {data, DType::f32, n}, 0, 1);

#include <cstdint>

#include "libcore/base/dtype.h"
#include "libcore/tensor/generator.h"

namespace core::detail {

/// `count` elements side by side. Compute dtypes only: f32 f64 f16 bf16, integers up to 64 bits, bool.
struct RandomOut {
  void* data;
  DType dtype;
  std::int64_t count;
};

struct UniformLimits {
  double from = 0;
  double to = 1;
};
struct NormalShape {
  double mean = 0;
  double std = 1;
};
struct IntegerRange {
  std::int64_t from;
  std::uint64_t size;  ///< 1 or more
};

/// Floating dtypes. REQUIRES: from <= to.
void fill_uniform(const Generator& generator, RandomOut out, UniformLimits limits);
/// Floating dtypes. Buffers of 16 and more elements are made in blocks, smaller ones value by value.
void fill_normal(const Generator& generator, RandomOut out, NormalShape shape);
/// Value by value whatever the size: what a tensor with gaps gets.
void fill_normal_serial(const Generator& generator, RandomOut out, NormalShape shape);
/// from, from + 1, ..., from + size - 1, as any dtype.
void fill_integers(const Generator& generator, RandomOut out, IntegerRange range);
/// The whole non-negative range of the dtype (floats: the integers they hold exactly).
void fill_any_integer(const Generator& generator, RandomOut out);
/// 0 .. count-1 in random order.
void fill_permutation(const Generator& generator, RandomOut out);
/// 1 with probability p, else 0, as any dtype. REQUIRES: 0 <= p <= 1.
void fill_bernoulli(const Generator& generator, RandomOut out, double p);
/// Element i is 1 with the probability in element i of `probabilities`, an array of `out.count` values of `dtype`.
void fill_bernoulli_each(const Generator& generator, RandomOut out, const void* probabilities, DType dtype);
void fill_exponential(const Generator& generator, RandomOut out, double lambda);
void fill_geometric(const Generator& generator, RandomOut out, double p);
void fill_log_normal(const Generator& generator, RandomOut out, NormalShape shape);
/// `shape` holds median and sigma.
void fill_cauchy(const Generator& generator, RandomOut out, NormalShape shape);

/// One draw of PyTorch's int64 random_(): 63 bits. What samplers and loaders take their seeds from.
std::int64_t draw_seed(const Generator& generator);

/// Normal values from uniform ones in place, blocks of 16 (backend/cpu/random). REQUIRES: count is a multiple
/// of 16.
void normal_blocks(float* data, std::int64_t count, NormalShape shape);
void normal_blocks(double* data, std::int64_t count, NormalShape shape);

}  // namespace core::detail
