#include "libcore/autograd/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libcore/autograd/anomaly_mode.h"
#include "libcore/autograd/autocast.h"
#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/device_workers.h"
#include "libcore/backend/stream_values.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/record_stream.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

thread_local constinit bool graph_is_kept = false;

/// For the apply() of one node; hooks may start a backward of their own in it.
class KeptGraph {
 public:
  explicit KeptGraph(bool is_kept) : before_(graph_is_kept) { graph_is_kept = is_kept; }
  ~KeptGraph() { graph_is_kept = before_; }
  KeptGraph(const KeptGraph&) = delete;
  KeptGraph& operator=(const KeptGraph&) = delete;

 private:
  const bool before_;
};

int device_rank(const Node& node) {
  Device device = node.device();
  return device.is_cuda() ? device.index() : -1;
}

/// The stream that is current on CUDA device `index`.
std::uint64_t current_id(int index) {
  return thread_streams()[static_cast<std::size_t>(index)];
}

/// Memory that may be added into: nobody else sees it, and no element of it stands for several.
bool is_sole_owner(const Tensor& t) {
  if (!t.is_contiguous()) return false;
  return t.impl()->use_count() == 1 && t.storage().id()->use_count() == 1;
}

/// sum + grad, into sum's memory where nobody else sees it.
void add_to(Tensor& sum, Tensor grad) {
  if (!sum.defined()) {
    sum = std::move(grad);
  } else if (sum.is_sparse() || grad.is_sparse()) {
    sum = sum + grad;
  } else if (Tensor both = is_grad_enabled() ? Tensor() : blocked::try_add(sum, grad); both.defined()) {
    sum = std::move(both);
  } else if (!is_grad_enabled() && is_sole_owner(sum) && sum.dtype() == grad.dtype()) {
    raw::binary_in_place(BinaryOp::add, sum, grad);
  } else if (!is_grad_enabled() && is_sole_owner(grad) && sum.dtype() == grad.dtype()) {
    raw::binary_in_place(BinaryOp::add, grad, sum);
    sum = std::move(grad);
  } else {
    sum = sum + grad;
  }
}

/// Whether `target` broadcasts to `sizes`.
bool can_sum_to(const Shape& sizes, const Shape& target) {
  if (target.size() > sizes.size()) return false;
  const std::size_t lead = sizes.size() - target.size();
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != sizes[lead + i] && target[i] != 1) return false;
  }
  return true;
}

}  // namespace

bool detail::keeps_graph() {
  return graph_is_kept;
}

GraphTask::GraphTask(std::span<const Edge> roots, std::span<Tensor> root_grads, const BackwardOptions& options)
    : roots_(roots), root_grads_(root_grads), options_(options) {}

void GraphTask::push(Queue& queue, Entry* entry) {
  queue.push_back(entry);
  std::push_heap(queue.begin(), queue.end(), ByNewest());
}

GraphTask::Entry* GraphTask::pop(Queue& queue) {
  std::pop_heap(queue.begin(), queue.end(), ByNewest());
  Entry* entry = queue.back();
  queue.pop_back();
  return entry;
}

std::vector<Tensor> GraphTask::run(std::span<const Edge> captures) {
  if (detail::runs_for_batch()) detail::OpBatch::of_thread()->runs_backward();
  GradModeGuard mode(options_.create_graph);
  const detail::AutocastModeGuard in_types_of_forward(detail::AutocastMode{});
  captures_ = captures;
  captured_.resize(captures.size());
  discover();
  if (!captures.empty()) mark_needed(captures);
  assign_slots();
  seed();
  if (several_) {
    int limit = std::max(1, num_threads() / static_cast<int>(ready_.size()));
    run_on_workers(static_cast<int>(ready_.size()), [&](int slot) {
      GradModeGuard same(options_.create_graph);
      ThreadLimitGuard threads(limit);
      run_slot(slot);
    });
  } else {
    run_alone();
  }
  if (streams_) join_streams();
  return std::move(captured_);
}

/// Without the nodes that nobody has looked at; a profile shows them.
const Node::Edges& GraphTask::edges_of(const Node& node) {
  const bool shown = node.shows_all() || detail::profiling.load(std::memory_order_relaxed) || detail::anomaly_mode_on();
  return shown ? node.next_edges() : node.direct_edges();
}

/// Finds every node that the roots lead to and counts the edges into each.
void GraphTask::discover() {
  for (const Edge& root : roots_) {
    if (table_.insert(root.node.get()).second) entries_.emplace_back(root.node.get());
  }
  for (std::size_t next = 0; next < entries_.size(); ++next) {
    for (const Edge& edge : *entries_[next].edges) {
      if (!edge.node) continue;
      auto [number, is_new] = table_.insert(edge.node.get());
      if (is_new) entries_.emplace_back(edge.node.get());
      ++entries_[number].missing;
    }
  }
  left_ = entries_.size();
}

/// Only what lies between the roots and a capture is computed.
void GraphTask::mark_needed(std::span<const Edge> captures) {
  std::vector<std::vector<std::uint32_t>> users(entries_.size());
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    entries_[i].needed = false;
    for (const Edge& edge : *entries_[i].edges) {
      if (edge.node) users[table_.find(edge.node.get())].push_back(i);
    }
  }
  std::vector<std::uint32_t> open;
  for (const Edge& capture : captures) {
    if (table_.contains(capture.node.get())) open.push_back(table_.find(capture.node.get()));
  }
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    open.pop_back();
    if (std::exchange(entries_[at].needed, true)) continue;
    for (std::uint32_t user : users[at]) open.push_back(user);
  }
}

/// One worker per device that has nodes; a graph on one device stays on the calling thread.
void GraphTask::assign_slots() {
  InlineVector<int, 8> ranks;
  for (const Entry& entry : entries_) {
    int rank = device_rank(*entry.node);
    streams_ = streams_ || (rank >= 0 && !entry.node->is_accumulator() && entry.node->stream() != current_id(rank));
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  if (streams_) caller_streams_ = thread_streams();
  bool devices = ranks.size() > 2 || (ranks.size() == 2 && ranks[0] >= 0);
  devices = devices && !on_device_worker();  // a worker must not wait for others
  several_ = devices;
  ready_.resize(devices ? ranks.size() : 1);
  if (!devices) return;
  for (Entry& entry : entries_) {
    auto at = std::find(ranks.begin(), ranks.end(), device_rank(*entry.node));
    entry.slot = static_cast<int>(at - ranks.begin());
  }
}

void GraphTask::seed() {
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    add_to_entry(entry_of(roots_[i]), roots_[i].input_nr, std::move(root_grads_[i]));
  }
  for (Entry& entry : entries_) {
    if (entry.missing == 0) push(ready_[static_cast<std::size_t>(entry.slot)], &entry);
  }
}

void GraphTask::run_alone() {
  auto& queue = ready_[0];
  while (!queue.empty()) evaluate(*pop(queue));
}

GraphTask::Entry* GraphTask::take_ready(int slot) {
  auto& queue = ready_[static_cast<std::size_t>(slot)];
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !queue.empty() || left_ == 0 || failed_; });
  return queue.empty() || failed_ ? nullptr : pop(queue);
}

void GraphTask::run_slot(int slot) {
  try {
    while (Entry* entry = take_ready(slot)) {
      cuda::DeviceGuard current(entry->node->device());
      evaluate(*entry);
      std::lock_guard lock(mutex_);
      if (--left_ == 0) changed_.notify_all();
    }
  } catch (...) {
    std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
    throw;
  }
}

// --- Streams

/// Where it runs: its operation's stream; a leaf has none. REQUIRES: streams_, and the node's device is a CUDA device.
std::uint64_t GraphTask::stream_id(const Node& node) const {
  return node.is_accumulator() ? caller_streams_[static_cast<std::size_t>(node.device().index())] : node.stream();
}

/// The stream of `to` comes after the current one, which makes `grad`.
void GraphTask::hand_over(const Tensor& grad, const Node& to) const {
  if (!streams_ || !grad.defined() || !grad.is_cuda() || grad.device() != to.device()) return;
  if (stream_id(to) == current_id(to.device().index())) return;
  const cuda::Stream consumer = stream_of(to.device(), stream_id(to));
  consumer.wait_stream(cuda::current_stream(grad.device()));
  if (!grad.is_sparse()) record_stream(grad, consumer);
}

/// The caller's current streams come after those that nodes ran on.
void GraphTask::join_streams() const {
  std::vector<cuda::Stream> joined;
  for (const Entry& entry : entries_) {
    const Device device = entry.node->device();
    if (!device.is_cuda() || stream_id(*entry.node) == current_id(device.index())) continue;
    const cuda::Stream stream = stream_of(device, stream_id(*entry.node));
    if (std::find(joined.begin(), joined.end(), stream) != joined.end()) continue;
    cuda::current_stream(device).wait_stream(stream);
    joined.push_back(stream);
  }
}

// --- Nodes

void GraphTask::evaluate(Entry& entry) {
  if (!streams_ || !entry.node->device().is_cuda()) return evaluate_here(entry);
  const cuda::StreamGuard guard(stream_of(entry.node->device(), stream_id(*entry.node)));
  evaluate_here(entry);
}

void GraphTask::evaluate_here(Entry& entry) {
  const detail::NodeScope scope(detail::EventKind::evaluation, *entry.node);
  if (several_) sum_waiting(entry);
  if (entry.grads.empty()) entry.grads.resize(entry.node->outputs().size());
  if (entry.node->has_hooks() && entry.needed) {
    for (const GradHook& hook : std::vector<GradHook>(entry.node->hooks())) {  // a hook may remove itself
      Tensor& grad = entry.grads[hook.output_nr];
      if (grad.defined()) detail::run_hook(hook, grad);
    }
  }
  if (!captures_.empty() && entry.node->is_accumulator() && entry.needed && entry.grads[0].defined()) {
    entry.grads[0] = static_cast<AccumulateGrad*>(entry.node)->hooked(std::move(entry.grads[0]));
  }
  store_captures(entry);
  deliver(entry, apply_node(entry));
}

/// Nothing where no gradient arrives, or none is wanted.
TensorList GraphTask::apply_node(Entry& entry) {
  Node& node = *entry.node;
  bool any = std::any_of(entry.grads.begin(), entry.grads.end(), [](const Tensor& t) { return t.defined(); });
  if (!any || !entry.needed || (!captures_.empty() && node.is_accumulator())) return {};
  const KeptGraph kept(options_.keep_graph);
  const detail::NodeScope scope(detail::EventKind::backward, node);
  const bool directly = entry.goes_directly();
  TensorList results = detail::anomaly_mode_on() ? detail::checked_apply(node, std::move(entry.grads), directly)
                                                 : detail::applied(node, std::move(entry.grads), directly);
  if (!options_.keep_graph) node.release_saved();
  return results;
}

void GraphTask::store_captures(Entry& entry) {
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    if (captures_[i].node.get() == entry.node) captured_[i] = entry.grads[captures_[i].input_nr];
  }
}

void GraphTask::deliver(Entry& from, TensorList results) {
  const auto& edges = *from.edges;
  for (std::uint32_t i = 0; i < edges.size(); ++i) {
    if (!edges[i].node) continue;
    Tensor grad = i < results.size() ? std::move(results[i]) : Tensor();
    Entry& to = entry_of(edges[i]);
    if (grad.defined()) grad = validated(*from.node, i, to.node->outputs()[edges[i].input_nr], std::move(grad));
    add_contribution(to, from, i, std::move(grad));
  }
}

/// In the order of the streams of both nodes.
void GraphTask::add_to_entry(Entry& to, std::uint32_t input_nr, Tensor grad) {
  if (to.grads.empty()) to.grads.resize(to.node->outputs().size());
  if (!streams_ || !to.node->device().is_cuda()) return add_to(to.grads[input_nr], std::move(grad));
  hand_over(grad, *to.node);
  const cuda::StreamGuard guard(stream_of(to.node->device(), stream_id(*to.node)));
  add_to(to.grads[input_nr], std::move(grad));
}

void GraphTask::add_contribution(Entry& to, Entry& from, std::uint32_t edge, Tensor grad) {
  auto& queue = ready_[static_cast<std::size_t>(to.slot)];
  const std::uint32_t input_nr = (*from.edges)[edge].input_nr;
  if (!several_) {
    if (grad.defined()) add_to_entry(to, input_nr, std::move(grad));
    if (--to.missing == 0) push(queue, &to);
    return;
  }
  hand_over(grad, *to.node);
  std::lock_guard lock(mutex_);
  if (grad.defined()) {
    to.waiting.push_back({input_nr, device_rank(*from.node), from.sequence, edge, std::move(grad)});
  }
  if (--to.missing != 0) return;
  push(queue, &to);
  changed_.notify_all();
}

/// By device, then as a run on one device would have them: newest operation first.
void GraphTask::sum_waiting(Entry& entry) {
  std::sort(entry.waiting.begin(), entry.waiting.end(), [](const Contribution& a, const Contribution& b) {
    if (a.device != b.device) return a.device < b.device;
    if (a.sequence != b.sequence) return a.sequence > b.sequence;
    return a.edge < b.edge;
  });
  if (entry.grads.empty()) entry.grads.resize(entry.node->outputs().size());
  for (Contribution& addend : entry.waiting) add_to(entry.grads[addend.input_nr], std::move(addend.grad));
  entry.waiting.clear();
}

/// Gradients of broadcast or promoted inputs come back in the input's shape and dtype.
Tensor GraphTask::validated(const Node& from, std::size_t index, const OutputMeta& expected, Tensor grad) const {
  if (grad.sizes() != expected.sizes) {
    if (!can_sum_to(grad.sizes(), expected.sizes)) {
      throw Error(ErrorCode::runtime, "Function " + std::string(from.name()) +
                                          " returned an invalid gradient at index " + std::to_string(index) +
                                          " - got " + to_list(grad.sizes()) + " but expected shape compatible with " +
                                          to_list(expected.sizes));
    }
    grad = sum_to(grad, expected.sizes);
  }
  if (is_complex(grad) && !core::is_complex(expected.dtype)) grad = real(grad);
  if (grad.dtype() != expected.dtype) grad = grad.to(expected.dtype);
  if (grad.device() != expected.device && grad.dim() == 0) grad = grad.to(expected.device);  // a number that mixed in
  if (grad.device() != expected.device) {
    throw Error(ErrorCode::runtime, "Function " + std::string(from.name()) + " returned an invalid gradient at index " +
                                        std::to_string(index) + " - expected device " + expected.device.str() +
                                        " but got " + grad.device().str());
  }
  return grad;
}

}  // namespace core
