#pragma once
// What it costs to move data between the CPU and a device, measured the way a program does it: Tensor::to.
// Thread safety: one thread. Use: TransferReport r = measure_transfers("cuda:0");

#include <cstdint>
#include <vector>

#include "libcore/base/device.h"

namespace cli {

struct Transfer {
  std::uint64_t bytes = 0;
  double to_device = 0;    ///< seconds of one copy from ordinary (pageable) memory, allocation on the device included
  double from_pinned = 0;  ///< the same from pinned memory
  double to_host = 0;      ///< back
};

/// What a copy costs: latency + bytes / rate, the line that is nearest to the times that were measured.
struct CostModel {
  double latency = 0;           ///< seconds
  double bytes_per_second = 0;  ///< beyond it
  double error = 0;             ///< the largest deviation from what was measured, as a part of it
};

/// REQUIRES: at least two sizes that differ, times above zero.
CostModel fit(const std::vector<std::uint64_t>& bytes, const std::vector<double>& seconds);

struct TransferReport {
  core::Device device;
  std::vector<Transfer> sizes;  ///< ascending
  std::uint64_t parts = 0;      ///< so many tensors of part_bytes each ...
  std::uint64_t part_bytes = 0;
  double many_small = 0;  ///< ... one after the other, seconds
  double together = 0;    ///< by core::to_device, which moves them in a few copies
  double one_large = 0;   ///< the same bytes as one tensor
  /// Of sizes from 4 KiB: as Transfer's times.
  CostModel to_device, from_pinned, to_host;
  /// Bytes that at the best rate take as long as the call itself: below, put tensors together.
  std::uint64_t break_even = 0;
};

/// The best of several tries of each, about two seconds in all; up to 64 MiB, on a GPU up to 1 GiB where a quarter of
/// its free memory is more. Errors: those of a device that is out of memory.
TransferReport measure_transfers(core::Device device);

}  // namespace cli
