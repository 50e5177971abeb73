#pragma once
// What op_scope.h records: events of all threads between start_recording() and stop_recording(). Thread safety:
// one thread starts and stops; others may go on recording meanwhile, and what is still open then ends there. Internal
// to the profiler. Use: core::detail::start_recording({}); y = x + 1; const auto recorded =
// core::detail::stop_recording();

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/op_scope.h"

namespace core::detail {

struct RecordOptions {
  bool shapes = false;
  bool memory = false;
};

inline constexpr std::int64_t kNone = -1;

struct RecordedEvent {
  std::string name;
  EventKind kind = EventKind::op;
  std::int64_t thread = 0;    ///< the system's number
  std::int64_t start_ns = 0;  ///< of a clock that only goes forward
  std::int64_t end_ns = kNone;
  std::int64_t parent = kNone;    ///< of the same thread: its place in the list
  std::int64_t sequence = kNone;  ///< of the node that this operation records, or is
  std::int64_t bytes = 0;         ///< taken less given back, without those of the events inside
  std::vector<Shape> sizes = {};  ///< of the inputs; empty for what is undefined
  std::vector<Shape> strides = {};
  std::vector<std::string> types = {};  ///< as C++ names them
};

struct RecordedMemory {
  const void* address = nullptr;
  std::int64_t time_ns = 0, thread = 0, bytes = 0, total = 0;  ///< total: on the device since the recording began
  Device device;
};

struct Recording {
  std::vector<RecordedEvent> events;  ///< by their start
  std::vector<RecordedMemory> memory;
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t wall_start_ns = 0;  ///< start_ns as time since 1970
};

/// Error(runtime) "Profiler is already enabled on this thread" while another recording is under way.
void start_recording(const RecordOptions& options);
Recording stop_recording();
/// What the next node of this thread will be numbered; autograd has it.
std::uint64_t next_sequence_nr();

}  // namespace core::detail
