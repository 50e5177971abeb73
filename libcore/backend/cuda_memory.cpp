// core::cuda's functions about memory.
#include <utility>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/host_memory.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core::cuda {
namespace {

using Entries = std::map<std::string, std::int64_t>;

void put(Entries& entries, const std::string& name, const MemoryStat& stat) {
  entries[name + ".current"] = stat.current;
  entries[name + ".peak"] = stat.peak;
  entries[name + ".allocated"] = stat.allocated;
  entries[name + ".freed"] = stat.freed;
}

void put(Entries& entries, const std::string& name, const MemoryStatOfPools& stat) {
  put(entries, name + ".all", stat.all);
  put(entries, name + ".large_pool", stat.large_pool);
  put(entries, name + ".small_pool", stat.small_pool);
}

std::uint64_t as_bytes(std::int64_t count) {
  return static_cast<std::uint64_t>(count);
}

MemoryStats stats_of(Device device) {
  return backend_for(device).memory_stats();
}

}  // namespace

std::map<std::string, std::int64_t> memory_stats(Device device) {
  MemoryStats stats = stats_of(device);
  Entries entries{{"num_alloc_retries", stats.num_alloc_retries},
                  {"num_ooms", stats.num_ooms},
                  {"num_device_alloc", stats.num_device_alloc},
                  {"num_device_free", stats.num_device_free},
                  {"num_sync_all_streams", 0},
                  {"max_split_size", -1}};
  put(entries, "allocation", stats.allocation);
  put(entries, "segment", stats.segment);
  put(entries, "active", stats.active);
  put(entries, "inactive_split", stats.inactive_split);
  put(entries, "allocated_bytes", stats.allocated_bytes);
  put(entries, "reserved_bytes", stats.reserved_bytes);
  put(entries, "active_bytes", stats.active_bytes);
  put(entries, "inactive_split_bytes", stats.inactive_split_bytes);
  put(entries, "requested_bytes", stats.requested_bytes);
  put(entries, "oversize_allocations", MemoryStat());  // only with a limit on what may be split
  put(entries, "oversize_segments", MemoryStat());
  return entries;
}

std::uint64_t memory_allocated(Device device) {
  return as_bytes(stats_of(device).allocated_bytes.all.current);
}
std::uint64_t max_memory_allocated(Device device) {
  return as_bytes(stats_of(device).allocated_bytes.all.peak);
}
std::uint64_t memory_reserved(Device device) {
  return as_bytes(stats_of(device).reserved_bytes.all.current);
}
std::uint64_t max_memory_reserved(Device device) {
  return as_bytes(stats_of(device).reserved_bytes.all.peak);
}

void reset_peak_memory_stats(Device device) {
  backend_for(device).reset_peak_memory_stats();
}
void reset_accumulated_memory_stats(Device device) {
  backend_for(device).reset_accumulated_memory_stats();
}

MemoryInfo mem_get_info(Device device) {
  Backend& backend = backend_for(device);
  return {backend.free_memory(), backend.info().total_memory};
}

void empty_cache() {
  const int count = is_initialized() ? device_count() : 0;
  for (int i = 0; i < count; ++i) backend_for(Device(DeviceType::cuda, i)).empty_cache();
  host_trim();
}

void set_per_process_memory_fraction(double fraction, Device device) {
  if (!(fraction >= 0 && fraction <= 1)) {
    std::string text = std::to_string(fraction);
    while (text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
    throw Error(ErrorCode::value, "Invalid fraction value: " + text + ". Allowed range: 0~1");
  }
  backend_for(device).set_memory_fraction(fraction);
}

}  // namespace core::cuda
