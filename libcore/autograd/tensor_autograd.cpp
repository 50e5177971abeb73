// The methods of Tensor that need autograd, and how operations hang their nodes onto tensors.
#include <string>

#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/copy_slices.h"
#include "libcore/autograd/engine.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/host_memory.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/untracked_views.h"

namespace core {

void* AutogradMeta::operator new(std::size_t bytes) {
  return host_allocate(bytes);
}
void AutogradMeta::operator delete(void* block, std::size_t bytes) noexcept {
  host_free(block, bytes);
}

AutogradMeta& make_meta(const Tensor& t) {
  if (AutogradMeta* known = try_meta(t)) return *known;
  auto* made = new AutogradMeta;
  t.impl()->autograd.store(made, std::memory_order_release);
  return *made;
}

AutogradMeta& make_shared_meta(const Tensor& t) {
  if (AutogradMeta* known = try_meta(t)) return *known;
  auto made = std::make_unique<AutogradMeta>();
  AutogradMetaBase* before = nullptr;
  if (t.impl()->autograd.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *static_cast<AutogradMeta*>(before);
}

namespace {

const IntrusivePtr<Node> kNoNode;

/// A view whose memory was changed in place gets its node from the base again. Of several threads that use the view at
/// that moment one does so; requires_grad of the view itself is left alone, as others may be reading it.
void refresh_view_node(const Tensor& t, AutogradMeta& meta) {
  const std::uint32_t version = t.impl()->version();
  if (meta.view_version.load(std::memory_order_acquire) == version || !meta.base.requires_grad()) return;
  const SpinLock lock(meta.view_lock);
  if (meta.view_version.load(std::memory_order_relaxed) == version) return;
  GradModeGuard on(true);
  const Tensor base = detail::as_elements_of(meta.base, t.dtype());
  Tensor again = base.as_strided(t.sizes(), t.strides(), t.storage_offset());
  AutogradMeta& fresh = make_meta(again);
  meta.grad_fn = fresh.grad_fn;
  meta.output_nr = fresh.output_nr;
  meta.view_version.store(version, std::memory_order_release);
}

}  // namespace

bool Tensor::base_requires_grad() const {
  return grad_fn() != kNoNode;
}

const IntrusivePtr<Node>& Tensor::grad_fn() const {
  AutogradMeta* meta = try_meta(*this);
  if (meta == nullptr) return kNoNode;
  if (self().is_view) refresh_view_node(*this, *meta);
  return meta->grad_fn;
}

std::string Tensor::grad_fn_name() const {
  const auto& node = grad_fn();
  if (!node) return "";
  std::string_view full = node->name();
  std::size_t colon = full.rfind("::");
  return std::string(colon == std::string_view::npos ? full : full.substr(colon + 2));
}

std::uint32_t Tensor::output_nr() const {
  AutogradMeta* meta = try_meta(*this);
  return meta == nullptr ? 0 : meta->output_nr;
}

bool Tensor::is_leaf() const {
  return !grad_fn();
}

const Tensor& Tensor::requires_grad_(bool value) const& {
  if (value && !is_floating(dtype()) && !core::is_complex(dtype())) {
    throw Error(ErrorCode::runtime, "only Tensors of floating point dtype can require gradients");
  }
  if (value && is_inference() && !is_inference_mode()) {
    throw Error(ErrorCode::runtime,
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
  }
  if (!value && !is_leaf()) {
    throw Error(
        ErrorCode::runtime,
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
        "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  }
  if (is_leaf()) self().requires_grad = value;
  return *this;
}

const Tensor Tensor::grad() const {  // NOLINT(readability-const-return-type): see tensor.h
  AutogradMeta* meta = try_meta(*this);
  if (meta == nullptr) return {};
  if (meta->retained) return *meta->retained;
  if (meta->grad_fn && !meta->grad.defined()) {
    warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you "
        "access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information.");
  }
  return meta->grad;
}

namespace {

void check_assigned_grad(const Tensor& t, const Tensor& grad) {
  if (grad.dtype() != t.dtype()) {
    throw Error(ErrorCode::runtime,
                std::string("attempting to assign a gradient with dtype '") + raw::kernel::c_type_name(grad.dtype()) +
                    "' to a tensor with grad_dtype '" + scalar_type_name(t.dtype()) +
                    "'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set "
                    "the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set "
                    "grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream "
                    "systems that assume they match.");
  }
  if (!(grad.sizes() == t.sizes())) {
    throw Error(ErrorCode::runtime, "attempting to assign a gradient of size '" + to_list(grad.sizes()) +
                                        "' to a tensor of size '" + to_list(t.sizes()) +
                                        "'. Please ensure that the gradient and the tensor are the same size");
  }
}

std::int64_t next_hook_id() {
  static std::atomic<std::int64_t> next_id{0};
  return next_id++;
}

/// The hook of retain_grad sees what all others made of the gradient.
constexpr std::int64_t kRetainHook = -1;

void add_hook(std::vector<GradHook>& hooks, GradHook hook) {
  auto at = hooks.begin();
  while (at != hooks.end() && at->id != kRetainHook) ++at;
  hooks.insert(at, std::move(hook));
}

/// Shared with the hook, which must not keep the tensor itself alive: the node belongs to it.
void hang_retained(Node& node, std::uint32_t output_nr, const std::shared_ptr<Tensor>& cell) {
  node.hooks().push_back({kRetainHook, output_nr, [cell](const Tensor& grad) {
                            *cell = cell->defined() ? *cell + grad : grad.clone();
                            return Tensor();
                          }});
}

}  // namespace

void detail::run_hook(const GradHook& hook, Tensor& grad) {
  Tensor changed = hook.call(grad);
  if (!changed.defined()) return;
  if (changed.sizes() != grad.sizes()) {
    throw Error(ErrorCode::runtime, "hook 'c++ hook' has changed the size of value");
  }
  grad = std::move(changed);
}

void Tensor::set_grad(const Tensor& grad) const {
  if (!grad.defined() && self().autograd == nullptr) return;
  if (grad.defined()) check_assigned_grad(*this, grad);
  AutogradMeta& meta = make_meta(*this);
  (meta.retained ? *meta.retained : meta.grad) = grad;
}

void Tensor::retain_grad() const {
  if (!requires_grad()) {
    throw Error(ErrorCode::runtime, "can't retain_grad on Tensor that has requires_grad=False");
  }
  AutogradMeta& meta = make_meta(*this);
  const auto& node = grad_fn();
  if (!node || meta.retained) return;
  meta.retained = std::make_shared<Tensor>();
  hang_retained(*node, meta.output_nr, meta.retained);
}

bool Tensor::retains_grad() const {
  AutogradMeta* meta = try_meta(*this);
  return meta != nullptr && meta->retained != nullptr;
}

std::int64_t Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  if (!requires_grad()) {
    throw Error(ErrorCode::runtime, "cannot register a hook on a tensor that doesn't require gradient");
  }
  const std::int64_t id = next_hook_id();
  const auto& node = grad_fn();
  AutogradMeta& meta = make_meta(*this);
  add_hook(node ? node->hooks() : meta.leaf_hooks, {id, meta.output_nr, std::move(hook)});
  return id;
}

std::int64_t Tensor::register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const {
  if (!requires_grad()) {
    throw Error(ErrorCode::runtime, "cannot register a hook on a tensor that doesn't require gradient");
  }
  if (!is_leaf()) {
    throw Error(ErrorCode::runtime, "post accumulate grad hooks cannot be registered on non-leaf tensors");
  }
  const std::int64_t id = next_hook_id();
  make_meta(*this).post_hooks.emplace_back(id, std::move(hook));
  return id;
}

void Tensor::remove_hook(std::int64_t id) const {
  const auto& node = grad_fn();
  AutogradMeta& meta = make_meta(*this);
  std::erase_if(meta.post_hooks, [&](const auto& hook) { return hook.first == id; });
  auto& hooks = node ? node->hooks() : meta.leaf_hooks;
  std::erase_if(hooks, [&](const GradHook& hook) { return hook.id == id; });
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  detail::backward_one(*this, gradient, {.keep_graph = retain_graph || create_graph, .create_graph = create_graph});
}

Tensor Tensor::detach() const {
  return raw::alias(*this);
}

std::uint32_t Tensor::version() const {
  if (is_inference()) throw Error(ErrorCode::runtime, "Inference tensors do not track version counter.");
  return self().version();
}

Tensor Tensor::deepcopy() const {
  if (grad_fn()) {
    throw Error(
        ErrorCode::runtime,
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If "
        "you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
        "https://github.com/pytorch/pytorch/pull/103001");
  }
  Tensor copy = raw::clone(*this);
  copy.impl()->requires_grad = self().requires_grad;
  if (AutogradMeta* meta = try_meta(*this); meta != nullptr && meta->grad.defined()) {
    make_meta(copy).grad = meta->grad.detach().deepcopy();
  }
  return copy;
}

Tensor& Tensor::detach_() {
  if (self().is_view) {
    throw Error(
        ErrorCode::runtime,
        "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
        "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() "
        "cannot be called on these gradients. To fix this error, please refer to the Optimizer.zero_grad() function in "
        "torch/optim/optimizer.py as the solution.");
  }
  AutogradMeta* meta = try_meta(*this);
  if (meta != nullptr) {
    meta->grad_fn = {};
    meta->output_nr = 0;
  }
  self().requires_grad = false;
  return *this;
}

Tensor Tensor::data_alias() const {
  Tensor out = raw::alias(*this);
  out.impl()->own_version = make_intrusive<VersionCounter>();
  return out;
}

void Tensor::set_data(const Tensor& other) const {
  auto version = make_intrusive<VersionCounter>();
  version->value = this->version();
  self().storage = other.storage();
  self().offset = other.storage_offset();
  self().sizes = other.sizes();
  self().strides = other.strides();
  self().numel = other.numel();
  self().dtype = other.dtype();
  self().contiguous = other.is_contiguous();
  self().own_version = std::move(version);
  // A recorded accumulator expects gradients of the old shape and dtype. Another thread may be ending it.
  if (AutogradMeta* meta = try_meta(*this)) {
    const SpinLock lock(meta->accumulator_lock);
    meta->accumulator = nullptr;
  }
}

Edge gradient_edge(const Tensor& t) {
  if (const auto& node = t.grad_fn()) return {node, try_meta(t)->output_nr};
  return {accumulator_of(t), 0};
}

void record(Tensor& out, const IntrusivePtr<Node>& node) {
  AutogradMeta& meta = make_meta(out);
  meta.grad_fn = node;
  meta.output_nr = node->add_output(out);
  out.impl()->requires_grad = true;
}

void mark_view(const Tensor& out, const Tensor& base) {
  TensorImpl& impl = *out.impl();
  if (!is_grad_enabled() || is_inference_mode()) {
    if (base.is_inference()) return;
    impl.view_origin = is_inference_mode() ? ViewOrigin::kInference : ViewOrigin::kNoGrad;
    if (base.requires_grad() || (base.impl()->view_origin & ViewOrigin::kOfHistory) != 0) {
      impl.view_origin |= ViewOrigin::kOfHistory;
    }
    return;
  }
  if (detail::views_are_untracked && !base.requires_grad()) {
    impl.view_origin = ViewOrigin::kNoGrad;
    return;
  }
  AutogradMeta& meta = make_meta(out);
  AutogradMeta* above = try_meta(base);
  meta.base = above != nullptr && above->base.defined() ? above->base : base;
  meta.view_version = impl.version();
  impl.is_view = true;
  impl.view_origin = base.impl()->view_origin;
}

void mark_view_of_several(const Tensor& out, const Tensor& base) {
  mark_view(out, base);
  out.impl()->view_origin |= ViewOrigin::kOneOfSeveral;
}

namespace {

/// Views that must not be changed in place with history say why.
[[noreturn]] void throw_view_origin(const Tensor& changed) {
  const std::uint8_t origin = changed.impl()->view_origin;
  std::string text;
  const char* scope = "no_grad";
  if (const auto& node = changed.grad_fn()) {
    const std::string_view name = node->name();
    text = "Output " + std::to_string(changed.output_nr()) + " of " +
           std::string(name.substr(0, name.find("Backward"))) + " is a view and is being modified inplace. ";
  } else if ((origin & ViewOrigin::kInference) != 0) {
    scope = "inference_mode";
    text = "A view was created in inference mode and is being modified inplace in normal mode. ";
  } else {
    text = "A view was created in no_grad mode and is being modified inplace with grad mode enabled. ";
  }
  if ((origin & ViewOrigin::kOneOfSeveral) != 0) {
    text +=
        "This view is the output of a function that returns multiple views. Such functions do not allow the output "
        "views to be modified inplace. You should replace the inplace operation by an out-of-place one.";
  } else {
    text += std::string(
                "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
                "moving both the view and the inplace either both inside the ") +
            scope +
            " block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to "
            "be tracked).";
  }
  throw Error(ErrorCode::runtime, std::move(text));
}

}  // namespace

void check_in_place(const Tensor& changed) {
  check_in_place(changed, needs_grad(changed));
}

void check_in_place(const Tensor& changed, bool with_history) {
  if (detail::runs_for_batch() && detail::traces_here()) detail::OpBatch::of_thread()->changes(changed);
  const TensorImpl& impl = *changed.impl();
  if (impl.inference && !is_inference_mode()) {
    throw Error(ErrorCode::runtime,
                "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
                "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more "
                "details.");
  }
  if (!is_grad_enabled()) return;
  if (!with_history && (impl.view_origin & ViewOrigin::kOfHistory) == 0) return;
  if (impl.view_origin != 0) throw_view_origin(changed);
  if (!changed.requires_grad()) return;
  if (changed.is_leaf()) {
    throw Error(ErrorCode::runtime, "a leaf Variable that requires grad is being used in an in-place operation.");
  }
  AutogradMeta* meta = try_meta(changed);
  if (meta->base.defined() && meta->base.is_leaf() && meta->base.requires_grad()) {
    throw Error(ErrorCode::runtime,
                "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
}

namespace {

/// The node may have been recorded on a result that `changed` took the values of.
std::uint32_t first_output(const Tensor& changed, Node& node) {
  return node.outputs().empty() ? node.add_output(changed) : 0;
}

}  // namespace

namespace {

/// After a change in place the kept gradient is that of the new values.
void move_retained(AutogradMeta& meta, const IntrusivePtr<Node>& before, Node& after) {
  if (!meta.retained) return;
  if (before) std::erase_if(before->hooks(), [](const GradHook& hook) { return hook.id == kRetainHook; });
  hang_retained(after, meta.output_nr, meta.retained);
}

}  // namespace

void record_in_place(const Tensor& changed, const IntrusivePtr<Node>& node) {
  AutogradMeta& meta = make_meta(changed);
  if (!meta.base.defined()) {
    const IntrusivePtr<Node> before = meta.grad_fn;
    meta.grad_fn = node;
    meta.output_nr = first_output(changed, *node);
    changed.impl()->requires_grad = true;
    move_retained(meta, before, *node);
    return;
  }
  first_output(changed, *node);
  Tensor base = meta.base;
  auto slices = make_intrusive<CopySlices>(base, changed, node);
  AutogradMeta& base_meta = make_meta(base);
  const IntrusivePtr<Node> before = base_meta.grad_fn;
  base_meta.grad_fn = slices;
  base_meta.output_nr = slices->add_output(base);
  base.impl()->requires_grad = true;
  move_retained(base_meta, before, *slices);
  meta.view_version = changed.impl()->version() - 1;  // stale: the view's node comes from the base now
  changed.grad_fn();
}

}  // namespace core
