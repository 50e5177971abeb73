#include "libcore/tensor/arriving.h"

#include <mutex>
#include <utility>

#include "libcore/base/error.h"

namespace core::detail {
namespace {

struct Arriving {
  Storage bytes;
  cuda::Event event;
  cuda::Stream home;
  std::mutex mutex;
  bool is_there = false;

  void wait() {
    const std::lock_guard lock(mutex);
    if (is_there) return;
    home.wait_event(event);
    const cuda::Stream current = cuda::current_stream(home.device());
    if (current != home) current.wait_event(event);
    event = cuda::Event();
    is_there = true;
  }
};

}  // namespace

Storage arriving(Storage bytes, cuda::Event event, cuda::Stream home) {
  const std::size_t count = bytes.nbytes();
  Backend& backend = bytes->backend();
  auto* context = new Arriving{std::move(bytes), std::move(event), home, {}};
  return Storage::borrow(nullptr, count, backend, release_arriving, context);
}

void release_arriving(void* context) {
  auto* all = static_cast<Arriving*>(context);
  try {
    all->wait();
  } catch (const Error&) {
    // The device is dead: nothing is copied any more.
  }
  delete all;
}

void* settle_arriving(void* context) {
  auto* all = static_cast<Arriving*>(context);
  all->wait();
  return all->bytes.data();
}

}  // namespace core::detail
