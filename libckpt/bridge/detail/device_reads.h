#pragma once
// DeviceReads: bytes of a file on their way into tensors. What is to be read is collected first; run() then reads (and
// unpacks) it by several threads: straight into memory of the host, or, for devices whose memory the host cannot touch,
// into a ring of pinned buffers, from which a stream of its own copies it, so that the file and the bus are busy at the
// same time. Small tensors share a buffer, and one copy where they are neighbours on the device. Thread safety: one
// thread an object. Use: ckpt::DeviceReads reads; reads.add({source, &device, to, bytes}); reads.run();

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libckpt/io/byte_source.h"
#include "libcore/backend/backend.h"

namespace ckpt {

/// The pinned buffers through which a file goes to a device: at most slot_bytes * slots of pinned memory, which the
/// process keeps for the next load until core::cuda::empty_cache().
struct DeviceRing {
  std::uint64_t slot_bytes = 4ULL << 20;  ///< of one buffer; from 4 KiB to 1 GiB
  unsigned slots = 0;                     ///< 0: four more than threads that read
};

/// Changes bytes in place before they are copied. `offset` is where in the tensor they begin, a multiple of 512.
using FixBytes = void (*)(const void* context, MutableBytes bytes);

struct DeviceRead {
  SourcePtr source;  ///< read from its begin
  core::Backend* device = nullptr;
  void* to = nullptr;
  std::uint64_t bytes = 0;
  std::string key;  ///< in messages; may be empty
  FixBytes fix = nullptr;
  const void* context = nullptr;  ///< of `fix`; outlives run()
};

class DeviceReads {
 public:
  /// `threads` read; 0: all cores.
  explicit DeviceReads(const DeviceRing& ring = {}, unsigned threads = 0) : ring_(ring), threads_(threads) {}

  void add(DeviceRead read);
  /// Reads all that was added. When it returns, every byte has been read from its source, and what the current streams
  /// of the devices are given from now on comes after the copies; the host does not wait for these. Errors: those of
  /// ByteSource::read with the key as context (of several, the first in order), of copies, and of pinning memory; then
  /// an unknown part was written.
  void run();

 private:
  void run_on(core::Backend& device, const std::vector<DeviceRead>& reads) const;
  void run_on_host(const std::vector<DeviceRead>& reads) const;

  DeviceRing ring_;
  unsigned threads_;
  std::map<int, std::vector<DeviceRead>> reads_;  // by the device's index
  std::vector<DeviceRead> host_;                  // into memory that the host can write
};

}  // namespace ckpt
