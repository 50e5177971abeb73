#pragma once
// The engine: walks a graph from its roots, newest operation first, and hands gradients on. Iterative.
// Nodes of several devices run one worker a device; contributions to one gradient are then summed in device order, so
// that a run is reproducible. A node runs on the stream that was current when its operation was recorded, after what
// its gradients come from; leaves get theirs on the caller's current streams, and these come after everything when
// run() returns. Internal to autograd; users call backward() and core::grad(). Thread safety: one GraphTask is one
// call; several calls may run at once on different graphs.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/autograd/node_table.h"
#include "libcore/backend/thread_streams.h"

namespace core {

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;
};

class GraphTask {
 public:
  GraphTask(std::span<const Edge> roots, std::span<Tensor> root_grads, const BackwardOptions& options);
  /// Without captures gradients go to the leaves; with them only the gradients that arrive at these edges are computed
  /// and returned, in order, undefined where an edge is not reached.
  std::vector<Tensor> run(std::span<const Edge> captures);

 private:
  /// One addend of a gradient that waits for the others, in a run over several devices.
  struct Contribution {
    std::uint32_t input_nr;
    int device;
    std::uint64_t sequence;
    std::uint32_t edge;
    Tensor grad;
  };
  struct Entry {
    explicit Entry(Node* its_node) : node(its_node), edges(&edges_of(*its_node)), sequence(its_node->sequence_nr()) {}
    bool goes_directly() const { return edges == &node->direct_edges(); }
    Node* node;
    const Node::Edges* edges = nullptr;  // what the walk goes by
    std::uint64_t sequence;
    int missing = 0;     // edges into the node that have not delivered yet
    bool needed = true;  // lies on a way to a capture
    int slot = 0;        // worker
    TensorList grads;
    std::vector<Contribution> waiting;
  };
  struct ByNewest {
    bool operator()(const Entry* a, const Entry* b) const { return a->sequence < b->sequence; }
  };
  using Queue = InlineVector<Entry*, 16>;

  static const Node::Edges& edges_of(const Node& node);
  void discover();
  void mark_needed(std::span<const Edge> captures);
  void assign_slots();
  void seed();
  void run_alone();
  void run_slot(int slot);
  Entry* take_ready(int slot);
  void evaluate(Entry& entry);
  void evaluate_here(Entry& entry);
  void add_to_entry(Entry& to, std::uint32_t input_nr, Tensor grad);
  void hand_over(const Tensor& grad, const Node& to) const;
  std::uint64_t stream_id(const Node& node) const;
  void join_streams() const;
  TensorList apply_node(Entry& entry);
  void deliver(Entry& from, TensorList results);
  void add_contribution(Entry& to, Entry& from, std::uint32_t edge, Tensor grad);
  void sum_waiting(Entry& entry);
  void store_captures(Entry& entry);
  Tensor validated(const Node& from, std::size_t index, const OutputMeta& expected, Tensor grad) const;
  Entry& entry_of(const Edge& edge) { return entries_[table_.find(edge.node.get())]; }
  static void push(Queue& queue, Entry* entry);
  static Entry* pop(Queue& queue);

  std::span<const Edge> roots_;
  std::span<Tensor> root_grads_;
  BackwardOptions options_;
  InlineVector<Entry, 24> entries_;  // in the order of discovery; complete before pointers into it are taken
  NodeTable table_;
  std::span<const Edge> captures_;
  std::vector<Tensor> captured_;

  // Ready nodes per worker, and what the workers share.
  InlineVector<Queue, 1> ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t left_ = 0;  // entries not evaluated yet
  bool several_ = false;
  bool streams_ = false;  // some nodes run on other streams than the caller's current ones
  ThreadStreams caller_streams_;
  bool failed_ = false;
};

namespace detail {
/// backward of one output; `given` may be undefined for a scalar. Errors: as core::backward.
void backward_one(const Tensor& output, const Tensor& given, const BackwardOptions& options);
/// In apply(): whether what was saved stays for another backward.
bool keeps_graph();
}  // namespace detail

}  // namespace core
