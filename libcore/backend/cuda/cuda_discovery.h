#pragma once
// Which devices there are: one backend for each GPU that the driver shows, or as many logical ones as were asked for,
// round-robin over the GPUs. CUDA_VISIBLE_DEVICES is the driver's to apply. No GPU is started. Thread safety: pure.
// Use: gpu::discover(api, tables, {.logical_devices = 4});

#include <memory>
#include <string>
#include <vector>

#include "libcore/backend/cuda/cuda_device.h"

namespace core::gpu {

struct DiscoveryOptions {
  int logical_devices = 0;  ///< 0: one for each GPU
  /// What the kernels were compiled for: "sm_90", "compute_90". A GPU that none of these runs on is warned of.
  std::vector<std::string> architectures = {};
  /// Set to what was wrong where there are no devices, for throw_no_device() (cuda_error.h).
  int* error = nullptr;
};
/// None where there is no driver or no GPU, nor, after a warning, where the driver is in trouble. A GPU that cannot be
/// read is left out with a warning.
std::vector<std::unique_ptr<Backend>> discover(const CudaApi& api, const OpTables& tables,
                                               const DiscoveryOptions& options);

}  // namespace core::gpu
