#pragma once
// A simulated CUDA driver for tests: several devices with memory on the host, streams that are queues. What is started
// runs only when somebody waits for it, so that a missing synchronisation shows as old bytes; memory is not what the
// host may rely on, as it is filled with 0xCD when it is taken. Calls can be made to fail. Captures follow the rules of
// the driver (cuda_fake_capture.cpp): a forbidden call fails and loses the capture. Thread safety: all
// functions; one FakeDriver lives at a time. Use: test::FakeDriver driver({.devices = 2}); auto devices =
// core::gpu::discover(driver.api(), tables, {});

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "libcore/backend/cuda/cuda_api.h"

namespace test {

struct FakeOptions {
  int devices = 1;  ///< 0: a driver without devices
  int driver_version = 13000;
  int count_error = 0;                            ///< what asking for the devices gives, and every call after it
  std::uint64_t memory = std::uint64_t{1} << 30;  ///< of each device
  bool peers = true;                              ///< devices reach each other's memory
  bool runs_at_once = false;                      ///< work is done when it is started, unless it waits for others
  bool runs_when_asked = false;                   ///< asking for an event does the work before it, as far as it goes
  std::set<int> unreadable = {};                  ///< devices whose properties cannot be asked
  int major = 9, minor = 0;                       ///< compute capability
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
  /// A kernel that waits for others: `is_over` begins it and is asked again until it says so, in the order of a stream
  /// of any device.
  void launch_until(core::gpu::StreamHandle stream, std::function<bool()> is_over);
  /// Does the first `count` things that are left of those that a stream of the current device was given: kernels,
  /// copies, recordings, waits.
  void run_first(core::gpu::StreamHandle stream, std::size_t count);

  /// The call of this name ("copy_peer") fails from now on; kSuccess: no more.
  void fail(const std::string& call, int error);
  /// `look` is called by whoever makes this call, before it is made, without the driver's lock.
  void watch(const std::string& call, std::function<void()> look);
  /// What the devices exchange data by; null: nothing.
  void set_nccl(core::gpu::Nccl* nccl) { nccl_ = nccl; }
  /// The next synchronisation reports this error of a kernel, and every call after it.
  void break_device(int error) { broken_ = error; }

  /// The device that is current on this thread.
  static int current_gpu();
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
  /// How far each stream of a capture had come.
  using Reached = std::map<Stream*, int>;
  struct Capture {
    std::uint64_t id = 0;
    core::gpu::CaptureMode mode = core::gpu::CaptureMode::global;
    std::thread::id thread;
    Stream* first = nullptr;
    std::map<Stream*, Reached> streams;  // what the last work of each comes after, itself included
    std::vector<std::function<void()>> work;
    bool is_lost = false;
  };
  struct Event {
    int device = 0;
    bool timed = false;
    std::shared_ptr<Marker> marker;  // the last recording, or
    std::uint64_t capture = 0;       // where it was in a capture
    Reached reached;
  };
  struct Work {
    std::function<void()> run;        // or
    std::shared_ptr<Marker> reached;  // a recording, or
    std::shared_ptr<Marker> waits_for;
    std::function<bool()> is_over = {};  // or
  };
  struct Stream {
    int device = 0;
    std::deque<Work> queue;
    std::shared_ptr<Capture> capture;
  };
  struct Graph {
    std::vector<std::function<void()>> work;
  };
  struct Block {
    int device;
    std::size_t bytes;
  };

  void show(const char* call);
  int enter(const char* call);
  Stream* stream_of(core::gpu::StreamHandle handle);
  int push(core::gpu::StreamHandle handle, Work work);
  /// The first thing that a stream has to do; false: it waits for others.
  bool step(Stream& stream);
  /// All that is before it.
  bool reach(const Marker& marker);
  /// As far as it goes: false where it stops at work that waits for others.
  bool advance(Stream& stream, std::size_t most = std::numeric_limits<std::size_t>::max());
  /// Waits for all of it.
  void run(Stream& stream);
  void run_device(int device);

  // The rules of captures. The functions that give an error lose the captures that it is about.

  /// A call that a replay would not repeat.
  int check_unsafe();
  /// Waiting for a stream, or asking how far it is.
  int check_stream(const Stream& stream);
  int check_event(const Event& event);
  /// All streams of the device.
  int check_device(int device);
  int keep(Stream& stream, Work work);
  int record(Event& event, Stream& stream);
  int join(Stream& stream, const Event& event);
  static bool is_joined(const Capture& capture);
  int begin(Stream& stream, core::gpu::CaptureMode mode);
  int end(Stream& stream, core::gpu::GraphHandle* graph);

  FakeOptions options_;
  core::gpu::Nccl* nccl_ = nullptr;
  mutable std::recursive_mutex mutex_;
  std::map<std::string, int> failures_;
  std::map<std::string, std::function<void()>> watchers_;
  std::map<std::string, int> calls_;
  int broken_ = 0;
  int dead_ = 0;
  int last_error_ = 0;
  int running_on_ = -1;
  std::uint64_t captures_made_ = 0;
  std::set<std::shared_ptr<Capture>> captures_;  // under way
  std::vector<std::unique_ptr<Stream>> defaults_;
  std::map<void*, std::unique_ptr<Stream>> streams_;
  std::map<void*, std::unique_ptr<Event>> events_;
  std::map<void*, std::unique_ptr<Graph>> graphs_;
  std::map<void*, Block> blocks_;
  std::set<void*> host_;
};

}  // namespace test
