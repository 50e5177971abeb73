#include "libcore/autograd/node.h"

#include <memory>
#include <utility>
#include <vector>

#include "libcore/autograd/anomaly_mode.h"
#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/checkpoint_frame.h"
#include "libcore/autograd/saved_hooks.h"
#include "libcore/backend/host_memory.h"
#include "libcore/backend/thread_streams.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/profile_events.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

// Per thread: the numbers of one thread's operations do not depend on what others do meanwhile.
thread_local constinit std::uint64_t next_sequence = 0;
thread_local constinit bool grad_enabled = true;

constexpr std::string_view kSecondBackward =
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward.";

/// "Exp" of "ExpBackward0".
std::string operation_name(std::string_view node) {
  std::size_t end = node.find("Backward");
  return std::string(node.substr(0, end));
}

[[noreturn]] void throw_changed(const Tensor& t, std::uint32_t expected, std::uint32_t output_nr,
                                std::string_view node) {
  throw Error(
      ErrorCode::runtime,
      std::string("one of the variables needed for gradient computation has been modified by an inplace "
                  "operation: [torch.") +
          (t.is_cuda() ? "cuda." : "") + scalar_type_name(t.dtype()) + "Tensor " + to_list(t.sizes()) + "]" +
          (node.empty() ? "" : ", which is output " + std::to_string(output_nr) + " of " + operation_name(node) + ",") +
          " is at version " + std::to_string(t.impl()->version()) + "; expected version " + std::to_string(expected) +
          " instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
          "with torch.autograd.set_detect_anomaly(True, check_nan=False).");
}

}  // namespace

std::uint64_t detail::next_sequence_nr() {
  return next_sequence;
}
bool is_grad_enabled() {
  return grad_enabled;
}
bool is_inference_mode() {
  return making_inference_tensors;
}
GradModeGuard::GradModeGuard(bool enabled) : previous_(std::exchange(grad_enabled, enabled)) {}
GradModeGuard::~GradModeGuard() {
  grad_enabled = previous_;
}
InferenceModeGuard::InferenceModeGuard(bool enabled)
    : grad_(!enabled), previous_(std::exchange(making_inference_tensors, enabled)) {}
InferenceModeGuard::~InferenceModeGuard() {
  making_inference_tensors = previous_;
}

SavedTensor::SavedTensor(const Tensor& tensor, bool is_output) : is_output_(is_output) {
  if (!tensor.defined()) return;
  if (tensor.is_inference()) {
    throw Error(
        ErrorCode::runtime,
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
        "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
        "use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.");
  }
  version_ = tensor.impl()->version();
  output_nr_ = tensor.output_nr();
  if (detail::current_frame != nullptr) {
    tensor_ = detail::current_frame->pack(tensor, is_output);
  } else if (detail::current_saved_hooks != nullptr) {
    tensor_ = detail::pack_by_hooks(tensor, is_output);
  } else {
    tensor_ = is_output ? raw::alias(tensor) : tensor;
  }
}

Node::Node() : sequence_nr_(next_sequence++) {
  if (detail::anomaly_mode_on()) detail::note_forward(*this);
}

Node::~Node() {
  delete all_edges_.load(std::memory_order_acquire);
}

void Node::count_skipped_node() {
  ++next_sequence;
}

IntrusivePtr<Node> Node::skipped_node(Edge) const {
  return {};
}

const Node::Edges& Node::with_skipped() const {
  if (const Edges* known = all_edges_.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<Edges>(edges_);
  Edge& edge = (*made)[skipped_];
  const std::uint64_t sequence = std::exchange(next_sequence, sequence_nr_ - 1);  // by count_skipped_node()
  edge = {skipped_node(std::move(edge)), 0};
  next_sequence = sequence;
  edge.node->stream_ = stream_;
  Edges* before = nullptr;
  if (!all_edges_.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) return *before;
  return *made.release();
}

void* Node::operator new(std::size_t bytes) {
  return host_allocate(bytes);
}
void Node::operator delete(void* block, std::size_t bytes) noexcept {
  host_free(block, bytes);
}

void Node::destroy(Node* node) noexcept {
  // A chain of a million nodes must not become a million nested destructors.
  thread_local constinit bool ending = false;
  thread_local constinit Node* waiting = nullptr;
  node->next_to_end_ = waiting;
  waiting = node;
  if (ending) return;
  ending = true;
  while (waiting != nullptr) delete std::exchange(waiting, waiting->next_to_end_);
  ending = false;
}

void Node::release_saved() {
  saved_.clear();
  released_ = true;
}

std::vector<GradHook>& Node::hooks() {
  if (!hooks_) hooks_ = std::make_unique<std::vector<GradHook>>();
  return *hooks_;
}

void Node::add_edge(const Tensor& input) {
  edges_.push_back(input.defined() && input.requires_grad() ? gradient_edge(input) : Edge{});
}

/// The current one of `device`, by id; 0 where there are none.
static std::uint64_t current_stream_id(Device device) {
  return device.is_cuda() ? thread_streams()[static_cast<std::size_t>(device.index())] : 0;
}

void Node::add_output(OutputMeta output) {
  outputs_.push_back(std::move(output));
  if (outputs_.size() == 1) stream_ = current_stream_id(device());
}

std::uint32_t Node::add_output(const Tensor& output) {
  outputs_.push_back({output.sizes(), output.dtype(), output.device()});
  if (outputs_.size() == 1) stream_ = current_stream_id(device());
  return static_cast<std::uint32_t>(outputs_.size() - 1);
}

void Node::check_not_freed() const {
  if (released_) throw Error(ErrorCode::runtime, std::string(kSecondBackward));
}

Tensor Node::saved(std::size_t i) const {
  check_not_freed();
  const SavedTensor& kept = saved_[i];
  if (!kept.tensor_.defined()) return {};
  if (!kept.tensor_.impl()->recomputed) return unpacked(kept, kept.tensor_, kept.version_);
  const auto [value, version] = detail::recomputed_value(kept.tensor_);
  return unpacked(kept, value, version);
}

Tensor Node::unpacked(const SavedTensor& kept, const Tensor& value, std::uint32_t version) const {
  if (value.impl()->version() != version) {
    const auto& maker = value.grad_fn();
    std::string_view node = kept.is_output_ ? name() : maker ? maker->name() : std::string_view();
    throw_changed(value, version, kept.output_nr_, node);
  }
  if (!kept.is_output_ || !is_grad_enabled()) return value;
  // With history wanted, the output gets its own node back.
  Tensor output = raw::alias(value);
  AutogradMeta& meta = make_meta(output);
  meta.grad_fn = IntrusivePtr<Node>(const_cast<Node*>(this));
  meta.output_nr = kept.output_nr_;
  output.impl()->requires_grad = true;
  return output;
}

}  // namespace core
