#include "tests/libcore/backend/nccl_fake.h"

#include <cstdlib>
#include <cstring>

namespace test {
namespace {

FakeNccl* fake = nullptr;

/// A communicator is the number of its GPU, plus one.
void* communicator_of(int gpu) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(gpu) + 1);
}
int gpu_of(void* communicator) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(communicator) - 1);
}

}  // namespace

struct FakeNcclCalls {
  static core::gpu::NcclApi api() {
    core::gpu::NcclApi api{};
    api.version = [](int* version) { return (*version = 22809, 0); };
    api.init_all = [](void** communicators, int count, const int* gpus) {
      ++fake->made;
      if (fake->failure != 0) return fake->failure;
      for (int i = 0; i < count; ++i) communicators[i] = communicator_of(gpus[i]);
      fake->communicators += count;
      return 0;
    };
    api.destroy = [](void*) { return (--fake->communicators, 0); };
    api.group_start = [] { return 0; };
    api.group_end = [] { return (fake->run_group(), fake->failure); };
    api.broadcast = [](const void* in, void* out, std::size_t count, int type, int root, void* communicator,
                       void* stream) {
      fake->group_.push_back({in, out, count, type, root, gpu_of(communicator), stream, false});
      return 0;
    };
    api.reduce = [](const void* in, void* out, std::size_t count, int type, int, int root, void* communicator,
                    void* stream) {
      fake->group_.push_back({in, out, count, type, root, gpu_of(communicator), stream, true});
      return 0;
    };
    api.error_text = [](int) { return "unhandled cuda error"; };
    return api;
  }
};

FakeNccl::FakeNccl(FakeDriver& driver) : driver_(driver), nccl_(FakeNcclCalls::api()) {
  fake = this;
}

FakeNccl::~FakeNccl() {
  for (void* event : events_) driver_.api().event_destroy(event);
}

/// Every stream comes after all: the first rank's computes, the rest wait for it.
void FakeNccl::run_group() {
  const std::vector<Part> parts = std::exchange(group_, {});
  if (failure != 0) return;
  ++(parts[0].is_sum ? sums : broadcasts);
  const core::gpu::CudaApi& api = driver_.api();
  const auto mark = [&](const Part& part) {
    void* event = nullptr;
    api.set_device(part.gpu);
    api.event_create(&event, false);
    api.event_record(event, part.stream);
    events_.push_back(event);
    return event;
  };
  const auto wait = [&](const Part& part, void* event) {
    api.set_device(part.gpu);
    api.stream_wait_event(part.stream, event);
  };
  for (std::size_t i = 1; i < parts.size(); ++i) wait(parts[0], mark(parts[i]));
  api.set_device(parts[0].gpu);
  driver_.launch(parts[0].stream, [parts] { compute(parts); });
  void* done = mark(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) wait(parts[i], done);
  api.set_device(parts[0].gpu);  // where the caller was
}

void FakeNccl::compute(const std::vector<Part>& parts) {
  const Part& root = parts[static_cast<std::size_t>(parts[0].root)];
  if (!root.is_sum) {
    for (const Part& part : parts) std::memmove(part.out, root.in, root.count);
    return;
  }
  constexpr int kFloat = 7;
  if (root.type != kFloat) std::abort();
  std::vector<float> sum(root.count);
  for (const Part& part : parts) {
    for (std::size_t i = 0; i < root.count; ++i) sum[i] += static_cast<const float*>(part.in)[i];
  }
  std::memcpy(root.out, sum.data(), root.count * sizeof(float));
}

}  // namespace test
