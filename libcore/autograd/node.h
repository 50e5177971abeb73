#pragma once
// Node: one recorded operation of the autograd graph, and what an operation needs to record itself.
// Thread safety: a graph is built by one thread and walked by the engine's; nodes are reference-counted atomically.
//
// A new differentiable operation `twice` is three pieces:
//   struct TwiceBackward final : core::Node {                          // 1. the node: gradients out of gradients
//     std::string_view name() const override { return "TwiceBackward0"; }
//     core::TensorList apply(core::TensorList grads) override { return {grads[0] * 2}; }
//   };
//   core::Tensor twice(const core::Tensor& x) {
//     core::Tensor out = raw::twice(x);                                // 2. checks + backend slot, no history
//     if (core::needs_grad(x)) core::record(out, core::make_node<TwiceBackward>(x));   // 3. edges to the inputs
//     return out;
//   }
// apply() is given one gradient per output (undefined = zero) and returns one per input in the order given to make_node
// (undefined = none). Write it with core:: operations: then a second derivative works by itself. The engine sums a
// gradient down to the input's shape and casts it to the input's dtype, so that broadcasting needs no care.
// Keep tensors with save(t) / save_output(t) in the operation, get them with saved(i) in apply(); they are checked
// against in-place changes and freed after backward. Use: std::string_view name = y.grad_fn()->name();

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/tensor/inline_vector.h"
#include "libcore/tensor/tensor.h"

namespace core {

class Node;
using TensorList = InlineVector<Tensor, 4>;

/// Where a gradient goes: input `input_nr` of `node` (which is output `input_nr` of the forward operation).
struct Edge {
  IntrusivePtr<Node> node;
  std::uint32_t input_nr = 0;
};

/// Shape, dtype and device that the gradient of one forward output must have.
struct OutputMeta {
  Shape sizes;
  DType dtype = DType::f32;
  Device device;
};

/// A tensor kept for backward. An output of the node itself is kept without its history, so that no cycle arises.
class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(const Tensor& tensor, bool is_output);

 private:
  friend class Node;
  Tensor tensor_;
  std::uint32_t version_ = 0;
  std::uint32_t output_nr_ = 0;
  bool is_output_ = false;
};

/// Looks at, or replaces, the gradient of one output before apply() sees it.
struct GradHook {
  std::int64_t id;
  std::uint32_t output_nr;
  std::function<Tensor(const Tensor&)> call;
};

class Node : public RefCounted {
 public:
  Node();
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  static void* operator new(std::size_t bytes);
  static void operator delete(void* block, std::size_t bytes) noexcept;
  /// See RefCounted.
  bool release() const noexcept { return findable_ ? release_findable() : RefCounted::release(); }
  /// Ends a node and, without recursion, everything that only it kept alive.
  static void destroy(Node* node) noexcept;

  /// "MulBackward0", "torch::autograd::AccumulateGrad": what Python's `grad_fn.name()` says.
  virtual std::string_view name() const = 0;
  /// See the top of this file.
  virtual TensorList apply(TensorList grads) = 0;
  /// apply() for the ways of direct_edges().
  virtual TensorList apply_directly(TensorList grads) { return apply(std::move(grads)); }
  /// Frees what was saved; a second backward then says so.
  virtual void release_saved();
  /// True for the node that adds to a leaf's gradient.
  virtual bool is_accumulator() const { return false; }
  /// Hooks on the gradients of the outputs, in the order of registration.
  std::vector<GradHook>& hooks();
  bool has_hooks() const { return hooks_ != nullptr; }

  using Edges = InlineVector<Edge, 3>;
  /// One an input, as PyTorch's graph has them.
  const Edges& next_edges() const { return skips_ ? with_skipped() : edges_; }
  /// The same, but for a node behind this one that does no more than apply_directly() does along with its own work: as
  /// nobody looks at most graphs, it is made when next_edges() is asked for.
  const Edges& direct_edges() const { return edges_; }
  /// Whether backward goes by next_edges(): always, or as somebody has asked for these.
  bool shows_all() const { return !skips_ || all_edges_.load(std::memory_order_acquire) != nullptr; }
  /// Higher means recorded later.
  virtual std::uint64_t sequence_nr() const { return sequence_nr_; }
  const InlineVector<OutputMeta, 1>& outputs() const { return outputs_; }
  /// The device whose worker runs apply().
  Device device() const { return outputs_.empty() ? Device() : outputs_[0].device; }
  /// The stream that was current on device() when the first output was recorded, by id (streams.h): backward runs there
  /// too. 0: the default stream, or no device that has any.
  std::uint64_t stream() const { return stream_; }

  // --- for operations, while recording
  void add_edge(const Tensor& input);
  void add_edge(Edge edge) { edges_.push_back(std::move(edge)); }
  /// Input i has such a node, skipped_node(). It counts as recorded before this one, which is yet to be made.
  void skip_node_of(std::uint32_t i) { skips_ = true, skipped_ = i; }
  static void count_skipped_node();
  std::uint32_t add_output(const Tensor& output);
  /// An output that never becomes a tensor.
  void add_output(OutputMeta output);
  /// Keeps an input (or any other tensor) for apply(). May be undefined.
  void save(const Tensor& tensor) { saved_.push_back(SavedTensor(tensor, false)); }
  /// Keeps an output. Call it after record().
  void save_output(const Tensor& tensor) { saved_.push_back(SavedTensor(tensor, true)); }

 protected:
  /// For nodes that others find without holding them.
  void set_findable() { findable_ = true; }
  /// The node that next_edges() shows for the input of skip_node_of(), with its own edge, which is given.
  virtual IntrusivePtr<Node> skipped_node(Edge edge) const;
  // --- for apply()
  /// The i-th saved tensor. Errors: PyTorch's texts for a second backward and for in-place changes.
  Tensor saved(std::size_t i) const;
  /// For nodes that keep a number where PyTorch keeps a tensor: the same error at a second backward.
  void check_not_freed() const;
  /// False when nobody wants the gradient of input i; leave it undefined then.
  bool wants(std::size_t i) const { return static_cast<bool>(edges_[i].node); }

 private:
  friend class GraphTask;
  Tensor unpacked(const SavedTensor& kept, const Tensor& value, std::uint32_t version) const;
  const Edges& with_skipped() const;
  Edges edges_;
  InlineVector<OutputMeta, 1> outputs_;
  InlineVector<SavedTensor, 3> saved_;
  std::uint64_t sequence_nr_;
  std::uint64_t stream_ = 0;
  std::unique_ptr<std::vector<GradHook>> hooks_;
  Node* next_to_end_ = nullptr;                     // the queue of destroy()
  mutable std::atomic<Edges*> all_edges_{nullptr};  // owned; made by next_edges()
  std::uint32_t skipped_ = 0;
  bool skips_ = false;
  bool released_ = false;
  bool findable_ = false;
};

/// True when history is on and the tensor takes part in it.
inline bool needs_grad(const Tensor& t) {
  return t.defined() && t.requires_grad() && is_grad_enabled();
}
template <class... Rest>
bool needs_grad(const Tensor& first, const Tensor& second, const Rest&... rest) {
  return needs_grad(first) || needs_grad(second, rest...);
}

/// A node of type N with one edge per input, in order (an undefined or constant input gets an empty edge).
template <class N, class... Inputs>
IntrusivePtr<N> make_node(const Inputs&... inputs) {
  auto node = make_intrusive<N>();
  (node->add_edge(inputs), ...);
  return node;
}

/// Makes `out` the next output of `node`.
void record(Tensor& out, const IntrusivePtr<Node>& node);
/// The same after an operation changed `changed` in place: replaces its history, and its base's when it is a view.
void record_in_place(const Tensor& changed, const IntrusivePtr<Node>& node);
/// Before an in-place operation. Error "a leaf Variable that requires grad is being used in an in-place operation."
void check_in_place(const Tensor& changed);
/// The same where other inputs may bring history (`with_history`) to a tensor that has none.
void check_in_place(const Tensor& changed, bool with_history);
/// Marks `out` as a view of `base` for in-place operations. Views made by core's own functions do this themselves.
void mark_view(const Tensor& out, const Tensor& base);
/// The same for one of several views that one operation makes: these must not be changed in place with history.
void mark_view_of_several(const Tensor& out, const Tensor& base);

/// Where gradients of `t` flow: its node, or the accumulator of a leaf.
Edge gradient_edge(const Tensor& t);

}  // namespace core
