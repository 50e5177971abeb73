#pragma once
// Where the time of a program goes, as torch.profiler: operations by their names in PyTorch ("aten::addmm"), the nodes
// of backward, steps of optimizers, batches of loaders and scopes of your own, with threads and nesting; as a table,
// and as a trace that chrome://tracing, Perfetto and PyTorch's tools read. All threads of the process are recorded.
// Times are the host's: of kernels of GPUs, which run later, what it took to start them. Views cost no kernel and are
// no events. Without a profile an operation costs one relaxed load more, and so do taking and giving back a tensor's
// memory. Thread safety: one profile at a time; start, stop and step from one thread. Use: core::profiler::profile
// prof({.record_shapes = true}); loss.backward(); prof.stop(); std::cout <<
// prof.key_averages().table("self_cpu_time_total", 10); prof.export_chrome_trace("trace.json");

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/shape.h"
#include "libcore/tensor/op_scope.h"

namespace core::detail {
struct Recording;
}

namespace core::profiler {

enum class ProfilerAction { none, warmup, record, record_and_save };
/// What to do at each step, counted from 0.
using Schedule = std::function<ProfilerAction(std::int64_t step)>;

struct ScheduleOptions {
  std::int64_t wait = 0;        ///< steps of each cycle that are not looked at,
  std::int64_t warmup = 0;      ///< that are recorded and thrown away,
  std::int64_t active = 1;      ///< and that are kept
  std::int64_t repeat = 0;      ///< cycles; 0: no end
  std::int64_t skip_first = 0;  ///< steps before the first cycle
};
/// Error(assertion) with PyTorch's text for numbers that make no schedule; warns, as PyTorch does, without warmup.
Schedule schedule(const ScheduleOptions& options);

class profile;

struct ProfileOptions {
  bool record_shapes = false;   ///< sizes, strides and types of the inputs
  bool profile_memory = false;  ///< what tensors take and give back
  Schedule schedule = {};       ///< default: everything is recorded; else call step() at the end of each step
  std::function<void(profile&)> on_trace_ready = {};  ///< called each time that a recording is complete
};

/// One event. Times in microseconds, memory in bytes.
struct FunctionEvent {
  std::string name;
  double start = 0;                                    ///< since the recording began
  double cpu_time_total = 0, self_cpu_time_total = 0;  ///< self: without the events inside
  std::int64_t cpu_memory_usage = 0, self_cpu_memory_usage = 0;
  std::int64_t thread = 0;
  std::optional<std::size_t> cpu_parent = {};  ///< its place in the list
  std::optional<std::int64_t> sequence_nr =
      {};  ///< of the node that a forward operation records, or that backward runs
  std::vector<Shape> input_shapes = {};
  bool is_user_annotation = false;
};

/// Events of one name (and sizes) together.
struct FunctionEventAvg {
  std::string key;
  std::int64_t count = 0;
  double cpu_time_total = 0, self_cpu_time_total = 0;
  std::int64_t cpu_memory_usage = 0, self_cpu_memory_usage = 0;
  std::vector<Shape> input_shapes = {};

  double cpu_time() const { return count == 0 ? 0 : cpu_time_total / static_cast<double>(count); }
};

class EventAverages {
 public:
  EventAverages(std::vector<FunctionEventAvg> rows, bool with_memory) : rows_(std::move(rows)), memory_(with_memory) {}

  const std::vector<FunctionEventAvg>& rows() const { return rows_; }
  double self_cpu_time_total() const;
  /// PyTorch's table. `sort_by`: "count", "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage",
  /// "self_cpu_memory_usage", largest first, or "" for the order of their first calls. Error(attribute) for another.
  std::string table(std::string_view sort_by = {}, std::int64_t row_limit = 100) const;

 private:
  std::vector<FunctionEventAvg> rows_;
  bool memory_;
};

/// Begins to record when it is made (by the schedule's first step), ends at stop() or when its life ends.
class profile {
 public:
  /// Error(runtime) "Profiler is already enabled on this thread." while another one records.
  explicit profile(ProfileOptions options = {});
  ~profile();
  profile(const profile&) = delete;
  profile& operator=(const profile&) = delete;

  /// The next step of the schedule. Within a schedule each step is an event "ProfilerStep#3".
  void step();
  void stop();

  // What was recorded last, warm-ups apart. Error(assertion) with PyTorch's texts while there is nothing yet.

  std::vector<FunctionEvent> events() const;
  /// group_by_input_shape: calls with other sizes are rows of their own; needs record_shapes.
  EventAverages key_averages(bool group_by_input_shape = false) const;
  /// JSON that chrome://tracing and https://ui.perfetto.dev show. A file appears whole or not at all; a device or pipe
  /// gets the bytes. Errors:
  /// Error(io) naming it; Error(usage) for a name that ends in ".gz".
  void export_chrome_trace(const std::string& path) const;

  std::int64_t step_num() const { return step_; }

 private:
  void move_to(std::optional<ProfilerAction> next);
  void begin();
  void end(bool keep);
  const detail::Recording& recorded(const char* wanted_for) const;

  ProfileOptions options_;
  std::int64_t step_ = 0;
  std::optional<ProfilerAction> action_ = {};
  bool recording_ = false;
  detail::EventId step_event_ = 0;
  std::unique_ptr<detail::Recording> last_;
};

/// Each recording becomes a file "HOST_PROCESS.TIME.pt.trace.json" in `folder`, which is made where it is not there.
/// `worker_name` stands for host and process. Errors: those of export_chrome_trace(), and Error(runtime)
/// "Can't create directory: ...".
std::function<void(profile&)> tensorboard_trace_handler(std::string folder, std::string worker_name = {});

/// An event of your own, for a scope.
class record_function {
 public:
  [[nodiscard]] explicit record_function(std::string_view name) : scope_([name] { return name; }) {}

 private:
  detail::AnnotationScope scope_;
};

}  // namespace core::profiler
