#include "libcore/autograd/engine.h"

#include <algorithm>
#include <string>

#include "libcore/autograd/anomaly_mode.h"
#include "libcore/autograd/autograd_meta.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/device_workers.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/raw_ops.h"

namespace core {
namespace {

int device_rank(const Node& node) {
  Device device = node.device();
  return device.is_cuda() ? device.index() : -1;
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

bool GraphTask::ByNewest::operator()(const Entry* a, const Entry* b) const {
  return a->node->sequence_nr() < b->node->sequence_nr();
}

GraphTask::GraphTask(std::span<const Edge> roots, std::vector<Tensor> root_grads, const BackwardOptions& options)
    : roots_(roots), root_grads_(std::move(root_grads)), options_(options) {}

std::vector<Tensor> GraphTask::run(std::span<const Edge> captures) {
  GradModeGuard mode(options_.create_graph);
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
  return std::move(captured_);
}

/// Finds every node that the roots lead to and counts the edges into each.
void GraphTask::discover() {
  std::vector<Node*> open;
  for (const Edge& root : roots_) {
    if (entries_.try_emplace(root.node.get()).second) open.push_back(root.node.get());
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    entries_[node].node = node;
    for (const Edge& edge : node->next_edges()) {
      if (!edge.node) continue;
      auto [found, is_new] = entries_.try_emplace(edge.node.get());
      ++found->second.missing;
      if (is_new) open.push_back(edge.node.get());
    }
  }
  left_ = entries_.size();
}

/// Only what lies between the roots and a capture is computed.
void GraphTask::mark_needed(std::span<const Edge> captures) {
  std::unordered_map<Node*, std::vector<Node*>> users;
  for (auto& [node, entry] : entries_) {
    entry.needed = false;
    for (const Edge& edge : node->next_edges()) {
      if (edge.node) users[edge.node.get()].push_back(node);
    }
  }
  std::vector<Node*> open;
  for (const Edge& capture : captures) {
    if (entries_.count(capture.node.get()) != 0) open.push_back(capture.node.get());
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    Entry& entry = entries_[node];
    if (std::exchange(entry.needed, true)) continue;
    for (Node* user : users[node]) open.push_back(user);
  }
}

/// One worker per device that has nodes; a graph on one device stays on the calling thread.
void GraphTask::assign_slots() {
  std::vector<int> ranks;
  for (auto& [node, entry] : entries_) {
    int rank = device_rank(*node);
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  bool devices = ranks.size() > 2 || (ranks.size() == 2 && ranks[0] >= 0);
  devices = devices && !on_device_worker();  // a worker must not wait for others
  several_ = devices;
  ready_.resize(devices ? ranks.size() : 1);
  if (!devices) return;
  for (auto& [node, entry] : entries_) {
    auto at = std::find(ranks.begin(), ranks.end(), device_rank(*node));
    entry.slot = static_cast<int>(at - ranks.begin());
  }
}

void GraphTask::seed() {
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    Entry& entry = entries_[roots_[i].node.get()];
    if (entry.grads.empty()) entry.grads.resize(entry.node->outputs().size());
    add_to(entry.grads[roots_[i].input_nr], root_grads_[i]);
  }
  for (auto& [node, entry] : entries_) {
    if (entry.missing != 0) continue;
    ready_[static_cast<std::size_t>(entry.slot)].push_back(&entry);
  }
  for (auto& queue : ready_) std::make_heap(queue.begin(), queue.end(), ByNewest());
}

void GraphTask::run_alone() {
  auto& queue = ready_[0];
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), ByNewest());
    Entry* entry = queue.back();
    queue.pop_back();
    evaluate(*entry);
  }
}

GraphTask::Entry* GraphTask::take_ready(int slot) {
  auto& queue = ready_[static_cast<std::size_t>(slot)];
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !queue.empty() || left_ == 0 || failed_; });
  if (queue.empty() || failed_) return nullptr;
  std::pop_heap(queue.begin(), queue.end(), ByNewest());
  Entry* entry = queue.back();
  queue.pop_back();
  return entry;
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

void GraphTask::evaluate(Entry& entry) {
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
  TensorList results = detail::anomaly_mode_on() ? detail::checked_apply(node, std::move(entry.grads))
                                                 : node.apply(std::move(entry.grads));
  if (!options_.keep_graph) node.release_saved();
  return results;
}

void GraphTask::store_captures(Entry& entry) {
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    if (captures_[i].node.get() == entry.node) captured_[i] = entry.grads[captures_[i].input_nr];
  }
}

void GraphTask::deliver(Entry& from, TensorList results) {
  const auto& edges = from.node->next_edges();
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i].node) continue;
    Tensor grad = i < results.size() ? std::move(results[i]) : Tensor();
    if (grad.defined()) grad = validated(*from.node, i, edges[i], std::move(grad));
    Entry& to = entries_.find(edges[i].node.get())->second;
    Contribution contribution{edges[i].input_nr, device_rank(*from.node), from.node->sequence_nr(),
                              static_cast<std::uint32_t>(i), std::move(grad)};
    add_contribution(to, std::move(contribution));
  }
}

void GraphTask::add_contribution(Entry& to, Contribution contribution) {
  auto& queue = ready_[static_cast<std::size_t>(to.slot)];
  if (!several_) {
    if (to.grads.empty()) to.grads.resize(to.node->outputs().size());
    if (contribution.grad.defined()) add_to(to.grads[contribution.input_nr], std::move(contribution.grad));
    if (--to.missing != 0) return;
    queue.push_back(&to);
    std::push_heap(queue.begin(), queue.end(), ByNewest());
    return;
  }
  std::lock_guard lock(mutex_);
  if (contribution.grad.defined()) to.waiting.push_back(std::move(contribution));
  if (--to.missing != 0) return;
  queue.push_back(&to);
  std::push_heap(queue.begin(), queue.end(), ByNewest());
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
Tensor GraphTask::validated(const Node& from, std::size_t index, const Edge& edge, Tensor grad) const {
  const OutputMeta& expected = edge.node->outputs()[edge.input_nr];
  if (grad.sizes() != expected.sizes) {
    if (!can_sum_to(grad.sizes(), expected.sizes)) {
      throw Error(ErrorCode::runtime, "Function " + std::string(from.name()) +
                                          " returned an invalid gradient at index " + std::to_string(index) +
                                          " - got " + to_list(grad.sizes()) + " but expected shape compatible with " +
                                          to_list(expected.sizes));
    }
    grad = sum_to(grad, expected.sizes);
  }
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
