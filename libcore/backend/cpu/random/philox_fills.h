#pragma once
// The numbers a CUDA device draws, computed on the host: what logical devices on host memory give. One call is one
// launch: threads, words and offsets are laid out as a launch on a device of 132 multiprocessors with 2048 threads
// each. Thread safety: each fill locks the stream. Use: cuda_fill_uniform(stream, out, {0, 1});

#include <span>
#include <vector>

#include "libcore/backend/random_stream.h"
#include "libcore/backend/random_table.h"
#include "libcore/tensor/random_fill.h"

namespace core::detail {

void cuda_fill_uniform(RandomStream& stream, RandomOut out, UniformLimits limits);
/// bernoulli, exponential, geometric or cauchy with the parameters a and b.
void cuda_fill_transformed(RandomStream& stream, RandomOut out, RandomOp op, double a, double b = 0);
void cuda_fill_normal(RandomStream& stream, RandomOut out, NormalShape shape);
void cuda_fill_log_normal(RandomStream& stream, RandomOut out, NormalShape shape);
void cuda_fill_integers(RandomStream& stream, RandomOut out, IntegerRange range);
void cuda_fill_any_integer(RandomStream& stream, RandomOut out);
/// 1 with the probability in each element of `probabilities`: doubles for f64, floats for any other dtype.
void cuda_fill_bernoulli_each(RandomStream& stream, RandomOut out, const void* probabilities);
/// The order of 0 .. order.size()-1 by random keys, with those of equal keys shuffled after that.
void cuda_permutation(RandomStream& stream, std::span<std::int64_t> order);

struct CudaDropout {
  const void* in;  ///< of the dtype of what is filled
  bool* kept;
  double keep;  ///< the probability
  int width;    ///< dropout_width()
};
/// in / keep where kept, else 0.
void cuda_dropout(RandomStream& stream, RandomOut out, const CudaDropout& how);

/// Numbers in (0, 1] for multinomial with replacement: one for each sample, sample after sample, row after row.
std::vector<float> cuda_sample_numbers(RandomStream& stream, std::int64_t rows, std::int64_t samples);

}  // namespace core::detail
