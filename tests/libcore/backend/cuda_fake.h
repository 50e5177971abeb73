#pragma once
// A simulated CUDA driver for tests: several devices with memory on the host, streams that are queues. What is started
// runs only when somebody waits for it, so that a missing synchronisation shows as old bytes; memory is not what the
// host may rely on, as it is filled with 0xCD when it is taken. Calls can be made to fail. Thread safety: all
// functions; one FakeDriver lives at a time. Use: test::FakeDriver driver({.devices = 2}); auto devices =
// core::gpu::discover(driver.api(), tables, {});

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "libcore/backend/cuda/cuda_api.h"

namespace test {

struct FakeOptions {
  int devices = 1;  ///< 0: a driver without devices
  int driver_version = 13000;
  std::uint64_t memory = std::uint64_t{1} << 30;  ///< of each device
  bool peers = true;                              ///< devices reach each other's memory
  bool runs_at_once = false;                      ///< work is done when it is started
};

class FakeDriver {
 public:
  explicit FakeDriver(FakeOptions options = {});
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const core::gpu::CudaApi& api() const;
  /// A kernel: `work` in the order of a stream of the device that is current on this thread.
  void launch(core::gpu::StreamHandle stream, std::function<void()> work);

  /// The call of this name ("copy_peer") fails from now on; kSuccess: no more.
  void fail(const std::string& call, int error);
  /// What the devices exchange data by; null: nothing.
  void set_nccl(core::gpu::Nccl* nccl) { nccl_ = nccl; }
  /// The next synchronisation reports this error of a kernel, and every call after it.
  void break_device(int error) { broken_ = error; }

  int calls(const std::string& name) const;
  /// Bytes taken from the device.
  std::uint64_t taken(int device) const;
  std::size_t live_events() const { return events_.size(); }
  std::size_t live_streams() const { return streams_.size(); }
  std::size_t live_host_blocks() const { return host_.size(); }
  /// The device whose stream runs the work that is running.
  int running_on() const { return running_on_; }

 private:
  friend struct FakeCalls;
  struct Stream;
  struct Marker {
    Stream* stream = nullptr;
    bool is_done = false;
  };
  struct Event {
    int device = 0;
    bool timed = false;
    std::shared_ptr<Marker> marker;  // the last recording
  };
  struct Work {
    std::function<void()> run;        // or
    std::shared_ptr<Marker> reached;  // a recording, or
    std::shared_ptr<Marker> waits_for;
  };
  struct Stream {
    int device = 0;
    std::deque<Work> queue;
    bool is_captured = false;
    std::vector<std::function<void()>> captured;
  };
  struct Graph {
    std::vector<std::function<void()>> work;
  };
  struct Block {
    int device;
    std::size_t bytes;
  };

  int enter(const char* call);
  Stream* stream_of(core::gpu::StreamHandle handle);
  int push(core::gpu::StreamHandle handle, Work work);
  void run(Stream& stream);
  void run_device(int device);
  bool is_capturing() const;

  FakeOptions options_;
  core::gpu::Nccl* nccl_ = nullptr;
  mutable std::recursive_mutex mutex_;
  std::map<std::string, int> failures_;
  std::map<std::string, int> calls_;
  int broken_ = 0;
  int dead_ = 0;
  int last_error_ = 0;
  int running_on_ = -1;
  std::vector<std::unique_ptr<Stream>> defaults_;
  std::map<void*, std::unique_ptr<Stream>> streams_;
  std::map<void*, std::unique_ptr<Event>> events_;
  std::map<void*, std::unique_ptr<Graph>> graphs_;
  std::map<void*, Block> blocks_;
  std::set<void*> host_;
};

}  // namespace test
