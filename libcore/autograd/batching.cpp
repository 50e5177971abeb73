#include "libcore/autograd/batching.h"

#include <algorithm>

#include "libcore/autograd/batch_rules.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/tensor/storage.h"

namespace core::func::detail {
namespace {

const void* bytes_of(const Tensor& x) {
  return x.storage().operator->();
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

bool is_defined(const Tensor& x) {
  return x.defined();
}

bool is_true(const core::detail::TracedCall& call, std::string_view key) {
  return std::any_of(call.attributes.begin(), call.attributes.end(), [&](const core::detail::TraceAttribute& one) {
    const bool* const truth = std::get_if<bool>(&one.value);
    return key == one.name && truth != nullptr && *truth;
  });
}
bool is_norm_of_batches(const core::detail::TracedCall& call) {
  return call.name == "batch_norm" || call.name == "instance_norm";
}

/// Whether it writes, beside its results, into what it is given: running statistics, or rows that are too long.
bool writes_beside(const core::detail::TracedCall& call) {
  if (call.name == "embedding") return is_true(call, "limits_rows");
  return is_norm_of_batches(call) && is_true(call, "training") &&
         (call.inputs[3].defined() || call.inputs[4].defined());
}

/// Each sample would leave its statistics to the next.
void check_statistics(const core::detail::TracedCall& call, const std::vector<Tensor>& batches) {
  if (!is_norm_of_batches(call) || !is_true(call, "training") || !batches[0].defined()) return;
  const auto is_shared = [&](std::size_t i) { return call.inputs[i].defined() && !batches[i].defined(); };
  if (!is_shared(3) && !is_shared(4)) return;
  throw Error(
      ErrorCode::runtime,
      "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in "
      "place, were not batched.\nIf you are using a module and do not need eval mode, please set "
      "`track_running_stats` to be False.If you are using a prebuilt module and do not need eval mode, please see "
      "the functorch website for resources on how to patch your module to work with vmap");
}

}  // namespace

Batching::Batching(std::int64_t size) : size_(size), around_(of_thread()), scope_(this) {}

Batching::~Batching() = default;

Batching* Batching::of_thread() {
  return static_cast<Batching*>(core::detail::OpBatch::of_thread());
}

bool Batching::may_begin() {
  return of_thread() != nullptr || core::detail::OpTrace::of_thread() == nullptr;
}

void Batching::give_up() {
  failed_ = true;
  throw NotBatched();
}

Tensor Batching::first_of(const Tensor& batch) {
  // A copy, so that what a function does to its sample in place happens to the batch once.
  return stands_for(outside([&] { return batch.select(0, 0).clone(); }), batch);
}

Tensor Batching::stands_for(const Tensor& first, const Tensor& batch) {
  if (entries_.size() >= sweep_at_) forget_unused();
  const TensorImpl* const impl = first.impl().operator->();
  const auto [at, is_new] = entries_.insert_or_assign(impl, Entry{first, batch});
  if (is_new) storages_[bytes_of(first)].push_back(impl);
  return first;
}

/// Those that nobody else holds, and with which nobody shares memory.
void Batching::forget_unused() {
  std::erase_if(storages_, [&](const auto& one) {
    const auto& [bytes, impls] = one;
    const bool unused = std::all_of(impls.begin(), impls.end(), [&](const TensorImpl* impl) {
      return entries_.at(impl).first.impl()->use_count() == 1;
    });
    if (!unused || entries_.at(impls[0]).first.storage()->use_count() > impls.size()) return false;
    for (const TensorImpl* impl : impls) entries_.erase(impl);
    return true;
  });
  sweep_at_ = std::max<std::size_t>(64, 2 * entries_.size());
}

/// Of a tensor that shows the same elements as a known one too. What shares memory otherwise cannot be followed.
Batching::Entry* Batching::entry_of(const Tensor& x) {
  if (!x.defined()) return nullptr;
  const auto known = entries_.find(x.impl().operator->());
  if (known != entries_.end()) return &known->second;
  const auto sharing = storages_.find(bytes_of(x));
  if (sharing == storages_.end()) return nullptr;
  for (const TensorImpl* impl : sharing->second) {
    Entry& entry = entries_.at(impl);
    if (same_elements(entry.first, x) && !x.requires_grad() && !entry.first.requires_grad()) return &entry;
  }
  give_up();
}

Tensor Batching::batch_of(const Tensor& x) {
  Entry* const entry = entry_of(x);
  if (entry == nullptr) return Tensor();
  if (x.requires_grad() && x.is_leaf() && !entry->batch.requires_grad()) entry->batch.requires_grad_();
  // Its history was recorded where no rule saw it, or the other way round.
  if (x.requires_grad() != entry->batch.requires_grad()) give_up();
  return entry->batch;
}

Tensor Batching::whole(const Tensor& x) {
  const Tensor batch = batch_of(x);
  if (batch.defined()) return batch;
  Shape sizes{size_};
  for (const std::int64_t size : x.sizes()) sizes.push_back(size);
  return outside([&] { return x.expand(sizes); });
}

/// Only what the batch itself has made may be written into, and only where all memory is shared alike.
void Batching::check_change(const Tensor& changed) {
  const Entry* const entry = entry_of(changed);
  if (entry == nullptr) give_up();
  const void* const bytes = bytes_of(entry->batch);
  for (const Tensor& outside : outside_) {
    if (bytes_of(outside) == bytes) give_up();
  }
  const void* const of_first = bytes_of(entry->first);
  for (const auto& [impl, other] : entries_) {
    if ((bytes_of(other.first) == of_first) != (bytes_of(other.batch) == bytes)) give_up();
  }
}

/// What is the same for all samples here may differ within the batch around this one.
void Batching::begins(core::detail::TracedCall call) {
  call_ = std::move(call);
  batches_.clear();
  for (const Tensor& x : call_.inputs) batches_.push_back(batch_of(x));
  check_statistics(call_, batches_);
  // At once: what the first sample writes could not be taken back.
  if (writes_beside(call_)) give_up();
  if (std::none_of(batches_.begin(), batches_.end(), is_defined)) {
    if (around_ != nullptr) around_->begins(call_);
    return;
  }
  if (find_batch_rule(call_.name) == nullptr && find_batch_rule_in_place(call_.name) == nullptr) give_up();
}

void Batching::ran(const std::vector<Tensor>& outputs, bool in_place) {
  const core::detail::TracedCall traced = std::move(call_);
  const std::vector<Tensor> batches = std::move(batches_);
  const Tensor changed = in_place ? batch_of(outputs[0]) : Tensor();
  if (std::none_of(batches.begin(), batches.end(), is_defined) && !changed.defined()) {
    if (around_ != nullptr) around_->ran(outputs, in_place);
    return;
  }
  const BatchRule rule = in_place ? find_batch_rule_in_place(traced.name) : find_batch_rule(traced.name);
  if (rule == nullptr) give_up();
  const BatchedCall call{traced, batches, outputs, changed, size_};
  std::vector<Tensor> results;
  try {
    results = outside([&] { return rule(call); });
  } catch (const NotBatched&) {
    give_up();
  } catch (const Error&) {  // what the rule cannot do, the loop may
    give_up();
  }
  for (std::size_t i = 0; !in_place && i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    if (i >= results.size() || !results[i].defined() || results[i].sizes() != call.output_sizes(i) ||
        results[i].dtype() != outputs[i].dtype() || results[i].device() != outputs[i].device())
      give_up();
    stands_for(outputs[i], results[i]);
  }
}

/// Whether the operation on its way is one in place, and `name` its kernel.
bool Batching::writes_into(std::string_view name, const Tensor& out) const {
  if (name.size() != call_.name.size() + 1 || !name.starts_with(call_.name) || !name.ends_with('_')) return false;
  const auto is_out = [&](const Tensor& x) { return x.is_same(out); };
  return call_.name == "copy" || std::any_of(call_.inputs.begin(), call_.inputs.end(), is_out);
}

void Batching::hears(std::string_view name, const Tensor* const* inputs, std::size_t count, bool covered) {
  if (covered) {
    if (count > 0 && writes_into(name, *inputs[0])) check_change(*inputs[0]);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (inputs[i]->defined() && storages_.contains(bytes_of(*inputs[i]))) give_up();
  }
  if (around_ != nullptr) around_->hears(name, inputs, count, covered);
}

/// Of what is the same for all samples a loop would make as many changes as there are samples.
void Batching::changes(const Tensor& changed) {
  if (changed.defined() && !storages_.contains(bytes_of(changed))) give_up();
}

}  // namespace core::func::detail
