#pragma once
// OpTrace: what one forward pass does: which operation, on which values, with which numbers, in which module. One
// statement at the top of an operation puts it there; what it is made of stays out. Kernels and views that no such
// statement covers are noted by name where they see what comes from the inputs, so that a trace is never wrong in
// silence. While nothing traces, an operation pays one relaxed load. Thread safety: a trace is of the thread that made
// it; others may have their own. Use: core::detail::OpTrace trace({x}); net(x); trace.ops()[0].name == "conv2d";
//
//   Tensor twice(const Tensor& x) {
//     if (detail::traced_now()) return detail::traced("twice", {x}, {}, [&] { return twice(x); });

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/size2.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Whether any thread traces.
inline constinit std::atomic<int> tracing{0};

using TraceNumbers = std::vector<std::int64_t>;
struct TraceAttribute {
  TraceAttribute(const char* key, bool v) : name(key), value(v) {}
  TraceAttribute(const char* key, std::int64_t v) : name(key), value(v) {}
  TraceAttribute(const char* key, double v) : name(key), value(v) {}
  TraceAttribute(const char* key, Scalar v) : name(key), value(v) {}
  TraceAttribute(const char* key, DType v) : name(key), value(v) {}
  TraceAttribute(const char* key, std::string_view v) : name(key), value(std::string(v)) {}
  TraceAttribute(const char* key, TraceNumbers v) : name(key), value(std::move(v)) {}
  TraceAttribute(const char* key, Size2 v) : name(key), value(TraceNumbers{v.h(), v.w()}) {}
  TraceAttribute(const char* key, const Shape& v) : name(key), value(TraceNumbers(v.begin(), v.end())) {}
  const char* name;
  std::variant<bool, std::int64_t, double, Scalar, DType, std::string, TraceNumbers> value;
};

/// Where a value comes from. The weaker kinds come first: a result is of the strongest kind among what it is made of.
enum class TraceSource : std::uint8_t { constant, state, input };

struct TracedValue {
  Tensor tensor;  ///< as the operation left it; an operation in place may have changed it since
  TraceSource source = TraceSource::constant;
  std::ptrdiff_t op = -1;       ///< what made it; -1: nothing that was traced
  std::string name = {};        ///< of an input, a parameter or a buffer
  bool overwritten = false;     ///< by an operation in place: `tensor` holds something else now
  std::string changed_by = {};  ///< the operation in place that wrote into its memory through another tensor
  bool follows_inputs = false;  ///< what was written so came from the inputs
};

struct TracedOp {
  std::string name;                     ///< "conv2d"
  std::vector<std::ptrdiff_t> inputs;   ///< places in values(); -1: undefined
  std::vector<std::ptrdiff_t> outputs;  ///< the same
  std::vector<TraceAttribute> attributes = {};
  std::string module = {};  ///< "layer1.0.conv1"; empty: the whole

  const TraceAttribute* find(std::string_view key) const;
};

/// A kernel, a view or a read that a trace cannot hold.
struct UntracedOp {
  std::string name;
  std::string module;
};

class OpTrace {
 public:
  /// Begins, with `inputs` by name. Error(usage) where this thread traces already.
  explicit OpTrace(const std::vector<std::pair<std::string, Tensor>>& inputs);
  ~OpTrace();
  OpTrace(const OpTrace&) = delete;
  OpTrace& operator=(const OpTrace&) = delete;

  /// A parameter or buffer, under its first name.
  void add_state(const std::string& name, const Tensor& tensor);
  void enter(std::string module) { modules_.push_back(std::move(module)); }
  void leave() { modules_.pop_back(); }
  /// No operation is noted from now on.
  void stop();

  const std::vector<TracedOp>& ops() const { return ops_; }
  const std::vector<TracedValue>& values() const { return values_; }
  const std::vector<UntracedOp>& untraced() const { return untraced_; }
  /// Whether an operation worked in another dtype than that of its inputs, by autocast.
  bool has_hidden_casts() const { return has_hidden_casts_; }
  /// The place of a tensor, as a constant where it is not known.
  std::ptrdiff_t value_of(const Tensor& tensor);

  // For what follows.

  static OpTrace* of_thread();
  void note_hidden_casts() { has_hidden_casts_ = true; }
  bool is_outside() const { return depth_ == 0; }
  void note(const char* name, const Tensor* const* inputs, std::size_t count);

 private:
  friend class TraceFrame;
  std::ptrdiff_t new_value(const Tensor& tensor, TraceSource source, std::ptrdiff_t op);
  void mark_changed(const Tensor& changed, const std::string& by, bool by_inputs);

  std::vector<TracedOp> ops_;
  std::vector<TracedValue> values_;
  std::vector<UntracedOp> untraced_;
  std::map<const TensorImpl*, std::ptrdiff_t> places_;
  std::vector<std::string> modules_;
  int depth_ = 0;
  bool running_ = true;
  bool has_hidden_casts_ = false;
};

bool traces_here();
/// Whether this operation is to be traced: nothing around it is.
inline bool traced_now() {
  return tracing.load(std::memory_order_relaxed) != 0 && traces_here();
}

/// One operation while it runs.
class TraceFrame {
 public:
  TraceFrame(std::string_view name, const std::vector<Tensor>& inputs, std::vector<TraceAttribute> attributes);
  ~TraceFrame();
  TraceFrame(const TraceFrame&) = delete;
  TraceFrame& operator=(const TraceFrame&) = delete;
  void end(const std::vector<Tensor>& outputs, bool in_place = false);

 private:
  OpTrace& trace_;
  TracedOp op_;
};

inline std::vector<Tensor> tensors_of(const Tensor& one) {
  return {one};
}
inline std::vector<Tensor> tensors_of(const std::vector<Tensor>& all) {
  return all;
}
inline std::vector<Tensor> tensors_of(const ValuesIndices& two) {
  return {two.values, two.indices};
}

/// Runs it and puts it into the trace. REQUIRES: traced_now().
template <class Run>
auto traced(std::string_view name, const std::vector<Tensor>& inputs, std::vector<TraceAttribute> attributes, Run run) {
  TraceFrame frame(name, inputs, std::move(attributes));
  auto result = run();
  frame.end(tensors_of(result));
  return result;
}
/// The same where `changed` gets the result.
template <class Run>
void traced_in_place(std::string_view name, const Tensor& changed, const std::vector<Tensor>& inputs,
                     std::vector<TraceAttribute> attributes, Run run) {
  TraceFrame frame(name, inputs, std::move(attributes));
  run();
  frame.end({changed}, true);
}

/// A view or a read of `x` that no trace can hold.
void note_untraced(const char* name, const Tensor& x);
/// Autocast casts inside of an operation, where no trace sees it.
void note_hidden_casts();
/// Has op_scope.h tell note_kernel() of every kernel that runs.
void watch_kernels(bool on);
void note_kernel(std::string_view name, const Tensor* const* inputs, std::size_t count);

}  // namespace core::detail
