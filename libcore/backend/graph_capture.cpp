#include "libcore/backend/graph_capture.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "libcore/backend/thread_streams.h"
#include "libcore/base/error.h"

namespace core {
namespace {

/// What is being captured, by device.
std::array<std::atomic<GraphCapture*>, std::tuple_size_v<ThreadStreams>> under_way;

std::atomic<int> captures{0};

/// Held to look at what another thread captures, and to end a capture.
std::shared_mutex& end_mutex() {
  static auto* const mutex = new std::shared_mutex;
  return *mutex;
}

std::size_t place_of(Device device) {
  return static_cast<std::size_t>(device.index());
}

}  // namespace

GraphCapture* GraphCapture::of(Device device) {
  const auto& slot = under_way[place_of(device)];
  if (slot.load(std::memory_order_acquire) == nullptr) return nullptr;
  const std::uint64_t stream = thread_streams()[place_of(device)];
  const std::shared_lock lock(end_mutex());
  GraphCapture* capture = slot.load(std::memory_order_acquire);
  if (capture == nullptr) return nullptr;
  return stream == capture->stream_ || (stream != 0 && capture->has_joined(stream)) ? capture : nullptr;
}

bool GraphCapture::on(Device device) {
  return under_way[place_of(device)].load(std::memory_order_acquire) != nullptr;
}

bool GraphCapture::any() {
  return captures.load(std::memory_order_relaxed) != 0;
}

/// Who asks any() and is told no may still be at work when the capture begins: it is raised first.
void GraphCapture::begin() {
  auto& slot = under_way[place_of(backend_.device())];
  GraphCapture* none = nullptr;
  if (!slot.compare_exchange_strong(none, this)) {
    throw Error(ErrorCode::runtime, backend_.device().str() + ": a graph is being captured already");
  }
  ++captures;
  try {
    begin_recording();
  } catch (...) {
    leave();
    throw;
  }
}

void GraphCapture::end(bool keeps) {
  try {
    end_recording(keeps);
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

void GraphCapture::leave() {
  const std::lock_guard lock(end_mutex());
  under_way[place_of(backend_.device())] = nullptr;
  --captures;
}

void GraphCapture::replay() {
  random.refresh();
  for (const auto& [what, work] : before_replay_) work();
  launch();
}

void GraphCapture::before_replay(const void* what, std::function<void()> work) {
  const auto is_known = [&](const auto& known) { return known.first == what; };
  if (std::any_of(before_replay_.begin(), before_replay_.end(), is_known)) return;
  before_replay_.emplace_back(what, std::move(work));
}

GraphRandom* capturing_random(Device device) {
  GraphCapture* capture = GraphCapture::any() && device.is_cuda() ? GraphCapture::of(device) : nullptr;
  return capture != nullptr ? &capture->random : nullptr;
}

void check_copy_in_capture(Device device) {
  if (GraphCapture::of(device) == nullptr) return;
  throw Error(ErrorCode::runtime,
              "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
              "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.");
}

void check_wait_in_capture(Device device) {
  if (GraphCapture::on(device)) throw_capture_error(CaptureError::unsupported);
}

namespace {

struct ErrorText {
  const char *name, *text;
};

ErrorText text_of(CaptureError error) {
  switch (error) {
    case CaptureError::unsupported:
      return {"cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"};
    case CaptureError::invalidated:
      return {"cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"};
    case CaptureError::merge:
      return {"cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"};
    case CaptureError::unjoined:
      return {"cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"};
    case CaptureError::isolation:
      return {"cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"};
    case CaptureError::captured_event:
      break;
  }
  return {"cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"};
}

}  // namespace

void throw_capture_error(CaptureError error) {
  const ErrorText said = text_of(error);
  throw Error(ErrorCode::device,
              std::string("CUDA error: ") + said.text + "\nSearch for `" + said.name +
                  "' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.");
}

}  // namespace core
