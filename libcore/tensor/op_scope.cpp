#include "libcore/tensor/op_scope.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/profile_events.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// One thread's part of a recording. Its lock is another's only when the recording ends.
struct ThreadList {
  std::mutex mutex;
  std::uint32_t number = 0;  ///< of this list in this recording: no other one has it
  std::int64_t thread = ::syscall(SYS_gettid);
  std::vector<RecordedEvent> events;
  std::vector<std::size_t> open;
  std::vector<RecordedMemory> memory;
};

/// Its lock is taken before one of a list.
struct Recorder {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadList>> lists;
  std::atomic<bool> recording{false}, shapes{false}, memory{false};
  int traces = 0;  ///< of op_trace.h, which hear of kernels too
  std::uint32_t last_number = 0;
  std::int64_t start_ns = 0, wall_start_ns = 0;
};

Recorder& recorder() {
  static Recorder* one = new Recorder;  // never destroyed: threads may record while the program ends
  return *one;
}

thread_local constinit bool thread_ends = false;

struct OwnList {
  std::shared_ptr<ThreadList> list = std::make_shared<ThreadList>();
  OwnList() {
    const std::lock_guard lock(recorder().mutex);
    list->number = ++recorder().last_number;
    recorder().lists.push_back(list);
  }
  ~OwnList() { thread_ends = true; }
};

/// Null for what a thread does while it ends, such as giving back the memory that it kept.
ThreadList* list_of_thread() {
  if (thread_ends) return nullptr;
  static thread_local OwnList own;
  return own.list.get();
}

/// "float", "c10::Half": what PyTorch's traces say.
const char* type_text(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::u8:
      return "unsigned char";
    case DType::i8:
      return "signed char";
    case DType::i16:
      return "short";
    case DType::i32:
      return "int";
    case DType::i64:
      return "long";
    case DType::f16:
      return "c10::Half";
    case DType::bf16:
      return "c10::BFloat16";
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::c64:
      return "c10::complex<float>";
    case DType::c128:
      return "c10::complex<double>";
    default:
      return "";
  }
}

void describe_inputs(RecordedEvent& event, const Tensor* const* inputs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool defined = inputs[i]->defined();
    event.sizes.push_back(defined ? inputs[i]->sizes() : Shape());
    event.strides.push_back(defined ? inputs[i]->strides() : Shape());
    event.types.emplace_back(defined ? type_text(inputs[i]->dtype()) : "");
  }
}

/// Its number: the list's in the upper half, place + 1 in the lower.
EventId open_event(RecordedEvent event) {
  ThreadList* const own = list_of_thread();
  if (own == nullptr) return 0;
  ThreadList& list = *own;
  const std::lock_guard lock(list.mutex);
  event.thread = list.thread;
  if (!list.open.empty()) event.parent = static_cast<std::int64_t>(list.open.back());
  list.open.push_back(list.events.size());
  event.start_ns = now_ns();
  list.events.push_back(std::move(event));
  return (EventId{list.number} << 32) | list.events.size();
}

/// What began in an earlier recording finds no list, and is not ended in this one.
void clear(ThreadList& list, std::uint32_t number) {
  list.number = number;
  list.events.clear();
  list.open.clear();
  list.memory.clear();
}

/// False where the event is another list's. REQUIRES: the list's lock.
bool end_event_in(ThreadList& list, EventId event, std::int64_t end) {
  if ((event >> 32) != list.number) return false;
  const std::size_t place = (event & 0xFFFFFFFFU) - 1;
  list.events[place].end_ns = end;
  const auto at = std::find(list.open.rbegin(), list.open.rend(), place);
  if (at != list.open.rend()) list.open.erase(std::next(at).base());
  return true;
}

/// Puts a thread's part behind `events`, whose places move its parents'.
void append(std::vector<RecordedEvent>& events, ThreadList& list, std::int64_t end_ns) {
  const auto shift = static_cast<std::int64_t>(events.size());
  for (RecordedEvent& event : list.events) {
    if (event.parent != kNone) event.parent += shift;
    if (event.end_ns == kNone) event.end_ns = end_ns;
    events.push_back(std::move(event));
  }
}

/// By their start: an event comes behind the one that it is in.
void sort_by_start(std::vector<RecordedEvent>& events) {
  std::vector<std::size_t> order(events.size()), place(events.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return events[a].start_ns < events[b].start_ns; });
  std::vector<RecordedEvent> sorted;
  sorted.reserve(events.size());
  for (std::size_t i : order) {
    place[i] = sorted.size();
    sorted.push_back(std::move(events[i]));
  }
  for (RecordedEvent& event : sorted) {
    if (event.parent != kNone) event.parent = static_cast<std::int64_t>(place[static_cast<std::size_t>(event.parent)]);
  }
  events = std::move(sorted);
}

void sum_memory(std::vector<RecordedMemory>& memory) {
  std::stable_sort(memory.begin(), memory.end(),
                   [](const RecordedMemory& a, const RecordedMemory& b) { return a.time_ns < b.time_ns; });
  std::map<std::string, std::int64_t> totals;
  for (RecordedMemory& one : memory) one.total = totals[one.device.str()] += one.bytes;
}

}  // namespace

std::string_view OpScope::aten_name(std::string_view name) {
  if (name == "abs_cpu") return "abs";
  if (name == "floor_vml_cpu") return "floor";
  if (name == "div_floor_cpu") return "floor_divide";
  if (name == "put" || name == "accumulate") return "index_put";
  return name;
}

std::string_view OpScope::with_underscore(std::string_view name) {
  static thread_local std::string kept;
  kept.assign(name).push_back('_');
  return kept;
}

void watch_kernels(bool on) {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  all.traces += on ? 1 : -1;
  profiling.store(all.recording || all.traces > 0);
}

EventId begin_event(EventKind kind, std::string_view name, const Tensor* const* inputs, std::size_t count) {
  if (kind == EventKind::op) note_kernel(name, inputs, count);
  if (!recorder().recording.load(std::memory_order_relaxed)) return 0;
  RecordedEvent event;
  event.kind = kind;
  if (kind == EventKind::op) event.name = "aten::";
  event.name += name;
  if (kind == EventKind::op && is_grad_enabled()) event.sequence = static_cast<std::int64_t>(next_sequence_nr());
  if (recorder().shapes.load(std::memory_order_relaxed)) describe_inputs(event, inputs, count);
  return open_event(std::move(event));
}

EventId begin_node_event(EventKind kind, std::string_view name, std::uint64_t sequence) {
  if (!recorder().recording.load(std::memory_order_relaxed)) return 0;
  RecordedEvent event;
  event.kind = kind;
  if (kind == EventKind::evaluation) event.name = "autograd::engine::evaluate_function: ";
  event.name += name;
  event.sequence = static_cast<std::int64_t>(sequence);
  return open_event(std::move(event));
}

void end_event(EventId event) noexcept {
  const std::int64_t end = now_ns();
  ThreadList* const own = list_of_thread();
  if (own == nullptr || event == 0) return;
  {
    const std::lock_guard lock(own->mutex);
    if (end_event_in(*own, event, end)) return;
  }
  // What another thread began, as an annotation that was handed over.
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  for (const auto& list : all.lists) {
    const std::lock_guard others(list->mutex);
    if (end_event_in(*list, event, end)) return;
  }
}

void note_memory(const void* address, std::int64_t bytes, Device device) noexcept {
  const bool wanted =
      recorder().recording.load(std::memory_order_relaxed) && recorder().memory.load(std::memory_order_relaxed);
  ThreadList* const own = wanted ? list_of_thread() : nullptr;
  if (own == nullptr) return;
  ThreadList& list = *own;
  const std::lock_guard lock(list.mutex);
  if (!list.open.empty()) list.events[list.open.back()].bytes += bytes;
  list.memory.push_back({address, now_ns(), list.thread, bytes, 0, device});
}

void start_recording(const RecordOptions& options) {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  if (all.recording) throw Error(ErrorCode::runtime, "Profiler is already enabled on this thread.");
  all.start_ns = now_ns();
  std::erase_if(all.lists, [](const auto& list) { return list.use_count() == 1; });  // of threads that are gone
  for (const auto& list : all.lists) {
    const std::lock_guard own(list->mutex);
    clear(*list, ++all.last_number);
  }
  all.shapes = options.shapes;
  all.memory = options.memory;
  all.wall_start_ns = std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  all.recording = true;
  profiling.store(true);
}

Recording stop_recording() {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  all.recording = false;
  profiling.store(all.traces > 0);
  Recording out{
      .events = {}, .memory = {}, .start_ns = all.start_ns, .end_ns = now_ns(), .wall_start_ns = all.wall_start_ns};
  for (const auto& list : all.lists) {
    const std::lock_guard own(list->mutex);
    append(out.events, *list, out.end_ns);
    out.memory.insert(out.memory.end(), list->memory.begin(), list->memory.end());
    clear(*list, ++all.last_number);
  }
  sort_by_start(out.events);
  sum_memory(out.memory);
  return out;
}

}  // namespace core::detail
