#include "libcore/tensor/lazy_copy.h"

#include <memory>
#include <mutex>
#include <utility>

#include "libcore/base/error.h"
#include "libcore/tensor/lazy_bytes.h"

namespace core::detail {
namespace {

class LazyCopy final : public LazyBytes {
 public:
  LazyCopy(Storage bytes, cuda::Event copied, cuda::Stream home)
      : bytes_(std::move(bytes)), copied_(std::move(copied)), home_(home) {}

  ~LazyCopy() override {
    try {
      wait();
    } catch (const Error&) {
      // The device is dead: nothing is copied any more.
    }
  }

  void* settle() override {
    wait();
    return bytes_.data();
  }

 private:
  void wait() {
    const std::lock_guard lock(mutex_);
    if (is_there_) return;
    home_.wait_event(copied_);
    const cuda::Stream current = cuda::current_stream(home_.device());
    if (current != home_) current.wait_event(copied_);
    copied_ = cuda::Event();
    is_there_ = true;
  }

  Storage bytes_;
  cuda::Event copied_;
  cuda::Stream home_;
  std::mutex mutex_;
  bool is_there_ = false;
};

}  // namespace

Storage lazy_copy(Storage bytes, cuda::Event copied, cuda::Stream home) {
  const std::size_t count = bytes.nbytes();
  Backend& backend = bytes->backend();
  return Storage::lazy(std::make_unique<LazyCopy>(std::move(bytes), std::move(copied), home), count, backend);
}

}  // namespace core::detail
