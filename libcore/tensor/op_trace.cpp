#include "libcore/tensor/op_trace.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/storage.h"

namespace core::detail {
namespace {

thread_local constinit OpTrace* thread_trace = nullptr;
thread_local constinit OpBatch* thread_batch = nullptr;

}  // namespace

const TraceAttribute* TracedOp::find(std::string_view key) const {
  for (const TraceAttribute& one : attributes) {
    if (key == one.name) return &one;
  }
  return nullptr;
}

OpTrace* OpTrace::of_thread() {
  return thread_trace;
}

bool traces_here() {
  return thread_trace != nullptr && thread_trace->is_outside();
}

OpTrace::OpTrace(const std::vector<std::pair<std::string, Tensor>>& inputs) {
  if (thread_trace != nullptr) throw Error(ErrorCode::usage, "this thread traces a forward pass already");
  for (const auto& [name, tensor] : inputs) {
    values_[static_cast<std::size_t>(new_value(tensor, TraceSource::input, -1))].name = name;
  }
  thread_trace = this;
  tracing.fetch_add(1);
  watch_kernels(true);
}

OpTrace::~OpTrace() {
  stop();
}

void OpTrace::stop() {
  if (!running_) return;
  running_ = false;
  thread_trace = nullptr;
  watch_kernels(false);
  tracing.fetch_sub(1);
}

void OpTrace::add_state(const std::string& name, const Tensor& tensor) {
  if (!tensor.defined() || places_.contains(tensor.impl().operator->())) return;
  values_[static_cast<std::size_t>(new_value(tensor, TraceSource::state, -1))].name = name;
}

std::ptrdiff_t OpTrace::new_value(const Tensor& tensor, TraceSource source, std::ptrdiff_t op) {
  const auto place = static_cast<std::ptrdiff_t>(values_.size());
  values_.push_back({.tensor = tensor, .source = source, .op = op});
  places_[tensor.impl().operator->()] = place;
  return place;
}

std::ptrdiff_t OpTrace::value_of(const Tensor& tensor) {
  if (!tensor.defined()) return -1;
  const auto known = places_.find(tensor.impl().operator->());
  return known != places_.end() ? known->second : new_value(tensor, TraceSource::constant, -1);
}

void OpTrace::note(const char* name, const Tensor* const* inputs, std::size_t count) {
  const auto depends = [&](const Tensor* x) {
    if (!x->defined()) return false;
    const auto known = places_.find(x->impl().operator->());
    if (known == places_.end()) return false;
    const TracedValue& value = values_[static_cast<std::size_t>(known->second)];
    return value.source == TraceSource::input || value.follows_inputs;
  };
  if (count == 0 || std::any_of(inputs, inputs + count, depends)) {
    untraced_.push_back({name, modules_.empty() ? std::string() : modules_.back()});
  }
}

/// Whoever else looks at the same memory sees another value than the trace says.
void OpTrace::mark_changed(const Tensor& changed, const std::string& by, bool by_inputs) {
  const auto own = places_.find(changed.impl().operator->());
  for (const auto& [impl, place] : places_) {
    TracedValue& value = values_[static_cast<std::size_t>(place)];
    if (own != places_.end() && place == own->second) {
      value.overwritten = true;
      continue;
    }
    if (value.tensor.storage().operator->() != changed.storage().operator->()) continue;
    value.changed_by = by;
    value.follows_inputs = value.follows_inputs || by_inputs;
  }
}

TraceFrame::TraceFrame(std::string_view name, const std::vector<Tensor>& inputs, std::vector<TraceAttribute> attributes)
    : trace_(*OpTrace::of_thread()) {
  if (thread_batch != nullptr) {
    thread_batch->begins({name, inputs, std::move(attributes)});
    ++trace_.depth_;
    return;
  }
  op_.name = name;
  op_.attributes = std::move(attributes);
  for (const Tensor& x : inputs) op_.inputs.push_back(trace_.value_of(x));
  if (!trace_.modules_.empty()) op_.module = trace_.modules_.back();
  ++trace_.depth_;
}

TraceFrame::~TraceFrame() {
  --trace_.depth_;
}

void TraceFrame::end(const std::vector<Tensor>& outputs, bool in_place) {
  if (thread_batch != nullptr) return thread_batch->ran(outputs, in_place);
  TraceSource source = TraceSource::constant;
  for (const std::ptrdiff_t place : op_.inputs) {
    if (place < 0) continue;
    const TracedValue& value = trace_.values_[static_cast<std::size_t>(place)];
    source = std::max(source, value.follows_inputs ? TraceSource::input : value.source);
  }
  const auto number = static_cast<std::ptrdiff_t>(trace_.ops_.size());
  if (in_place) trace_.mark_changed(outputs[0], op_.name, source == TraceSource::input);
  for (const Tensor& y : outputs) op_.outputs.push_back(y.defined() ? trace_.new_value(y, source, number) : -1);
  trace_.ops_.push_back(std::move(op_));
}

void note_untraced(const char* name, const Tensor& x) {
  const Tensor* one[] = {&x};
  if (thread_batch != nullptr) return thread_batch->hears(name, one, 1, false);
  OpTrace::of_thread()->note(name, one, 1);
}

void note_hidden_casts() {
  if (OpTrace* trace = OpTrace::of_thread()) trace->note_hidden_casts();
}

void note_kernel(std::string_view name, const Tensor* const* inputs, std::size_t count) {
  if (thread_batch != nullptr) return thread_batch->hears(name, inputs, count, !traces_here());
  if (traces_here()) OpTrace::of_thread()->note(std::string(name).c_str(), inputs, count);
}

OpBatch* OpBatch::of_thread() {
  return thread_batch;
}

OpBatchScope::OpBatchScope(OpBatch* batch) : batch_before_(thread_batch), trace_before_(thread_trace) {
  thread_batch = nullptr;
  thread_trace = nullptr;
  if (batch == nullptr) return;
  own_ = std::make_unique<OpTrace>(std::vector<std::pair<std::string, Tensor>>());
  thread_batch = batch;
}

OpBatchScope::~OpBatchScope() {
  own_.reset();
  thread_batch = batch_before_;
  thread_trace = trace_before_;
}

}  // namespace core::detail
