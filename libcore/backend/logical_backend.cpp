#include "libcore/backend/logical_backend.h"

#include <utility>

#include "libcore/backend/cpu/random/random_fills.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/out_of_memory.h"
#include "libcore/base/error.h"

namespace core {
namespace {

/// True when this call is the one that is to fail.
bool counts_down_to_fault(std::int64_t& left) {
  return left >= 0 && left-- == 0;
}

/// Made once, never destroyed.
struct LogicalTables {
  RandomTable random;
  OpTables all = cpu_op_tables();

  LogicalTables() {
    cpu::fill_philox(random);
    all.random = &random;
  }
};

}  // namespace

const OpTables& logical_op_tables() {
  static const auto* tables = new LogicalTables;
  return tables->all;
}

LogicalBackend::LogicalBackend(DeviceInfo info, bool peer_access)
    : LogicalBackend(std::move(info), peer_access, logical_op_tables()) {}

LogicalBackend::LogicalBackend(DeviceInfo info, bool peer_access, const OpTables& ops)
    : CpuBackend(info.device, ops), info_(std::move(info)), peer_access_(peer_access) {}

void* LogicalBackend::allocate(std::size_t bytes) {
  check_alive();
  void* data = take(bytes);
  std::lock_guard lock(mutex_);
  CachingModel::Block* block = nullptr;
  if (data != nullptr && !counts_down_to_fault(faults_.fail_allocation)) {
    block = model_.allocate(bytes, static_cast<std::uint64_t>(fraction_ * static_cast<double>(capacity())));
  }
  if (block == nullptr) {
    if (data != nullptr) give_back(data, bytes);
    throw_out_of_memory(bytes);
  }
  blocks_.emplace(data, block);
  return data;
}

void LogicalBackend::throw_out_of_memory(std::uint64_t bytes) {
  model_.count_out_of_memory();
  MemoryShortage s{.device = device(),
                   .wanted = CachingModel::segment_size(bytes),
                   .capacity = capacity(),
                   .free = capacity() > model_.reserved() ? capacity() - model_.reserved() : 0,
                   .allocated = model_.allocated(),
                   .reserved = model_.reserved()};
  detail::throw_out_of_memory(s, {.fraction = fraction_, .processes = {{.bytes = s.reserved}}});
}

void LogicalBackend::free(void* data, std::size_t bytes) noexcept {
  {
    std::lock_guard lock(mutex_);
    auto found = blocks_.find(data);
    model_.free(found->second);
    blocks_.erase(found);
  }
  give_back(data, bytes);
}

void LogicalBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  count_copy();
  CpuBackend::copy_from_host(to, from, bytes);
}

void LogicalBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  count_copy();
  CpuBackend::copy_to_host(to, from, bytes);
}

bool LogicalBackend::can_access(const Backend& other) const {
  if (&other == this) return true;
  const auto* peer = dynamic_cast<const LogicalBackend*>(&other);
  return peer != nullptr && peer_access_ && peer->peer_access_;
}

DeviceInfo LogicalBackend::info() const {
  std::lock_guard lock(mutex_);
  DeviceInfo info = info_;
  info.total_memory = capacity();
  return info;
}

MemoryStats LogicalBackend::memory_stats() const {
  std::lock_guard lock(mutex_);
  return model_.stats();
}

void LogicalBackend::reset_peak_memory_stats() {
  std::lock_guard lock(mutex_);
  model_.reset_peaks();
}

void LogicalBackend::reset_accumulated_memory_stats() {
  std::lock_guard lock(mutex_);
  model_.reset_accumulated();
}

void LogicalBackend::empty_cache() {
  std::lock_guard lock(mutex_);
  model_.release_cached();
}

void LogicalBackend::set_memory_fraction(double fraction) {
  std::lock_guard lock(mutex_);
  fraction_ = fraction;
}

void LogicalBackend::set_capacity(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

void LogicalBackend::set_faults(const DeviceFaults& faults) {
  std::lock_guard lock(mutex_);
  faults_ = faults;
  dead_ = nullptr;
  launches_left_ = faults.fail_launch;
  counts_launches_ = watches_launches_ || faults.fail_launch >= 0 || faults.is_sticky;
}

void LogicalBackend::on_launch() {
  check_alive();
  if (launches_left_.load() >= 0 && launches_left_.fetch_sub(1) == 0) fail("CUDA error: unspecified launch failure");
}

void LogicalBackend::count_copy() {
  check_alive();
  std::lock_guard lock(mutex_);
  if (counts_down_to_fault(faults_.fail_copy)) fail("CUDA error: invalid argument");
}

void LogicalBackend::check_alive() {
  if (const char* cause = dead_.load(std::memory_order_relaxed)) throw Error(ErrorCode::device, cause);
}

void LogicalBackend::fail(const char* text) {
  if (faults_.is_sticky) dead_ = text;
  throw Error(ErrorCode::device, text);
}

}  // namespace core
