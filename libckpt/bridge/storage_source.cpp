#include "libckpt/bridge/detail/storage_source.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "libckpt/bridge/detail/frozen_memory.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/backend/backend.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/shared_block.h"
#include "libcore/backend/threads.h"
#include "libcore/backend/transfer_ring.h"
#include "libcore/base/error.h"
#include "libcore/base/stream_copy.h"
#include "libcore/base/text.h"
#include "libcore/optim/detail/step_copies.h"
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

constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct Mapped {
  void* data;
  std::size_t bytes;
  static void release(void* self) {
    const std::unique_ptr<Mapped> mapped(static_cast<Mapped*>(self));
    ::munmap(mapped->data, mapped->bytes);
  }
};

/// Memory from the system itself, which gets it back at once, from the begin of a huge page on. It is asked for no huge
/// pages: a guest may have given the free ones back to its host, and then they take several times as long as small
/// ones. Children do without it: else filling it copied each page once more while there is one.
core::Storage mapped_block(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  void* data = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw core::Error(core::ErrorCode::device, "cpu: out of memory: tried to allocate " + core::format_size(bytes) +
                                                   " for the copy of what is saved in the background");
  }
  ::madvise(data, mapped, MADV_DONTFORK);  // a wish
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(data) % kHugePage) % kHugePage;
  return core::Storage::borrow(static_cast<std::byte*>(data) + before, bytes, core::Device(), Mapped::release,
                               new Mapped{data, mapped});
}

/// Asks the system for the pages of a piece of new memory at once, where it gives one at each first write else.
void ask_for_pages(std::byte* data, std::size_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
  constexpr int kPopulate = 23;  // Linux 5.14 and later
#endif
  constexpr std::size_t kPage = 4096;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(data) % kPage;
  ::madvise(data - before, before + bytes, kPopulate);  // a wish
}

/// Puts huge pages in the place of small ones, if the system has any. A wish.
void join_pages(std::byte* data, std::size_t bytes) {
#if defined(MADV_COLLAPSE)
  constexpr int kCollapse = MADV_COLLAPSE;
#else
  constexpr int kCollapse = 25;  // Linux 6.1 and later
#endif
  ::madvise(data, bytes, kCollapse);
}

}  // namespace

/// A part of the memory of a snapshot, which it gets when all of them are known.
class HostCopy final : public ByteSource {
 public:
  explicit HostCopy(std::size_t bytes) : size_(bytes) {}
  void place(core::Storage block, std::size_t at) {
    data_ = static_cast<std::byte*>(block.data()) + at;
    block_ = std::move(block);
  }
  bool is_placed() const { return data_ != nullptr; }
  MutableBytes bytes() { return {data_, size_}; }

  std::uint64_t size() const override { return size_; }
  Bytes memory() const override { return {data_, size_}; }
  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(size_, offset, out.size());
    if (!out.empty()) std::memcpy(out.data(), data_ + offset, out.size());
  }
  void require_unchanged() const override {}

 private:
  std::size_t size_;
  std::byte* data_ = nullptr;
  core::Storage block_;
};

SourcePtr live_source(core::Storage storage) {
  if (is_opaque(storage->backend())) return std::make_shared<DeviceMemory>(std::move(storage));
  return std::make_shared<HostMemory>(std::move(storage));
}

core::Storage SnapshotMemory::take(std::size_t bytes) {
  if (has(bytes)) return block_;
  block_ = core::Storage();  // before there is another
  block_ = mapped_block(bytes);
  joined_ = 0;
  return block_;
}

void SnapshotMemory::prepare(std::size_t bytes) {
  if (bytes == 0) return;
  const core::Storage block = take(bytes);
  auto* data = static_cast<std::byte*>(block.data());
  if (::madvise(data, block.nbytes(), MADV_POPULATE_WRITE) == 0) return;
  constexpr std::size_t kPage = 4096;  // older systems have no such wish
  for (std::size_t at = 0; at < block.nbytes(); at += kPage) data[at] = std::byte{};
}

void SnapshotMemory::rest() const {
  if (block_.defined()) ::madvise(block_.data(), block_.nbytes(), MADV_FREE);  // a wish
}

void SnapshotMemory::join_pages(const std::atomic<bool>& hurry) {
  constexpr std::size_t kPiece = 8 * kHugePage;
  auto* data = static_cast<std::byte*>(block_.defined() ? block_.data() : nullptr);
  for (; data != nullptr && joined_ < block_.nbytes() && !hurry.load(); joined_ += kPiece) {
    ckpt::join_pages(data + joined_, std::min(kPiece, block_.nbytes() - joined_));
  }
}

Snapshot::Snapshot(SnapshotPlace place, std::shared_ptr<SnapshotMemory> memory)
    : place_(place), memory_(std::move(memory)) {}
Snapshot::~Snapshot() = default;

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
  if (place_ == SnapshotPlace::nowhere) {
    if (!is_opaque(backend)) counted_ += core::SharedBlock::rounded(storage.nbytes());
    return live_source(storage);
  }
  if (!is_opaque(backend)) {
    auto copy = std::make_shared<HostCopy>(storage.nbytes());
    copies_.emplace_back(copy, static_cast<const std::byte*>(storage.data()));
    return copy;
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

/// All at once, in pieces of which each thread takes the next: one that is held up holds up none of the others. Of new
/// memory the pages of a piece are asked for before it, and lie in the caches then, which no copy past them uses.
void Snapshot::copy_on_host(const std::vector<Copy>& copies, const FrozenMemory* frozen) const {
  const std::size_t largest = std::size_t{memory_is_new_ ? 1U : 4U} << 20;
  std::vector<Copy> pieces;
  for (const Copy& copy : copies) {
    for (std::size_t at = 0; at < copy.bytes; at += largest) {
      pieces.push_back({copy.to + at, copy.from + at, std::min(largest, copy.bytes - at)});
    }
  }
  const auto threads = static_cast<unsigned>(std::max(core::num_threads(), 1));
  parallel_for(pieces.size(), threads, [&](std::size_t i) {
    if (memory_is_new_) ask_for_pages(pieces[i].to, pieces[i].bytes);
    if (frozen != nullptr) {
      frozen->read(pieces[i].from, pieces[i].to, pieces[i].bytes);
      return;
    }
    if (memory_is_new_) {
      std::memcpy(pieces[i].to, pieces[i].from, pieces[i].bytes);
      return;
    }
    core::stream_copy(pieces[i].to, pieces[i].from, pieces[i].bytes);
    core::end_stream_copies();
  });
}

void Snapshot::finish_on_devices() {
  for (auto& [index, copied] : on_devices_) {
    copied->event.record(core::cuda::current_stream(core::Device(core::DeviceType::cuda, index)));
  }
}

std::size_t Snapshot::host_bytes() const {
  std::size_t total = counted_;
  for (const auto& [copy, from] : copies_) {
    if (!copy->is_placed()) total += core::SharedBlock::rounded(copy->size());
  }
  return total;
}

/// Gives memory to the copies that have none.
void Snapshot::place(const std::vector<Asked>& asked) {
  const std::size_t total = host_bytes();
  if (total == 0) return;
  const bool from_before = memory_ != nullptr && !std::exchange(memory_is_taken_, true);
  memory_is_new_ = memory_is_new_ || !from_before || !memory_->has(total);
  const core::Storage block = from_before ? memory_->take(total) : mapped_block(total);
  std::size_t at = 0;
  for (const auto& [copy, from] : asked) {
    if (copy->is_placed()) continue;
    copy->place(block, at);
    at += core::SharedBlock::rounded(copy->size());
  }
}

void Snapshot::copy_in_step(const std::vector<core::Tensor>& tensors, const std::function<void()>& step) {
  for (const Tensor& tensor : tensors) {
    if (!is_opaque(tensor.storage()->backend())) of(tensor.storage());
  }
  place(copies_);
  core::detail::StepCopies copies;
  for (const auto& [copy, from] : copies_) copies.add(from, copy->bytes().data(), copy->bytes().size());
  {
    const core::detail::StepCopies::Scope now(copies);
    step();
  }
  const auto is_made = [&](const Asked& asked) { return copies.made(asked.second); };
  std::ranges::copy_if(copies_, std::back_inserter(made_in_step_), is_made);
  std::erase_if(copies_, is_made);
}

std::vector<Snapshot::Copy> Snapshot::take_copies() {
  place(copies_);
  std::vector<Copy> copies;
  for (const auto& [copy, from] : std::exchange(copies_, {})) {
    copies.push_back({copy->bytes().data(), from, copy->bytes().size()});
  }
  return copies;
}

void Snapshot::freeze_on_host() {
  const bool freezes = FrozenMemory::is_sooner_than_copying(host_bytes());
  place(copies_);  // before there is a child, which is to have none of it
  if (freezes) frozen_ = FrozenMemory::make();
  const auto is_held = [&](const Asked& asked) {
    return frozen_ != nullptr && frozen_->holds(asked.second, asked.first->size());
  };
  std::vector<Asked> held;
  std::ranges::copy_if(copies_, std::back_inserter(held), is_held);
  std::erase_if(copies_, is_held);
  copy_on_host(take_copies());
  copies_ = std::move(held);
  seen_.clear();
  sources_.clear();
}

void Snapshot::finish_on_host() {
  copy_on_host(take_copies(), frozen_.get());
  frozen_ = nullptr;
  seen_.clear();
  sources_.clear();
}

}  // namespace ckpt
