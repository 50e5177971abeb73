#include "tests/libcore/backend/cuda/emulation.h"

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "libcore/backend/cuda/kernels/launch.h"

namespace core::emulated_kernels {
namespace {

int lane_count = 1;
int flag = 0;

}  // namespace

class LaneGroup {
 public:
  explicit LaneGroup(int lanes) : barrier(lanes) {}
  std::barrier<> barrier;
};

void wait_for_lanes(LaneGroup& group) {
  group.barrier.arrive_and_wait();
}

int emulated_lanes() {
  return lane_count;
}

void run_lanes(const std::function<void(LaneGroup& group, int i)>& lane) {
  LaneGroup group(lane_count);
  std::vector<std::jthread> threads;
  for (int i = 0; i < lane_count; ++i) threads.emplace_back([&, i] { lane(group, i); });
}

/// Filled with a pattern: a kernel that reads what nothing has written gives nonsense.
Scratch::Scratch(std::size_t bytes) : data_(std::malloc(bytes + 1)), bytes_(bytes) {
  std::memset(data_, 0xa5, bytes_);
}
Scratch::~Scratch() {
  std::free(data_);
}

DeviceFlag device_assert_flag() {
  return {&flag};
}

}  // namespace core::emulated_kernels

namespace test {

Lanes::Lanes(int count) {
  core::emulated_kernels::lane_count = count;
}
Lanes::~Lanes() {
  core::emulated_kernels::lane_count = 1;
}

bool took_flag() {
  const bool raised = core::emulated_kernels::flag != 0;
  core::emulated_kernels::flag = 0;
  return raised;
}

}  // namespace test
