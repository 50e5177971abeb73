#include "libcore/backend/transfer_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libcore/base/error.h"

namespace core {

TransferRing::TransferRing(Backend& device, TransferRingOptions options)
    : device_(device),
      options_(std::move(options)),
      side_(device.device()),
      caller_(cuda::current_stream(device.device())),
      slots_(std::max<std::size_t>(options_.slots, 1)) {
  if (options_.after) {
    side_.wait_event(*options_.after);
  } else {
    side_.wait_stream(caller_);  // memory that was given out again may still be read there
  }
}

TransferRing::~TransferRing() {
  try {
    finish();
  } catch (const Error&) {
    // The device is dead: whoever uses it next is told.
  }
  // Pinned memory that is still copied from is not given out again before that is done.
  for (const Slot& slot : slots_) {
    if (slot.data != nullptr) device_.free_pinned(slot.data, options_.slot_bytes);
  }
}

std::byte* TransferRing::slot(std::size_t index) {
  Slot& slot = slots_[index];
  slot.done.synchronize();
  if (slot.data == nullptr) slot.data = static_cast<std::byte*>(device_.allocate_pinned(options_.slot_bytes));
  return slot.data;
}

void TransferRing::send(std::size_t index, std::span<const Part> parts) {
  Slot& slot = slots_[index];
  const cuda::StreamGuard guard(side_);
  for (const Part& part : parts) device_.copy_from_host_async(part.device, slot.data + part.at, part.bytes);
  slot.done.record(side_);
}

void TransferRing::receive(std::size_t index, std::span<const Part> parts) {
  std::byte* data = this->slot(index);
  const cuda::StreamGuard guard(side_);
  for (const Part& part : parts) device_.copy_to_host_async(data + part.at, part.device, part.bytes);
  slots_[index].done.record(side_);
}

void TransferRing::finish() {
  if (!options_.after) caller_.wait_stream(side_);
}

void copy_to_host_staged(Backend& device, void* to, const void* from, std::size_t bytes,
                         std::optional<cuda::Event> after) {
  if (bytes == 0) return;
  constexpr std::size_t kPart = std::size_t{1} << 20;
  const std::size_t part = std::min(bytes, kPart);
  TransferRing ring(device, {.slot_bytes = part, .slots = bytes > part ? 2U : 1U, .after = std::move(after)});
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t parts = (bytes + part - 1) / part;
  const auto start = [&](std::size_t i) {
    const std::size_t size = std::min(part, bytes - i * part);
    const TransferRing::Part one[] = {{const_cast<std::byte*>(source) + i * part, 0, size}};
    ring.receive(i % ring.slots(), one);
  };
  start(0);
  for (std::size_t i = 0; i < parts; ++i) {
    if (i + 1 < parts) start(i + 1);
    std::memcpy(target + i * part, ring.slot(i % ring.slots()), std::min(part, bytes - i * part));
  }
}

}  // namespace core
