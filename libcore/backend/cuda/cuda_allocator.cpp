#include "libcore/backend/cuda/cuda_allocator.h"

#include <algorithm>
#include <limits>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/cuda/free_mutex.h"
#include "libcore/backend/graph_capture.h"
#include "libcore/backend/out_of_memory.h"

namespace core::gpu {
namespace {

void* as_pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

CudaAllocator::CudaAllocator(const CudaApi& api, const Place& place, std::shared_ptr<EventPool> events)
    : api_(api),
      place_(place),
      capacity_(place.bytes),
      model_(this),
      pending_(api, events != nullptr ? std::move(events) : std::make_shared<EventPool>(api)) {}

CudaAllocator::~CudaAllocator() {
  release_cached();
}

/// What this process may take. Without a limit of ours the device decides.
std::uint64_t CudaAllocator::limit() const {
  if (fraction_ >= 1 && capacity_ == place_.bytes) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(fraction_ * static_cast<double>(capacity_));
}

void CudaAllocator::set_capacity(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  capacity_ = bytes == 0 ? place_.bytes : bytes;
}

std::uint64_t CudaAllocator::capacity() const {
  std::lock_guard lock(mutex_);
  return capacity_;
}

std::uint64_t CudaAllocator::free_of(std::uint64_t free) const {
  std::lock_guard lock(mutex_);
  return left_of(free);
}

std::uint64_t CudaAllocator::left_of(std::uint64_t free) const {
  if (capacity_ == place_.bytes) return free;
  return std::min(free, capacity_ > model_.reserved() ? capacity_ - model_.reserved() : 0);
}

void* CudaAllocator::allocate(std::size_t bytes, StreamHandle stream) {
  std::lock_guard lock(mutex_);
  settle_after_captures();
  collect_finished(false);
  const CachingModel::Use use{stream, pool_of(stream)};
  Block* block = model_.try_allocate(bytes, limit(), use);
  if (block == nullptr) {
    if (!GraphCapture::any()) collect_finished(true);
    model_.release_cached();
    model_.count_retry();
    block = model_.try_allocate(bytes, limit(), use);
  }
  if (block == nullptr) throw_out_of_memory(bytes);
  void* data = as_pointer(block->address);
  blocks_.emplace(data, block);
  return data;
}

/// A capture spreads to streams that wait for an event of it.
std::uint64_t CudaAllocator::pool_of(StreamHandle stream) const {
  if (capturing_.empty() || stream == nullptr) return 0;
  if (const auto found = capturing_.find(stream); found != capturing_.end()) return found->second;
  std::uint64_t here = 0;
  if (api_.capture_id(stream, &here) != kSuccess || here == 0) return 0;
  for (const auto& [first, pool] : capturing_) {
    std::uint64_t there = 0;
    if (api_.capture_id(first, &there) == kSuccess && there == here) return pool;
  }
  return 0;
}

void CudaAllocator::free(void* data) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  Block* block = found->second;
  blocks_.erase(found);
  model_.retire(block);
  const auto users = other_users_.find(block);
  if (users == other_users_.end()) return model_.give_back(block);
  std::vector<StreamUser> others = std::move(users->second);
  other_users_.erase(users);
  after_capture_.emplace_back(block, std::move(others));
  settle_after_captures();
}

/// An event that is recorded on a captured stream is part of the graph, and says nothing of what ran.
void CudaAllocator::settle_after_captures() noexcept {
  if (after_capture_.empty() || !capturing_.empty() || GraphCapture::any()) return;
  for (const auto& [block, users] : after_capture_) wait_for_uses(block, users);
  after_capture_.clear();
}

void CudaAllocator::record_stream(void* data, StreamHandle stream, int gpu) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end() || (found->second->stream == stream && gpu == place_.gpu)) return;
  std::vector<StreamUser>& users = other_users_[found->second];
  const StreamUser user{stream, gpu};
  if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
}

/// Gives `block` back once all that these streams were told so far is done. Where no event can be had the device is
/// dead, and nothing uses the block any more.
void CudaAllocator::wait_for_uses(Block* block, const std::vector<StreamUser>& users) noexcept {
  int uses = 0;
  for (const StreamUser& user : users) {
    if (user.gpu != place_.gpu) api_.set_device(user.gpu);  // an event belongs to the device of its stream
    if (pending_.add(user, block) == kSuccess) ++uses;
    if (user.gpu != place_.gpu) api_.set_device(place_.gpu);
  }
  if (uses == 0) return model_.give_back(block);
  uses_left_[block] = uses;
}

void CudaAllocator::collect_finished(bool wait) noexcept {
  if (pending_.empty()) return;
  const RelaxedCapture relaxed(api_);
  const auto finish = [this](const StreamUser&, Block* block) {
    const auto left = uses_left_.find(block);
    if (--left->second != 0) return;
    uses_left_.erase(left);
    model_.give_back(block);
  };
  if (wait) return pending_.wait(finish);
  pending_.collect(finish);
}

std::uint64_t CudaAllocator::take(std::uint64_t bytes) {
  const RelaxedCapture relaxed(api_);
  void* data = nullptr;
  const int error = api_.allocate(&data, bytes);
  if (error == kSuccess) return reinterpret_cast<std::uint64_t>(data);
  if (error != kOutOfMemory) throw_cuda_error(api_, error);
  api_.last_error();
  return 0;
}

void CudaAllocator::give(std::uint64_t address, std::uint64_t /*bytes*/) noexcept {
  const RelaxedCapture relaxed(api_);
  const std::lock_guard turn(free_mutex());
  if (api_.free(as_pointer(address)) != kSuccess) api_.last_error();  // a dead device has no memory to give back to
}

void CudaAllocator::throw_out_of_memory(std::uint64_t bytes) {
  model_.count_out_of_memory();
  std::size_t free = 0, total = 0;
  api_.memory_info(&free, &total);
  detail::throw_out_of_memory({.device = place_.device,
                               .wanted = CachingModel::segment_size(bytes),
                               .capacity = capacity_,
                               .free = left_of(free),
                               .allocated = model_.allocated(),
                               .reserved = model_.reserved()},
                              {.fraction = fraction_, .processes = api_.memory_users(place_.gpu)});
}

void CudaAllocator::release_cached() {
  std::lock_guard lock(mutex_);
  settle_after_captures();
  if (!GraphCapture::any()) collect_finished(true);
  model_.release_cached();
}

void CudaAllocator::set_fraction(double fraction) {
  std::lock_guard lock(mutex_);
  fraction_ = fraction;
}

MemoryStats CudaAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return model_.stats();
}

void CudaAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  model_.reset_peaks();
}

void CudaAllocator::reset_accumulated() {
  std::lock_guard lock(mutex_);
  model_.reset_accumulated();
}

void CudaAllocator::begin_pool(StreamHandle stream, std::uint64_t id) {
  std::lock_guard lock(mutex_);
  capturing_[stream] = id;
  model_.keep_pool(id);
}

void CudaAllocator::end_pool(StreamHandle stream) {
  std::lock_guard lock(mutex_);
  capturing_.erase(stream);
  settle_after_captures();
}

void CudaAllocator::release_pool(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  model_.release_pool(id);
  if (capturing_.empty()) model_.release_dead_pools();
}

}  // namespace core::gpu
