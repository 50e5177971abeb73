#pragma once
// OpScope: one line at the top of an operation makes its time an event of the profiler (profiler/profiler.h). While no
// profiler runs it costs one relaxed load. Kernels of all devices are reached through ops/raw, which has such lines for
// all of them; operations that are made of others have one for the nesting. Thread safety: each thread has its own
// list. Use: const core::detail::OpScope scope("mm", x, y);

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace core {

class Tensor;
class Device;

namespace detail {

/// Whether a profiler is recording.
inline constinit std::atomic<bool> profiling{false};

enum class EventKind : std::uint8_t {
  op,          ///< an operation: its name gets "aten::"
  annotation,  ///< what a user, an optimizer or a loader names
  evaluation,  ///< the engine at one node
  backward,    ///< the node itself
};

/// The number of an open event, 0: none. end_event() may be called when the recording is over.
using EventId = std::uint64_t;
EventId begin_event(EventKind kind, std::string_view name, const Tensor* const* inputs, std::size_t count);
/// Of a node of the graph, by the number that it was recorded under.
EventId begin_node_event(EventKind kind, std::string_view name, std::uint64_t sequence);
void end_event(EventId event) noexcept;
/// `bytes`: negative where memory is given back.
void note_memory(const void* address, std::int64_t bytes, Device device) noexcept;

/// In place: the name gets a "_".
template <class Op>
struct InPlace {
  Op op;
};

class OpScope {
 public:
  /// `op`: one of op_kinds.h, or a name.
  template <class Op, class... Tensors>
  explicit OpScope(Op op, const Tensors&... inputs) {
    if (profiling.load(std::memory_order_relaxed)) [[unlikely]] {
      const Tensor* all[] = {&inputs..., nullptr};
      event_ = begin_event(EventKind::op, text(op), all, sizeof...(inputs));
    }
  }
  template <class Op, class... Tensors>
  explicit OpScope(InPlace<Op> in_place, const Tensors&... inputs) {
    if (profiling.load(std::memory_order_relaxed)) [[unlikely]] {
      const Tensor* all[] = {&inputs..., nullptr};
      event_ = begin_event(EventKind::op, with_underscore(text(in_place.op)), all, sizeof...(inputs));
    }
  }
  ~OpScope() {
    if (event_ != 0) [[unlikely]]
      end_event(event_);
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  static std::string_view text(std::string_view name) { return name; }
  template <class Op>
  static std::string_view text(Op op) requires(std::is_enum_v<Op>) {
    return aten_name(name(op));  // found beside op, where that is declared
  }
  /// What messages call an operation is not always its name.
  static std::string_view aten_name(std::string_view name);
  /// In a place of the thread's own, until the next call.
  static std::string_view with_underscore(std::string_view name);

  EventId event_ = 0;
};

/// The same for one visit of the engine to a node of the graph.
class NodeScope {
 public:
  template <class Node>
  NodeScope(EventKind kind, const Node& node) {
    if (profiling.load(std::memory_order_relaxed)) [[unlikely]] {
      event_ = begin_node_event(kind, node.name(), node.is_accumulator() ? kNoSequence : node.sequence_nr());
    }
  }
  ~NodeScope() {
    if (event_ != 0) [[unlikely]]
      end_event(event_);
  }
  NodeScope(const NodeScope&) = delete;
  NodeScope& operator=(const NodeScope&) = delete;

 private:
  static constexpr auto kNoSequence = static_cast<std::uint64_t>(-1);
  EventId event_ = 0;
};

/// The same for what is no operation: `name()` is asked only while a profiler records.
class AnnotationScope {
 public:
  template <class Name>
  explicit AnnotationScope(const Name& name) {
    if (profiling.load(std::memory_order_relaxed)) [[unlikely]]
      event_ = begin_event(EventKind::annotation, name(), nullptr, 0);
  }
  ~AnnotationScope() {
    if (event_ != 0) [[unlikely]]
      end_event(event_);
  }
  AnnotationScope(const AnnotationScope&) = delete;
  AnnotationScope& operator=(const AnnotationScope&) = delete;

 private:
  EventId event_ = 0;
};

}  // namespace detail
}  // namespace core
