#pragma once
// A recording as the text of a trace. Thread safety: pure function. Internal to the profiler.
// Use: const std::string json = core::profiler::chrome_trace(recording, {}, "trace.json");

#include <string>

#include "libcore/tensor/profile_events.h"

namespace core::profiler {

/// The fields are those of PyTorch's traces.
std::string chrome_trace(const detail::Recording& recording, const detail::RecordOptions& options,
                         const std::string& path);

/// Of each event the forward operation that recorded its node (its place in the list), or kNone.
std::vector<std::int64_t> forward_of_backward(const std::vector<detail::RecordedEvent>& events);

}  // namespace core::profiler
