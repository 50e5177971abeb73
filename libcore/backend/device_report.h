#pragma once
// What a person asks of the devices: the tables of torch.cuda.memory_summary() and, in the shape of nvidia-smi, of all
// devices. Thread safety: as device_registry.h. Use: std::cout << core::cuda::memory_summary("cuda:0");

#include <string>

#include "libcore/base/device.h"

namespace core::cuda {

/// The allocator's counts as PyTorch prints them; `abbreviated` leaves out the two pools.
enum class SummaryForm { full, abbreviated };
std::string memory_summary(Device device = DeviceType::cuda, SummaryForm form = SummaryForm::full);

/// A table of 79 columns: every visible device with its name, place and memory as this process knows them; what only a
/// driver could say (temperature, power, load) is N/A. "No devices were found" without devices.
std::string device_table();

}  // namespace core::cuda
