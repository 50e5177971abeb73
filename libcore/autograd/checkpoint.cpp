#include "libcore/autograd/checkpoint.h"

#include <string>

#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/checkpoint_frame.h"
#include "libcore/base/error.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace detail {

thread_local constinit CheckpointFrame* current_frame = nullptr;

namespace {

struct RecomputedMeta final : PlaceholderMeta {
  IntrusivePtr<CheckpointFrame> frame;
  std::uint32_t slot = 0;

  ~RecomputedMeta() override { frame->forget(slot); }
  std::pair<Tensor, std::uint32_t> value() const override { return frame->value(slot); }
};

std::string meta_text(const OutputMeta& meta) {
  return "{'shape': torch.Size(" + to_list(meta.sizes) + "), 'dtype': torch." + std::string(name(meta.dtype)) +
         ", 'device': device(type='" + meta.device.str() + "')}";
}

OutputMeta meta_of(const Tensor& t) {
  return {t.sizes(), t.dtype(), t.device()};
}

}  // namespace

Tensor CheckpointFrame::pack(const Tensor& tensor, bool is_output) {
  if (tensor.requires_grad() && tensor.is_leaf()) return tensor;  // lives on anyway, and must stay that very leaf
  if (!in_forward_) {
    if (next_ < slots_.size()) {
      check_meta(next_, tensor);
      Slot& slot = slots_[next_];
      if (slot.wanted) slot.value = raw::alias(tensor);
      slot.version = tensor.impl()->version();
    }
    ++next_;
    return is_output ? raw::alias(tensor) : tensor;
  }
  auto meta = std::make_unique<RecomputedMeta>();
  meta->frame = IntrusivePtr<CheckpointFrame>(this);
  meta->slot = static_cast<std::uint32_t>(slots_.size());
  if (!is_output) meta->grad_fn = tensor.grad_fn();
  meta->output_nr = tensor.output_nr();
  slots_.push_back({meta_of(tensor), {}, 0, true});
  return make_placeholder(meta.release());
}

Tensor make_placeholder(PlaceholderMeta* meta) {
  auto impl = make_intrusive<TensorImpl>();
  impl->recomputed = true;
  impl->autograd = meta;
  return Tensor(std::move(impl));
}

void CheckpointFrame::check_meta(std::size_t slot, const Tensor& again) const {
  const OutputMeta &before = slots_[slot].meta, now = meta_of(again);
  if (before.sizes == now.sizes && before.dtype == now.dtype && before.device == now.device) return;
  throw Error(ErrorCode::runtime,
              "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
              "the forward pass.\ntensor at position " +
                  std::to_string(slot) + ":\nsaved metadata: " + meta_text(before) +
                  "\nrecomputed metadata: " + meta_text(now) + "\n.");
}

void CheckpointFrame::run() {
  const EnableGradGuard with_history;
  const FrameScope scope(this);
  const AutocastModeGuard as_in_forward(autocast_);
  next_ = 0;
  run_again_();
  if (next_ == slots_.size()) return;
  throw Error(ErrorCode::runtime,
              "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
              "recomputation.\nNumber of tensors saved during forward: " +
                  std::to_string(slots_.size()) +
                  "\nNumber of tensors saved during recomputation: " + std::to_string(next_) + ".");
}

std::pair<Tensor, std::uint32_t> CheckpointFrame::value(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  if (!slots_[slot].value.defined()) run();
  return {slots_[slot].value, slots_[slot].version};
}

void CheckpointFrame::forget(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  slots_[slot].wanted = false;
  slots_[slot].value = {};
}

std::pair<Tensor, std::uint32_t> recomputed_value(const Tensor& placeholder) {
  const auto& meta = *static_cast<PlaceholderMeta*>(placeholder.impl()->autograd.load());
  auto [value, version] = meta.value();
  if (!meta.grad_fn) return {value, version};
  Tensor with_history = raw::alias(value);
  AutogradMeta& own = make_meta(with_history);
  own.grad_fn = meta.grad_fn;
  own.output_nr = meta.output_nr;
  with_history.impl()->requires_grad = true;
  return {with_history, version};
}

}  // namespace detail

namespace {

/// Keeps the inputs under the same guard against changes in place as nodes have.
struct KeptInputs final : Node {
  std::size_t count = 0;
  std::string_view name() const override { return "NoopSaveInputs"; }
  TensorList apply(TensorList grads) override { return grads; }
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < count; ++i) result.push_back(saved(i));
    return result;
  }
};

/// The default generators that the function may draw from.
class RandomStates {
 public:
  explicit RandomStates(const std::vector<Tensor>& inputs) {
    add(Device());
    for (const Tensor& x : inputs) {
      if (x.defined() && x.is_cuda()) add(x.device());
    }
  }
  void set() const {
    for (const auto& [device, state] : states_) default_generator(device).set_state(state);
  }
  /// The same generators as they are now.
  RandomStates now() const {
    RandomStates current;
    for (const auto& [device, state] : states_) current.add(device);
    return current;
  }

 private:
  RandomStates() = default;
  void add(Device device) { states_.emplace_back(device, default_generator(device).state()); }
  std::vector<std::pair<Device, ByteVector>> states_;
};

/// Puts the generators back where they were.
class RandomScope {
 public:
  explicit RandomScope(const RandomStates& wanted) : before_(wanted.now()) { wanted.set(); }
  ~RandomScope() { before_.set(); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomStates before_;
};

}  // namespace

std::vector<Tensor> checkpoint(std::function<std::vector<Tensor>(const std::vector<Tensor>&)> function,
                               const std::vector<Tensor>& inputs, const CheckpointOptions& options) {
  if (!is_grad_enabled()) return function(inputs);
  auto kept = make_intrusive<KeptInputs>();
  kept->count = inputs.size();
  for (const Tensor& input : inputs) kept->save(input);
  std::optional<RandomStates> random;
  if (options.preserve_rng_state) random.emplace(inputs);
  const auto frame = make_intrusive<detail::CheckpointFrame>([function, kept, random] {
    std::optional<RandomScope> as_before;
    if (random) as_before.emplace(*random);
    function(kept->inputs());
  });
  const detail::FrameScope scope(frame.get());
  std::vector<Tensor> outputs = function(inputs);
  frame->end_forward();
  return outputs;
}

Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function, const std::vector<Tensor>& inputs,
                  const CheckpointOptions& options) {
  const auto many = [function](const std::vector<Tensor>& in) { return std::vector<Tensor>{function(in)}; };
  return checkpoint(std::function<std::vector<Tensor>(const std::vector<Tensor>&)>(many), inputs, options)[0];
}

}  // namespace core
