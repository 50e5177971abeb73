#pragma once
// Streams by their ids, for what keeps ids (nodes of autograd), and the stream that copies between devices are made on
// beside the work of others. Thread safety: all functions. Use: stream_of(node.device(), node.stream())

#include <cstdint>
#include <vector>

#include "libcore/backend/streams.h"

namespace core {

/// 0: the default stream.
cuda::Stream stream_of(Device device, std::uint64_t id);
/// One a device, as long as the device lives.
cuda::Stream copy_stream(Device device);

/// Makes streams current on their devices for a scope; the current device stays.
class CurrentStreams {
 public:
  explicit CurrentStreams(const std::vector<cuda::Stream>& streams);
  ~CurrentStreams();
  CurrentStreams(const CurrentStreams&) = delete;
  CurrentStreams& operator=(const CurrentStreams&) = delete;

 private:
  std::vector<cuda::Stream> before_;
};

}  // namespace core
