#pragma once
// CudaBackend: one CUDA device, or one of several logical devices that share a GPU: memory from a caching allocator,
// copies and kernels in the order of streams, pinned host memory. Every error of the device is thrown with PyTorch's
// text; one that leaves the device unusable is thrown again by every later call.
// Thread safety: as Backend. What a thread starts goes to its current stream on this device.
// Use: created by make_cuda_backends(); kernels: backend.ops().elementwise->...

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libcore/backend/backend.h"
#include "libcore/backend/cuda/cuda_allocator.h"
#include "libcore/backend/cuda/cuda_api.h"
#include "libcore/backend/cuda/event_pool.h"
#include "libcore/backend/cuda/pinned_cache.h"

namespace core {

class CudaBackend final : public Backend {
 public:
  struct Options {
    const gpu::CudaApi& api;
    const OpTables& ops;
    int gpu = 0;              ///< the driver's number of the GPU
    bool shares_gpu = false;  ///< a logical device: its default stream is one of its own
    DeviceInfo info = {};
    // One for all devices of the process.
    std::shared_ptr<gpu::EventPool> events = {};
    std::shared_ptr<gpu::PinnedCache> pinned = {};
  };
  explicit CudaBackend(const Options& options);
  ~CudaBackend() override;

  // As Backend says. The synchronous copies wait for the current stream, so they also report what its kernels did
  // wrong.

  void* allocate(std::size_t bytes) override;
  void free(void* data, std::size_t bytes) noexcept override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void copy_from_host_async(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host_async(void* to, const void* from, std::size_t bytes) override;
  bool copy_from_peer(void* to, Backend& peer, const void* from, std::size_t bytes) override;
  void fill_zero(void* to, std::size_t bytes) override;
  void synchronize() override;
  bool can_access(const Backend& other) const override;
  DeviceInfo info() const override;
  MemoryStats memory_stats() const override { return allocator_.stats(); }
  void reset_peak_memory_stats() override { allocator_.reset_peaks(); }
  void reset_accumulated_memory_stats() override { allocator_.reset_accumulated(); }
  std::uint64_t free_memory() override;
  void empty_cache() override;
  void set_memory_fraction(double fraction) override { allocator_.set_fraction(fraction); }
  void* allocate_pinned(std::size_t bytes) override;
  void free_pinned(void* data, std::size_t bytes) noexcept override;

  // For streams, graphs and kernels.

  const gpu::CudaApi& api() const { return api_; }
  int gpu() const { return gpu_; }
  gpu::StreamHandle default_stream() const;
  /// Where work of this thread goes: what streams.h made current.
  gpu::StreamHandle current_stream() const;
  /// One of 32 streams of that priority (0 or -1, the more urgent), in turn. They live as long as the backend.
  gpu::StreamHandle pool_stream(int priority);
  /// One more stream, for copies that go beside the work of others.
  gpu::StreamHandle copy_stream();
  /// `data` is used by work on `stream` of GPU `gpu`: when freed it serves nobody before that work is done.
  void record_stream(void* data, gpu::StreamHandle stream, int gpu) { allocator_.record_stream(data, stream, gpu); }
  void synchronize_stream(gpu::StreamHandle stream);
  gpu::CudaAllocator& allocator() { return allocator_; }
  const std::shared_ptr<gpu::EventPool>& events() const { return events_; }
  /// The device has this many bytes; 0: as many as the GPU.
  void set_capacity(std::uint64_t bytes) { allocator_.set_capacity(bytes); }

  /// Makes the GPU current on this thread for a scope: the runtime's calls and launches go there.
  class Current {
   public:
    explicit Current(const CudaBackend& backend);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const CudaBackend* previous_;
  };
  /// The backend whose kernels this thread starts: the one whose ops() it asked for last, or of a Current scope.
  static CudaBackend& active();

  /// Throws `error` unless it is kSuccess. Error(device) "CUDA error: ..." with PyTorch's explanations.
  void check(int error) const;
  /// Throws when the device is dead.
  void check_alive() const;
  /// Throws when a kernel refused its indices, and the device is dead then.
  void check_assert_flag() const;
  /// What kernels raise when indices are wrong (launch.h).
  int* assert_flag() const;

 protected:
  void on_launch() override;

 private:
  void prepare() const;
  void make_current() const;
  void copy(void* to, const void* from, std::size_t bytes);
  void record_pinned(const void* data);
  [[noreturn]] void fail(int error) const;
  bool copy_direct(void* to, CudaBackend& source, const void* from, std::size_t bytes);
  void copy_staged(void* to, CudaBackend& source, const void* from, std::size_t bytes);

  const gpu::CudaApi& api_;
  int gpu_;
  bool shares_gpu_;
  DeviceInfo info_;
  mutable std::atomic<int> dead_{gpu::kSuccess};  // the error that killed the device
  std::shared_ptr<gpu::EventPool> events_;
  mutable gpu::CudaAllocator allocator_;
  std::shared_ptr<gpu::PinnedCache> pinned_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<gpu::StreamHandle> pool_[2];
  std::size_t next_of_pool_[2] = {0, 0};
  gpu::StreamHandle copy_stream_ = nullptr;
  mutable std::map<int, bool> peers_;  // by the driver's number: whether its memory can be used

  // Made when the device is first used: asking for the devices should not start every GPU of the machine.
  mutable std::mutex prepare_mutex_;
  mutable std::atomic<bool> is_ready_{false};
  mutable gpu::StreamHandle default_stream_ = nullptr;
  mutable int* assert_flag_ = nullptr;
};

}  // namespace core
