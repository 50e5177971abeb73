#pragma once
// The caching allocator of one CUDA device: PyTorch's size classes and counts (caching_model.h) with real memory behind
// them. Memory is reused in the order of streams: a block that is freed serves the stream it was allocated for at once,
// and others only after it went back to the device; a block that other streams used (record_stream) serves nobody until
// these are done, which events of a pool say. Blocks of a capture lie in a pool of their own, which keeps them for the
// graph's replays. Thread safety: all functions. The caller has made the device current. Use: void* data =
// allocator.allocate(bytes, stream); allocator.free(data);

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libcore/backend/caching_model.h"
#include "libcore/backend/cuda/cuda_api.h"
#include "libcore/backend/cuda/event_pool.h"
#include "libcore/backend/cuda/pending_uses.h"

namespace core::gpu {

class CudaAllocator final : private SegmentSource {
 public:
  struct Place {
    Device device;
    int gpu = 0;  ///< the driver's number
    std::uint64_t bytes = 0;
  };
  /// Without `events` it has a pool of its own.
  CudaAllocator(const CudaApi& api, const Place& place, std::shared_ptr<EventPool> events = {});
  ~CudaAllocator() override;

  /// OutOfMemoryError with PyTorch's text, after all that was cached has been given back and tried again.
  void* allocate(std::size_t bytes, StreamHandle stream);
  void free(void* data) noexcept;
  /// `gpu` is the driver's number of the stream's device, which may be another one.
  void record_stream(void* data, StreamHandle stream, int gpu);
  /// Gives cached segments back to the device, after waiting for those that other streams still use.
  void release_cached();
  void set_fraction(double fraction);
  /// As if the device had this many bytes; 0: as many as it has.
  void set_capacity(std::uint64_t bytes);
  std::uint64_t capacity() const;
  /// Of `free` bytes that the device has free, those that the capacity leaves.
  std::uint64_t free_of(std::uint64_t free) const;

  MemoryStats stats() const;
  void reset_peaks();
  void reset_accumulated();

  /// What is allocated for `stream`, and for streams that its capture has spread to, comes from pool `id` (not 0) until
  /// end_pool().
  void begin_pool(StreamHandle stream, std::uint64_t id);
  void end_pool(StreamHandle stream);
  /// The graph of pool `id` is gone: its memory goes back to the device, or does when nobody uses it any more.
  void release_pool(std::uint64_t id);

 private:
  using Block = CachingModel::Block;
  std::uint64_t take(std::uint64_t bytes) override;
  void give(std::uint64_t address, std::uint64_t bytes) noexcept override;
  std::uint64_t limit() const;
  std::uint64_t pool_of(StreamHandle stream) const;
  std::uint64_t left_of(std::uint64_t free) const;
  void settle_after_captures() noexcept;
  void wait_for_uses(Block* block, const std::vector<StreamUser>& users) noexcept;
  void collect_finished(bool wait) noexcept;
  [[noreturn]] void throw_out_of_memory(std::uint64_t bytes);

  const CudaApi& api_;
  const Place place_;
  mutable std::mutex mutex_;
  std::uint64_t capacity_;
  double fraction_ = 1;
  CachingModel model_;
  std::unordered_map<void*, Block*> blocks_;                         // allocated
  std::unordered_map<Block*, std::vector<StreamUser>> other_users_;  // given to record_stream()
  std::unordered_map<Block*, int> uses_left_;                        // freed, still used
  PendingUses<Block> pending_;
  std::vector<std::pair<Block*, std::vector<StreamUser>>> after_capture_;  // freed while a capture forbids events
  std::map<StreamHandle, std::uint64_t> capturing_;                        // stream -> pool
};

}  // namespace core::gpu
