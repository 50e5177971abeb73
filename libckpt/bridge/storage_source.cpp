#include "libckpt/bridge/detail/storage_source.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "libckpt/io/parallel_io.h"
#include "libcore/backend/backend.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/threads.h"
#include "libcore/backend/transfer_ring.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"

namespace ckpt {
namespace {

using core::Tensor;

void require_inside(std::uint64_t size, std::uint64_t offset, std::size_t length) {
  if (offset <= size && length <= size - offset) return;
  throw core::Error(core::ErrorCode::internal, "read past the end of a tensor's memory");
}

/// Memory that the host can read, and nothing copies to any more.
class HostMemory final : public ByteSource {
 public:
  explicit HostMemory(core::Storage storage) : storage_(std::move(storage)) {}
  std::uint64_t size() const override { return storage_.nbytes(); }
  Bytes memory() const override { return {static_cast<const std::byte*>(storage_.data()), storage_.nbytes()}; }
  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(size(), offset, out.size());
    if (!out.empty()) storage_->backend().copy_to_host(out.data(), memory().data() + offset, out.size());
  }
  void require_unchanged() const override {}

 private:
  core::Storage storage_;
};

/// Memory of a device that the host cannot touch: after an event, or else after what a stream was given.
class DeviceMemory final : public ByteSource {
 public:
  explicit DeviceMemory(core::Storage storage, std::shared_ptr<const Snapshot::Copied> copied = nullptr)
      : storage_(std::move(storage)),
        stream_(core::cuda::current_stream(storage_.device())),
        copied_(std::move(copied)) {}
  std::uint64_t size() const override { return storage_.nbytes(); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(size(), offset, out.size());
    if (out.empty()) return;
    const core::cuda::StreamGuard guard(stream_);
    std::optional<core::cuda::Event> after;
    if (copied_ != nullptr) after = copied_->event;
    core::copy_to_host_staged(storage_->backend(), out.data(), static_cast<const std::byte*>(storage_.data()) + offset,
                              out.size(), std::move(after));
  }
  void require_unchanged() const override {}

 private:
  core::Storage storage_;
  core::cuda::Stream stream_;
  std::shared_ptr<const Snapshot::Copied> copied_;
};

/// Pinned host memory that a device copies to.
class PinnedMemory final : public ByteSource {
 public:
  PinnedMemory(Tensor pinned, std::shared_ptr<const Snapshot::Copied> copied)
      : pinned_(std::move(pinned)), copied_(std::move(copied)) {}
  std::uint64_t size() const override { return pinned_.storage().nbytes(); }
  Bytes memory() const override {
    copied_->event.synchronize();
    return {static_cast<const std::byte*>(pinned_.raw_data()), pinned_.storage().nbytes()};
  }
  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(size(), offset, out.size());
    if (!out.empty()) std::memcpy(out.data(), memory().data() + offset, out.size());
  }
  void require_unchanged() const override {}

 private:
  Tensor pinned_;
  std::shared_ptr<const Snapshot::Copied> copied_;
};

bool is_opaque(const core::Backend& backend) {
  return !backend.is_host_memory();
}

}  // namespace

SourcePtr live_source(core::Storage storage) {
  if (is_opaque(storage->backend())) return std::make_shared<DeviceMemory>(std::move(storage));
  return std::make_shared<HostMemory>(std::move(storage));
}

void SnapshotMemory::begin() {
  for (core::Storage& storage : std::exchange(taken_, {})) {
    const std::size_t bytes = storage.nbytes();
    free_.emplace(bytes, std::move(storage));
  }
}

core::Storage SnapshotMemory::take(std::size_t bytes, core::Backend& backend) {
  auto found = free_.find(bytes);
  core::Storage storage = found != free_.end() ? found->second : core::Storage::allocate(bytes, backend);
  if (found != free_.end()) free_.erase(found);
  taken_.push_back(storage);
  return storage;
}

SourcePtr Snapshot::of(const core::Storage& storage) {
  SourcePtr& source = sources_[storage.id()];
  if (!source) {
    source = copy_of(storage);
    seen_.push_back(storage);
  }
  return source;
}

SourcePtr Snapshot::copy_of(const core::Storage& storage) {
  core::Backend& backend = storage->backend();
  if (storage.nbytes() == 0) return memory_source({});
  if (!is_opaque(backend)) {
    core::Storage copy = memory_ != nullptr ? memory_->take(storage.nbytes(), backend)
                                            : core::Storage::allocate(storage.nbytes(), backend);
    copies_.push_back(
        {static_cast<std::byte*>(copy.data()), static_cast<const std::byte*>(storage.data()), storage.nbytes()});
    return std::make_shared<HostMemory>(std::move(copy));
  }
  std::shared_ptr<Copied>& copied = on_devices_[backend.device().index()];
  if (copied == nullptr) copied = std::make_shared<Copied>();
  if (place_ == SnapshotPlace::host) return on_host(storage, copied);
  try {
    core::Storage copy = core::Storage::allocate(storage.nbytes(), backend);
    backend.copy_within(copy.data(), storage.data(), storage.nbytes());
    return std::make_shared<DeviceMemory>(std::move(copy), copied);
  } catch (const core::OutOfMemoryError&) {
    if (place_ == SnapshotPlace::device) throw;
    return on_host(storage, copied);
  }
}

SourcePtr Snapshot::on_host(const core::Storage& storage, std::shared_ptr<const Copied> copied) {
  core::Backend& backend = storage->backend();
  Tensor pinned = core::empty_pinned({static_cast<std::int64_t>(storage.nbytes())}, core::DType::u8, backend);
  backend.copy_to_host_async(pinned.mutable_raw_data(), storage.data(), storage.nbytes());
  return std::make_shared<PinnedMemory>(std::move(pinned), std::move(copied));
}

/// All at once, in pieces of which each thread takes the next: one that is held up holds up none of the others.
void Snapshot::copy_on_host() {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  std::vector<Copy> pieces;
  for (const Copy& copy : std::exchange(copies_, {})) {
    for (std::size_t at = 0; at < copy.bytes; at += kPiece) {
      pieces.push_back({copy.to + at, copy.from + at, std::min(kPiece, copy.bytes - at)});
    }
  }
  const auto threads = static_cast<unsigned>(std::max(core::num_threads(), 1));
  parallel_for(pieces.size(), threads,
               [&](std::size_t i) { std::memcpy(pieces[i].to, pieces[i].from, pieces[i].bytes); });
}

void Snapshot::finish() {
  if (memory_ != nullptr) memory_->finish();
  copy_on_host();
  for (auto& [index, copied] : on_devices_) {
    copied->event.record(core::cuda::current_stream(core::Device(core::DeviceType::cuda, index)));
  }
  seen_.clear();
  sources_.clear();
}

}  // namespace ckpt
