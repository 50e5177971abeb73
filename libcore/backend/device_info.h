#pragma once
// What is known about a device, as torch.cuda.get_device_properties. Thread safety: a plain value.
// Use: core::cuda::device_info(0).total_memory;

#include <cstdint>
#include <string>

#include "libcore/base/device.h"

namespace core {

struct DeviceInfo {
  Device device = {};
  std::string name = {};  ///< "logical, host memory" or the GPU's name
  bool is_logical = false;
  std::uint64_t total_memory = 0;  ///< bytes
  int multiprocessors = 0;
  int major = 0;  ///< compute capability
  int minor = 0;
  int ordinal = 0;              ///< what CUDA_VISIBLE_DEVICES calls it: its place among all devices of the machine
  std::string uuid = {};        ///< "GPU-..."
  std::string pci_bus_id = {};  ///< "00000000:01:00.0"
};

}  // namespace core
