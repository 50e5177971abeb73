#pragma once
// Exchanging data between several GPUs at once, by NCCL where it is installed (loaded when first asked for): used by
// core::comm and DataParallel for what goes to all devices. Only for devices that are different GPUs; logical devices
// that share one, and those in host memory, are copied to one by one. CORE_NCCL=0 in the environment, and
// core::nccl::set_enabled(false), switch it off. A sum of three or more devices has NCCL's order of addends, which is
// the same in every run on one machine, but may differ in the last bits from the sum in device order.
// Thread safety: all functions. Use: std::cout << core::nccl::version();  // "2.28.9", or "" without NCCL

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/base/dtype.h"

namespace core {

namespace nccl {

/// Whether these devices exchange data by NCCL.
bool is_available(const std::vector<Device>& devices);
/// "2.28.9"; empty when there is no GPU, or NCCL is not installed.
std::string version();
bool is_enabled();
void set_enabled(bool enabled);

}  // namespace nccl

namespace detail {

/// One device's side: dense memory of that device, used in the order of its current stream.
struct CollectivePart {
  Device device;
  const void* in;
  void* out;
};
/// The bytes at `in` of the first part, to every part's `out`; false, and nothing done, where there is no NCCL for it.
bool broadcast_by_nccl(std::span<const CollectivePart> parts, std::size_t bytes);
/// The sums of all `in`, to `out` of part `root` alone.
bool sum_by_nccl(std::span<const CollectivePart> parts, std::size_t root, std::int64_t count, DType dtype);

}  // namespace detail
}  // namespace core
