#include "libcore/autograd/saved_hooks.h"

#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/checkpoint_frame.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace detail {

thread_local constinit const std::shared_ptr<const SavedHooks>* current_saved_hooks = nullptr;

namespace {

thread_local constinit const std::string* refused = nullptr;

struct PackedMeta final : PlaceholderMeta {
  std::shared_ptr<const SavedHooks> hooks;
  std::any packed;

  std::pair<Tensor, std::uint32_t> value() const override {
    const NoGradGuard no_history;
    Tensor value = hooks->unpack(packed);
    if (!value.defined()) {
      throw Error(ErrorCode::type,
                  "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                  "NoneType");
    }
    // A handle of its own: history is put on it.
    value = raw::alias(value);
    return {value, value.impl()->version()};
  }
};

}  // namespace

Tensor pack_by_hooks(const Tensor& tensor, bool is_output) {
  auto meta = std::make_unique<PackedMeta>();
  meta->hooks = *current_saved_hooks;
  meta->output_nr = tensor.output_nr();
  // A gradient with history flows on to where the tensor itself came from; to a leaf through its accumulator.
  if (!is_output && tensor.requires_grad()) {
    const Edge edge = gradient_edge(tensor);
    meta->grad_fn = edge.node;
    meta->output_nr = edge.input_nr;
  }
  const std::uint32_t version = tensor.impl()->version();
  {
    const NoGradGuard no_history;
    meta->packed = meta->hooks->pack(is_output ? raw::alias(tensor) : tensor);
  }
  if (tensor.impl()->version() != version) {
    throw Error(ErrorCode::runtime,
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                "cannot be modified by in-place operations as this can lead to unexpected side-effects. Please open an "
                "issue if you need to perform in-place operations on the input to a pack hook.");
  }
  return make_placeholder(meta.release());
}

SavedHooksScope::SavedHooksScope(SavedHooks hooks)
    : hooks_(std::make_shared<const SavedHooks>(std::move(hooks))),
      previous_(current_saved_hooks),
      frame_(current_frame) {
  if (refused != nullptr) throw Error(ErrorCode::runtime, *refused);
  current_saved_hooks = &hooks_;
  current_frame = nullptr;
}

SavedHooksScope::~SavedHooksScope() {
  current_saved_hooks = previous_;
  current_frame = frame_;
}

}  // namespace detail

namespace {

struct OnCpu {
  Device from;
  Tensor copy;
};

detail::SavedHooks cpu_hooks(bool pinned) {
  const auto pack = [pinned](const Tensor& t) -> std::any {
    if (!pinned) return OnCpu{t.device(), t.detach().cpu()};
    return OnCpu{t.device(), pin_memory(t.detach().cpu())};
  };
  const auto unpack = [](const std::any& packed) {
    const auto& kept = std::any_cast<const OnCpu&>(packed);
    return kept.copy.to(kept.from);
  };
  return {pack, unpack};
}

}  // namespace

save_on_cpu::save_on_cpu(bool pin_memory) : SavedHooksScope(cpu_hooks(pin_memory)) {}

disable_saved_tensors_hooks::disable_saved_tensors_hooks(std::string message)
    : message_(std::move(message)), previous_(std::exchange(detail::refused, &message_)) {}

disable_saved_tensors_hooks::~disable_saved_tensors_hooks() {
  detail::refused = previous_;
}

}  // namespace core
