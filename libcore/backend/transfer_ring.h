#pragma once
// TransferRing: bytes between the host and a device whose memory the host cannot touch, through a few pinned buffers,
// the slots, on a stream of its own: while one slot is copied, others are filled or emptied. A slot holds whatever the
// caller puts into it: a piece of something large, or many small things that travel in one copy.
// Thread safety: slot() from any thread, one thread a slot at a time; the rest from the thread that made it.
// Use: core::TransferRing ring(backend); read_piece(0, ring.slot(0)); ring.send(0, parts); read_piece(1, ring.slot(1));
// ring.send(1, parts); ring.finish();

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "libcore/backend/backend.h"
#include "libcore/backend/streams.h"

namespace core {

struct TransferRingOptions {
  std::size_t slot_bytes = std::size_t{4} << 20;
  std::size_t slots = 4;
  /// What is copied is there after this event. Without one: after all that the making thread's current stream was given
  /// so far, and that stream waits in finish().
  std::optional<cuda::Event> after = {};
};

class TransferRing {
 public:
  /// REQUIRES: `device` is no host memory and has memory. No slot is taken before it is asked for.
  explicit TransferRing(Backend& device, TransferRingOptions options = {});
  /// As finish(), but without errors.
  ~TransferRing();
  TransferRing(const TransferRing&) = delete;
  TransferRing& operator=(const TransferRing&) = delete;

  std::size_t slots() const { return slots_.size(); }
  std::size_t slot_bytes() const { return options_.slot_bytes; }

  /// The slot's memory, once the copies it was last used for are done: it may be written, and read after receive().
  /// Errors: no memory to pin; those of the copies.
  std::byte* slot(std::size_t index);

  struct Part {
    void* device;       ///< address there
    std::size_t at;     ///< and in the slot
    std::size_t bytes;  ///< any number
  };
  /// Starts copying from a slot to the device.
  void send(std::size_t index, std::span<const Part> parts);
  /// Starts copying from the device to a slot.
  void receive(std::size_t index, std::span<const Part> parts);
  /// What the making thread's stream is given from now on comes after all copies. The host does not wait.
  void finish();

 private:
  struct Slot {
    std::byte* data = nullptr;
    cuda::Event done;
  };

  Backend& device_;
  TransferRingOptions options_;
  cuda::Stream side_;
  cuda::Stream caller_;
  std::vector<Slot> slots_;
};

/// Copies from a device to ordinary host memory, where the driver's own way would stage every byte with the host
/// waiting. Returns when the bytes are there. `after` as in TransferRingOptions. Any thread.
void copy_to_host_staged(Backend& device, void* to, const void* from, std::size_t bytes,
                         std::optional<cuda::Event> after = {});

}  // namespace core
