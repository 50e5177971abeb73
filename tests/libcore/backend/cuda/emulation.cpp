#include "tests/libcore/backend/cuda/emulation.h"

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

#include "libcore/backend/cuda/kernels/launch.h"

namespace core::emulated_kernels {
namespace {

constexpr std::int64_t kHopperShared = 223 << 10;

int usual_lanes() {
  static const int lanes = [] {
    const char* text = std::getenv("CKPT_EMULATED_LANES");
    const int wanted = text == nullptr ? 1 : std::atoi(text);
    return wanted >= 1 && (wanted & (wanted - 1)) == 0 ? wanted : throw std::invalid_argument("CKPT_EMULATED_LANES");
  }();
  return lanes;
}

int lane_count = usual_lanes();
std::int64_t shared_limit = kHopperShared;
int flag = 0;
gpu::Cudnn* cudnn = nullptr;

}  // namespace

gpu::Cudnn* simulated_cudnn();

#ifdef __SANITIZE_THREAD__

// Threads: the sanitizer sees what one lane writes and another touches without a barrier between.

class LaneGroup {
 public:
  explicit LaneGroup(int lanes) : barrier(lanes) {}
  std::barrier<> barrier;
};

void wait_for_lanes(LaneGroup& group) {
  group.barrier.arrive_and_wait();
}

void run_lanes(const std::function<void(LaneGroup& group, int i)>& lane) {
  LaneGroup group(lane_count);
  std::vector<std::jthread> threads;
  for (int i = 0; i < lane_count; ++i) threads.emplace_back([&, i] { lane(group, i); });
}

#else

// Contexts that take turns: from one barrier to the next each lane runs alone, first to last in one round and last to
// first in the other. So a value that needs a barrier to arrive has not arrived, in every run, and one that is written
// too early is gone.

/// Where a lane keeps its variables. The system gives pages as they are touched.
class LaneStack {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  LaneStack() : data_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  LaneStack(LaneStack&& from) noexcept : data_(std::exchange(from.data_, nullptr)) {}
  LaneStack& operator=(LaneStack&&) = delete;
  ~LaneStack() {
    if (data_ != nullptr) munmap(data_, kBytes);
  }
  void* data() const { return data_; }

 private:
  void* data_;
};

/// Those of this thread, which groups use one after the other.
std::vector<LaneStack>& lane_stacks(std::size_t count) {
  thread_local std::vector<LaneStack> stacks;
  while (stacks.size() < count) stacks.emplace_back();
  return stacks;
}

class LaneGroup {
 public:
  using Body = std::function<void(LaneGroup& group, int i)>;
  LaneGroup(int lanes, const Body& body) : body_(body), lanes_(static_cast<std::size_t>(lanes)) {
    const std::vector<LaneStack>& stacks = lane_stacks(lanes_.size());
    for (std::size_t i = 0; i < lanes_.size(); ++i) start(lanes_[i], stacks[i]);
  }

  void run() {
    for (bool forward = true; !is_done(); forward = !forward) {
      const int count = static_cast<int>(lanes_.size());
      for (int i = 0; i < count; ++i) {
        running_ = forward ? i : count - 1 - i;
        Lane& lane = lanes_[static_cast<std::size_t>(running_)];
        swapcontext(&home_, &lane.context);
      }
    }
  }
  void wait() { swapcontext(&lanes_[static_cast<std::size_t>(running_)].context, &home_); }

 private:
  struct Lane {
    ucontext_t context;
    bool done = false;
  };

  void start(Lane& lane, const LaneStack& stack) {
    getcontext(&lane.context);
    lane.context.uc_stack.ss_sp = stack.data();
    lane.context.uc_stack.ss_size = LaneStack::kBytes;
    lane.context.uc_link = &home_;
    const auto address = reinterpret_cast<std::uintptr_t>(this);  // makecontext hands over ints alone
    makecontext(&lane.context, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(address >> 32),
                static_cast<unsigned>(address));
  }
  static void enter(unsigned high, unsigned low) {
    auto* group = reinterpret_cast<LaneGroup*>(static_cast<std::uintptr_t>(high) << 32 | low);
    const int i = group->running_;
    group->body_(*group, i);
    group->lanes_[static_cast<std::size_t>(i)].done = true;
  }
  /// All lanes meet at the same barriers: on a device it would be a hang.
  bool is_done() const {
    const auto done = std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.done; });
    if (done == 0) return false;
    if (done == static_cast<std::ptrdiff_t>(lanes_.size())) return true;
    throw std::logic_error("some lanes of a team wait for others that have ended");
  }

  const Body& body_;
  std::vector<Lane> lanes_;
  ucontext_t home_{};
  int running_ = 0;
};

void wait_for_lanes(LaneGroup& group) {
  group.wait();
}

void run_lanes(const std::function<void(LaneGroup& group, int i)>& lane) {
  LaneGroup(lane_count, lane).run();
}

#endif

int emulated_lanes() {
  return lane_count;
}

/// Filled with a pattern: a kernel that reads what nothing has written gives nonsense.
Scratch::Scratch(std::size_t bytes) : data_(std::malloc(bytes + 1)), bytes_(bytes) {
  std::memset(data_, 0xa5, bytes_);
}
Scratch::~Scratch() {
  std::free(data_);
}

std::int64_t most_shared_bytes() {
  return shared_limit;
}

DeviceFlag device_assert_flag() {
  return {&flag};
}

gpu::Cudnn* simulated_cudnn() {
  return cudnn;
}

}  // namespace core::emulated_kernels

namespace test {

Lanes::Lanes(int count) {
  const int usual = core::emulated_kernels::usual_lanes();
  core::emulated_kernels::lane_count = count == 1 || usual == 1 ? count : usual;
}
Lanes::~Lanes() {
  core::emulated_kernels::lane_count = core::emulated_kernels::usual_lanes();
}

SharedLimit::SharedLimit(std::int64_t bytes) {
  core::emulated_kernels::shared_limit = bytes;
}
SharedLimit::~SharedLimit() {
  core::emulated_kernels::shared_limit = core::emulated_kernels::kHopperShared;
}

void set_cudnn(core::gpu::Cudnn* cudnn) {
  core::emulated_kernels::cudnn = cudnn;
}

bool took_flag() {
  const bool raised = core::emulated_kernels::flag != 0;
  core::emulated_kernels::flag = 0;
  return raised;
}

}  // namespace test
