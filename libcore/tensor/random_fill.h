#pragma once
// Fills with random numbers before any Tensor: of plain buffers, and of memory of a device by its kernels. random.h is
// what users call. CPU generators give PyTorch's CPU bits, CUDA generators those of a CUDA device. Thread safety: each
// fill locks its generator. Use: std::int64_t seed = core::detail::draw_seed(generator);

#include <cstdint>

#include "libcore/base/device.h"
#include "libcore/base/dtype.h"
#include "libcore/tensor/generator.h"

namespace core {

enum class RandomOp : std::uint8_t;  // libcore/backend/random_table.h

namespace detail {

/// `count` elements side by side.
struct RandomOut {
  void* data;
  DType dtype;
  std::int64_t count;
};

/// What is drawn; RandomOp says what the numbers are.
struct RandomFill {
  RandomOp op;
  double a = 0;
  double b = 0;
  std::int64_t from = 0;
  std::uint64_t size = 0;
  const void* in = nullptr;
};

/// Into host memory. Error(not_implemented) for a dtype that the operation has not.
void fill_buffer(const Generator& generator, RandomOut out, const RandomFill& how);
/// By the kernel of `device`, on its memory; false, and nothing done, where it has none.
bool fill_on_device(Device device, const Generator& generator, RandomOut out, const RandomFill& how);

/// One draw of PyTorch's int64 random_(): 63 bits. What samplers and loaders take their seeds from.
std::int64_t draw_seed(const Generator& generator);

}  // namespace detail
}  // namespace core
