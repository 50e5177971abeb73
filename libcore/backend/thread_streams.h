#pragma once
// The streams that are current on a thread, one for each device: 0 is the default stream, else the stream's id (of a
// GPU its handle). Workers take them over from the thread that gives them work. Thread safety: each thread has its own.
// Use: thread_streams()[device.index()]

#include <array>
#include <cstdint>

namespace core {

using ThreadStreams = std::array<std::uint64_t, 128>;
ThreadStreams& thread_streams();

}  // namespace core
