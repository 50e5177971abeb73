// Copies between devices: from one to the other where the driver can, else through pinned host memory.
#include <algorithm>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/cuda/cuda_event.h"

namespace core {
namespace gpu {

void make_wait(const CudaBackend& waiting, StreamHandle waiting_stream, const CudaBackend& first, StreamHandle stream) {
  const CudaBackend::Current there(first);
  ScopedEvent event(first);
  event.record(stream);
  const CudaBackend::Current here(waiting);
  waiting.check(waiting.api().stream_wait_event(waiting_stream, event.handle()));
}

}  // namespace gpu

bool CudaBackend::can_access(const Backend& other) const {
  const auto* peer = dynamic_cast<const CudaBackend*>(&other);
  if (peer == nullptr || &peer->api_ != &api_) return false;
  if (peer->gpu_ == gpu_) return true;
  std::lock_guard lock(mutex_);
  const auto known = peers_.find(peer->gpu_);
  if (known != peers_.end()) return known->second;
  int can = 0;
  check(api_.can_access_peer(&can, gpu_, peer->gpu_));
  if (can != 0) {
    const Current here(*this);
    const gpu::RelaxedCapture relaxed(api_);
    const int error = api_.enable_peer_access(peer->gpu_);
    if (error != gpu::kSuccess) api_.last_error();
    can = error == gpu::kSuccess || error == gpu::kPeerAccessAlreadyEnabled;
  }
  return peers_[peer->gpu_] = can != 0;
}

bool CudaBackend::copy_from_peer(void* to, Backend& peer, const void* from, std::size_t bytes) {
  auto* source = dynamic_cast<CudaBackend*>(&peer);
  if (source == nullptr || &source->api_ != &api_) return false;
  check_alive();
  source->check_alive();
  if (bytes == 0) return true;
  if (!copy_direct(to, *source, from, bytes)) copy_staged(to, *source, from, bytes);
  return true;
}

/// On the source's stream, which computed the data and may reuse their memory afterwards. False without a direct way:
/// the driver's own way by the host would hold up both devices.
bool CudaBackend::copy_direct(void* to, CudaBackend& source, const void* from, std::size_t bytes) {
  if (!source.can_access(*this)) return false;
  const gpu::StreamHandle here = current_stream(), there = source.current_stream();
  gpu::make_wait(source, there, *this, here);
  int error = gpu::kSuccess;
  {
    const Current at_source(source);
    error = source.gpu_ == gpu_ ? api_.copy(to, from, bytes, there)
                                : api_.copy_peer(to, gpu_, from, source.gpu_, bytes, there);
  }
  if (gpu::is_sticky(error)) source.check(error);
  if (error != gpu::kSuccess) {
    api_.last_error();
    return false;
  }
  gpu::make_wait(*this, here, source, there);
  return true;
}

namespace {

/// A pinned block, and when the target has taken what lies in it.
class Staging {
 public:
  Staging(CudaBackend& target, std::size_t bytes)
      : target_(target), bytes_(bytes), data_(target.allocate_pinned(bytes)), taken_(target) {}
  ~Staging() { target_.free_pinned(data_, bytes_); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void copy(void* to, CudaBackend& source, const void* from, std::size_t bytes) {
    const gpu::CudaApi& api = target_.api();
    const gpu::StreamHandle here = target_.current_stream(), there = source.current_stream();
    {
      const CudaBackend::Current at_source(source);
      if (is_used_) source.check(api.stream_wait_event(there, taken_.handle()));
      source.check(api.copy(data_, from, bytes, there));
    }
    gpu::make_wait(target_, here, source, there);
    target_.copy_from_host_async(to, data_, bytes);
    taken_.record(here);
    is_used_ = true;
  }

 private:
  CudaBackend& target_;
  std::size_t bytes_;
  void* data_;
  gpu::ScopedEvent taken_;
  bool is_used_ = false;
};

}  // namespace

/// In parts, so that one travels to the host while the one before travels on.
void CudaBackend::copy_staged(void* to, CudaBackend& source, const void* from, std::size_t bytes) {
  constexpr std::size_t kPart = std::size_t{4} << 20;
  const std::size_t part = std::min(bytes, kPart);
  const Current here(*this);
  Staging even(*this, part), odd(*this, part);
  for (std::size_t at = 0, i = 0; at < bytes; at += part, ++i) {
    (i % 2 == 0 ? even : odd)
        .copy(static_cast<char*>(to) + at, source, static_cast<const char*>(from) + at, std::min(part, bytes - at));
  }
}

}  // namespace core
