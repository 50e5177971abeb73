#pragma once
// The numbers a CUDA device draws, computed on the host: what logical devices on host memory give. One call is one
// launch: threads, words and offsets are laid out as a launch on a device of 132 multiprocessors with 2048 threads
// each. Thread safety: each fill locks the stream. Use: cuda_fill_uniform(stream, out, {0, 1});

#include <functional>
#include <span>
#include <vector>

#include "libcore/tensor/random_kernels.h"
#include "libcore/tensor/random_stream.h"

namespace core::detail {

void cuda_fill_uniform(RandomStream& stream, RandomOut out, UniformLimits limits);
/// Every element is transform(u) with u in (0, 1], 32 bits deep.
void cuda_fill_from_uniform(RandomStream& stream, RandomOut out, const std::function<double(double)>& transform);
void cuda_fill_normal(RandomStream& stream, RandomOut out, NormalShape shape);
void cuda_fill_log_normal(RandomStream& stream, RandomOut out, NormalShape shape);
void cuda_fill_integers(RandomStream& stream, RandomOut out, IntegerRange range);
void cuda_fill_any_integer(RandomStream& stream, RandomOut out);
/// Random order; uses one 32-bit word a position.
void cuda_shuffle(RandomStream& stream, std::span<std::int64_t> order);

}  // namespace core::detail
