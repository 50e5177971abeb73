#pragma once
// Which devices there are: one backend for each GPU that the driver shows, or as many logical ones as were asked for,
// round-robin over the GPUs. CUDA_VISIBLE_DEVICES is the driver's to apply. Thread safety: pure.
// Use: gpu::discover(api, tables, {.logical_devices = 4});

#include <memory>
#include <vector>

#include "libcore/backend/cuda/cuda_device.h"

namespace core::gpu {

struct DiscoveryOptions {
  int logical_devices = 0;  ///< 0: one for each GPU
};
/// None where there is no driver or no GPU.
std::vector<std::unique_ptr<Backend>> discover(const CudaApi& api, const OpTables& tables,
                                               const DiscoveryOptions& options);

}  // namespace core::gpu
