#pragma once
// Drawing by kernels. Internal. Thread safety: locks the generator.
// Use: detail::draw_on_device(device, generator, used, [&](RandomParams params) { params.out = ...; kernel(params); });

#include <functional>

#include "libcore/backend/random_table.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Calls run() with parameters that say where the generator stands, and moves it on by `used` (0 on the CPU, whose
/// kernels draw from the stream). While a graph is captured on `device` they point to where every replay finds its own
/// place.
void draw_on_device(Device device, const Generator& generator, std::uint64_t used,
                    const std::function<void(const RandomParams&)>& run);

/// Dimensions from the largest stride to the smallest: the order in which PyTorch walks through memory.
Shape memory_order(const Tensor& x);

/// What dropout of a CUDA device gives; `kept` is a tensor of bool.
struct DroppedOut {
  Tensor out;
  Tensor kept;
};
/// Elements of x divided by 1 - p, or 0 with probability p, without history. REQUIRES: x is a floating tensor on a CUDA
/// device with elements, 0 < p < 1.
DroppedOut cuda_dropped_out(const Tensor& x, double p);
/// output_grad * kept * scale by one kernel, laid out as `kept`, without history; undefined where there is no kernel.
Tensor cuda_dropout_grad(const Tensor& output_grad, const Tensor& kept, double scale);

}  // namespace core::detail
