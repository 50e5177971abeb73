#include "libcore/profiler/profiler.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/profiler/chrome_trace.h"
#include "libcore/tensor/profile_events.h"

namespace core::profiler {
namespace {

using detail::kNone;
using detail::RecordedEvent;

[[noreturn]] void fail(const std::string& path, int error) {
  throw Error(ErrorCode::io, path + ": the trace cannot be written: " + std::system_category().message(error));
}

void write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Writes and closes `file`, which open() gave. Errors name `path`.
void write_to(int file, std::string_view text, const std::string& path) {
  if (file < 0) fail(path, errno);
  try {
    write_all(file, text, path);
  } catch (const Error&) {
    ::close(file);
    throw;
  }
  if (::close(file) != 0) fail(path, errno);
}

/// A file that nobody has; `name` becomes what it is called. -1 and errno as open().
int make_beside(std::string& name) {
  const std::string begin = name + "." + std::to_string(::getpid());
  for (int number = 0;; ++number) {
    name = begin + "." + std::to_string(number) + ".tmp";
    const int file = ::open(name.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
}

/// Beside its place first, so that a full disk leaves no half of a file there. A link stays one, and a device or pipe
/// gets the bytes.
void write_file(const std::string& path, std::string_view text) {
  std::error_code none;
  const std::filesystem::path there = std::filesystem::canonical(path, none);
  if (!there.empty() && !std::filesystem::is_regular_file(there, none)) {
    return write_to(::open(path.c_str(), O_WRONLY | O_CLOEXEC), text, path);
  }
  const std::string target = there.empty() ? path : there.string();
  std::string beside = target;
  const int file = make_beside(beside);
  if (file < 0) fail(path, errno);
  try {
    write_to(file, text, path);
    if (std::rename(beside.c_str(), target.c_str()) != 0) fail(path, errno);
  } catch (const Error&) {
    ::unlink(beside.c_str());
    throw;
  }
}

/// What the events inside take is no time of their own.
std::vector<FunctionEvent> events_of(const detail::Recording& recording) {
  std::vector<FunctionEvent> out;
  out.reserve(recording.events.size());
  for (const RecordedEvent& e : recording.events) {
    FunctionEvent event{.name = e.name, .start = static_cast<double>(e.start_ns - recording.start_ns) / 1e3};
    event.cpu_time_total = event.self_cpu_time_total = static_cast<double>(e.end_ns - e.start_ns) / 1e3;
    event.cpu_memory_usage = event.self_cpu_memory_usage = e.bytes;
    event.thread = e.thread;
    if (e.parent != kNone) event.cpu_parent = static_cast<std::size_t>(e.parent);
    if (e.sequence != kNone) event.sequence_nr = e.sequence;
    event.input_shapes = e.sizes;
    event.is_user_annotation = e.kind == detail::EventKind::annotation;
    out.push_back(std::move(event));
  }
  for (std::size_t i = out.size(); i-- > 0;) {  // what is inside stands behind
    if (!out[i].cpu_parent) continue;
    FunctionEvent& parent = out[*out[i].cpu_parent];
    const RecordedEvent &inner = recording.events[i], &outer = recording.events[*out[i].cpu_parent];
    // An annotation that ends first counts only what was inside until then.
    const std::int64_t inside = std::max<std::int64_t>(std::min(inner.end_ns, outer.end_ns) - inner.start_ns, 0);
    parent.self_cpu_time_total -= static_cast<double>(inside) / 1e3;
    parent.cpu_memory_usage += out[i].cpu_memory_usage;
  }
  return out;
}

}  // namespace

Schedule schedule(const ScheduleOptions& o) {
  if (o.wait < 0 || o.warmup < 0 || o.active <= 0 || o.repeat < 0 || o.skip_first < 0) {
    throw Error(ErrorCode::assertion, "Invalid profiler schedule arguments. Got wait=" + std::to_string(o.wait) +
                                          " (need >= 0), warmup=" + std::to_string(o.warmup) + " (need >= 0), active=" +
                                          std::to_string(o.active) + " (need > 0), repeat=" + std::to_string(o.repeat) +
                                          " (need >= 0), skip_first=" + std::to_string(o.skip_first) + " (need >= 0).");
  }
  if (o.warmup == 0) warn("Profiler won't be using warmup, this can skew profiler results");
  return [o](std::int64_t step) {
    if (step < o.skip_first) return ProfilerAction::none;
    const std::int64_t counted = step - o.skip_first, length = o.wait + o.warmup + o.active;
    if (o.repeat > 0 && counted / length >= o.repeat) return ProfilerAction::none;
    const std::int64_t in_cycle = counted % length;
    if (in_cycle < o.wait) return ProfilerAction::none;
    if (in_cycle < o.wait + o.warmup) return ProfilerAction::warmup;
    return in_cycle < length - 1 ? ProfilerAction::record : ProfilerAction::record_and_save;
  };
}

profile::profile(ProfileOptions options) : options_(std::move(options)) {
  move_to(options_.schedule ? options_.schedule(0) : ProfilerAction::record);
}

profile::~profile() {
  try {
    stop();
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void profile::step() {
  if (!action_) return;
  ++step_;
  move_to(options_.schedule ? options_.schedule(step_) : ProfilerAction::record);
}

void profile::stop() {
  if (action_) move_to(std::nullopt);
}

/// From the action of the last step to that of the next; none: the end.
void profile::move_to(std::optional<ProfilerAction> next) {
  detail::end_event(std::exchange(step_event_, 0));
  const std::optional<ProfilerAction> before = std::exchange(action_, next);
  const bool kept = before == ProfilerAction::record || before == ProfilerAction::record_and_save;
  const bool goes_on =
      before == ProfilerAction::record && (next == ProfilerAction::record || next == ProfilerAction::record_and_save);
  const bool cut_off = before == ProfilerAction::record && next && !goes_on;
  if (cut_off) warn("Incorrect schedule: RECORD followed by NONE");
  if (recording_ && !goes_on) {
    end(kept);
    if (kept && !cut_off && options_.on_trace_ready) options_.on_trace_ready(*this);
  }
  if (next && *next != ProfilerAction::none && !recording_) begin();
  if (recording_ && options_.schedule) {
    step_event_ =
        detail::begin_event(detail::EventKind::annotation, "ProfilerStep#" + std::to_string(step_), nullptr, 0);
  }
}

void profile::begin() {
  detail::start_recording({.shapes = options_.record_shapes, .memory = options_.profile_memory});
  recording_ = true;
}

/// A warm-up is not kept.
void profile::end(bool keep) {
  recording_ = false;
  detail::Recording recorded = detail::stop_recording();
  if (keep) last_ = std::make_unique<detail::Recording>(std::move(recorded));
}

const detail::Recording& profile::recorded(const char* wanted_for) const {
  if (!last_) throw Error(ErrorCode::assertion, std::string("Profiler must be initialized before ") + wanted_for);
  return *last_;
}

std::vector<FunctionEvent> profile::events() const {
  return events_of(recorded("accessing events"));
}

EventAverages profile::key_averages(bool group_by_input_shape) const {
  std::vector<FunctionEventAvg> rows;
  std::map<std::string, std::size_t> places;
  for (const FunctionEvent& event : events_of(recorded("getting key averages"))) {
    std::string key = event.name;
    if (group_by_input_shape) {
      for (const Shape& shape : event.input_shapes) key += " " + to_list(shape);
    }
    const auto [at, is_new] = places.emplace(key, rows.size());
    if (is_new) {
      rows.push_back({.key = event.name});
      if (group_by_input_shape) rows.back().input_shapes = event.input_shapes;
    }
    FunctionEventAvg& row = rows[at->second];
    ++row.count;
    row.cpu_time_total += event.cpu_time_total;
    row.self_cpu_time_total += event.self_cpu_time_total;
    row.cpu_memory_usage += event.cpu_memory_usage;
    row.self_cpu_memory_usage += event.self_cpu_memory_usage;
  }
  return {std::move(rows), options_.profile_memory};
}

void profile::export_chrome_trace(const std::string& path) const {
  const detail::Recording& recording = recorded("exporting chrome trace");
  if (path.ends_with(".gz")) {
    throw Error(ErrorCode::usage, path + ": traces are written uncompressed; give a name that ends in .json");
  }
  write_file(path,
             chrome_trace(recording, {.shapes = options_.record_shapes, .memory = options_.profile_memory}, path));
}

std::function<void(profile&)> tensorboard_trace_handler(std::string folder, std::string worker_name) {
  if (worker_name.empty()) {
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    worker_name = std::string(host) + "_" + std::to_string(::getpid());
  }
  return [folder = std::move(folder), worker_name = std::move(worker_name)](profile& prof) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw Error(ErrorCode::runtime, "Can't create directory: " + folder + ": " + error.message());
    const auto now = std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    prof.export_chrome_trace(folder + "/" + worker_name + "." + std::to_string(now) + ".pt.trace.json");
  };
}

}  // namespace core::profiler
