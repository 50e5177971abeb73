#include "libcore/profiler/chrome_trace.h"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "libcore/base/text.h"

namespace core::profiler {
namespace {

using detail::EventKind;
using detail::kNone;
using detail::RecordedEvent;
using detail::RecordedMemory;
using detail::Recording;

/// In JSON, with its quotes. Of a name that is no UTF-8 the bytes that are none become "\xff".
std::string json_text(std::string_view name) {
  const std::string text = is_utf8(name) ? std::string(name) : printable(name);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
    out += escape;
  }
  return out + '"';
}

/// Nanoseconds as microseconds.
std::string micros(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%" PRId64 ".%03d", ns / 1000, static_cast<int>(ns % 1000));
  return text;
}

std::string list(const Shape& numbers) {
  std::string out;
  for (const std::int64_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

std::string list(const std::vector<Shape>& shapes) {
  std::string out;
  for (const Shape& shape : shapes) out += (out.empty() ? "" : ", ") + list(shape);
  return "[" + out + "]";
}

std::string list(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + json_text(text);
  return "[" + out + "]";
}

/// Writes one object after the other; what all have in common are process and times.
class Writer {
 public:
  Writer(const Recording& recording, bool with_shapes) : recording_(recording), shapes_(with_shapes) {}

  void head(const RecordedEvent* event, std::int64_t time_ns, std::string_view phase, std::string_view name) {
    out_ += first_ ? "\n  {" : ",\n  {";
    first_ = false;
    out_ += "\"ph\": " + json_text(phase) + ", \"name\": " + json_text(name) + ", \"pid\": " + pid_;
    if (event != nullptr) out_ += ", \"tid\": " + std::to_string(event->thread);
    out_ += ", \"ts\": " + micros(time_ns - recording_.start_ns);
  }
  void tail(const std::string& fields) { out_ += ", " + fields + "}"; }

  void names(const std::set<std::int64_t>& threads) {
    const std::string program = program_invocation_short_name;
    head(nullptr, recording_.start_ns, "M", "process_name");
    tail("\"tid\": 0, \"args\": {\"name\": " + json_text(program) + "}");
    head(nullptr, recording_.start_ns, "M", "process_labels");
    tail("\"tid\": 0, \"args\": {\"labels\": \"CPU\"}");
    for (const std::int64_t thread : threads) {
      const std::string number = std::to_string(thread);
      head(nullptr, recording_.start_ns, "M", "thread_name");
      tail("\"tid\": " + number + ", \"args\": {\"name\": " + json_text("thread " + number + " (" + program + ")") +
           "}");
      head(nullptr, recording_.start_ns, "M", "thread_sort_index");
      tail("\"tid\": " + number + ", \"args\": {\"sort_index\": " + number + "}");
    }
  }

  void event(const RecordedEvent& event, std::size_t place, std::int64_t forward_thread) {
    head(&event, event.start_ns, "X", event.name);
    std::string args = "\"External id\": " + std::to_string(place + 1);
    if (event.sequence != kNone) {
      args += ", \"Sequence number\": " + std::to_string(event.sequence) +
              ", \"Fwd thread id\": " + std::to_string(forward_thread);
    }
    if (shapes_ && event.kind == EventKind::op) {
      args += ", \"Input type\": " + list(event.types) + ", \"Input Strides\": " + list(event.strides) +
              ", \"Input Dims\": " + list(event.sizes);
    }
    const char* category = event.kind == EventKind::annotation ? "user_annotation" : "cpu_op";
    tail("\"dur\": " + micros(event.end_ns - event.start_ns) + ", \"cat\": \"" + category + "\", \"args\": {" + args +
         ", \"Record function id\": 0, \"Ev Idx\": " + std::to_string(place) + "}");
  }

  /// An arrow from an operation to its backward.
  void arrow(const RecordedEvent& forward, const RecordedEvent& backward, std::int64_t number) {
    const std::string fields = "\"cat\": \"fwdbwd\", \"id\": " + std::to_string(number);
    head(&forward, forward.start_ns, "s", "fwdbwd");
    tail(fields);
    head(&backward, backward.start_ns, "f", "fwdbwd");
    tail(fields + ", \"bp\": \"e\"");
  }

  void memory(const RecordedMemory& one, std::size_t place) {
    head(nullptr, one.time_ns, "i", "[memory]");
    const bool is_cpu = one.device.is_cpu();
    tail("\"tid\": " + std::to_string(one.thread) + ", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"args\": " +
         "{\"Total Reserved\": 0, \"Total Allocated\": " + std::to_string(one.total) + ", \"Bytes\": " +
         std::to_string(one.bytes) + ", \"Device Id\": " + (is_cpu ? "-1" : std::to_string(one.device.index())) +
         ", \"Device Type\": " + (is_cpu ? "0" : "1") +
         ", \"Addr\": " + std::to_string(reinterpret_cast<std::uintptr_t>(one.address)) +
         ", \"Ev Idx\": " + std::to_string(place) + "}");
  }

  /// What PyTorch's viewers take for the limits of the recording.
  void limits() {
    const std::string span = "\"ts\": " + micros(0), dur = micros(recording_.end_ns - recording_.start_ns);
    out_ += ",\n  {\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"PyTorch Profiler (0)\", \"pid\": \"Spans\", " +
            ("\"tid\": \"PyTorch Profiler\", " + span) + ", \"dur\": " + dur + ", \"args\": {\"Op count\": 0}}";
    out_ +=
        ",\n  {\"ph\": \"i\", \"s\": \"g\", \"name\": \"Iteration Start: PyTorch Profiler\", \"pid\": \"Traces\", " +
        ("\"tid\": \"Trace PyTorch Profiler\", " + span) + "}";
    out_ +=
        ",\n  {\"ph\": \"i\", \"s\": \"g\", \"name\": \"Record Window End\", \"pid\": \"\", \"tid\": \"\", \"ts\": " +
        dur + "}";
  }

  std::string text() && { return std::move(out_); }

 private:
  const Recording& recording_;
  bool shapes_, first_ = true;
  std::string pid_ = std::to_string(::getpid());
  std::string out_;
};

std::set<std::int64_t> threads_of(const Recording& recording) {
  std::set<std::int64_t> threads;
  for (const RecordedEvent& event : recording.events) threads.insert(event.thread);
  for (const RecordedMemory& one : recording.memory) threads.insert(one.thread);
  return threads;
}

}  // namespace

std::vector<std::int64_t> forward_of_backward(const std::vector<RecordedEvent>& events) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> by_thread;  // (sequence, thread)
  std::map<std::int64_t, std::int64_t> by_number;
  std::vector<std::int64_t> found(events.size(), kNone);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const RecordedEvent& event = events[i];
    if (event.sequence == kNone) continue;
    if (event.kind == EventKind::op) {
      // The last one that began before the node was numbered: what is inside another one comes behind it.
      by_thread[{event.sequence, event.thread}] = by_number[event.sequence] = static_cast<std::int64_t>(i);
    } else if (event.kind == EventKind::backward) {
      const auto own = by_thread.find({event.sequence, event.thread});
      const auto any = by_number.find(event.sequence);
      found[i] = own != by_thread.end() ? own->second : any != by_number.end() ? any->second : kNone;
    }
  }
  return found;
}

std::string chrome_trace(const Recording& recording, const detail::RecordOptions& options, const std::string& path) {
  Writer writer(recording, options.shapes);
  writer.names(threads_of(recording));
  const std::vector<std::int64_t> forward = forward_of_backward(recording.events);
  std::int64_t arrows = 0;
  for (std::size_t i = 0; i < recording.events.size(); ++i) {
    const RecordedEvent* from = forward[i] == kNone ? nullptr : &recording.events[static_cast<std::size_t>(forward[i])];
    writer.event(recording.events[i], i, from == nullptr ? 0 : from->thread);
    if (from != nullptr) writer.arrow(*from, recording.events[i], ++arrows);
  }
  for (std::size_t i = 0; i < recording.memory.size(); ++i) {
    writer.memory(recording.memory[i], recording.events.size() + i);
  }
  writer.limits();
  std::string head = "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [],\n";
  if (options.memory) head += "  \"profile_memory\": 1,\n";
  if (options.shapes) head += "  \"record_shapes\": 1,\n";
  head +=
      "  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": " + std::to_string(recording.wall_start_ns) + ",\n";
  return head + "  \"traceEvents\": [" + std::move(writer).text() + "\n  ],\n  \"traceName\": " + json_text(path) +
         "\n}\n";
}

}  // namespace core::profiler
