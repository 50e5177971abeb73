// The methods of Tensor that need autograd, and how operations hang their nodes onto tensors.
#include <string>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/copy_slices.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/host_memory.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/tensor/nn_common.h"
#include "libcore/tensor/raw_ops.h"

namespace core {

void* AutogradMeta::operator new(std::size_t bytes) {
  return host_allocate(bytes);
}
void AutogradMeta::operator delete(void* block, std::size_t bytes) noexcept {
  host_free(block, bytes);
}

AutogradMeta& make_meta(const Tensor& t) {
  if (t.impl()->autograd == nullptr) t.impl()->autograd = new AutogradMeta;
  return *try_meta(t);
}

namespace {

const IntrusivePtr<Node> kNoNode;

/// A view whose memory was changed in place gets its node from the base again.
void refresh_view_node(const Tensor& t, AutogradMeta& meta) {
  if (meta.view_version == t.version() || !meta.base.requires_grad()) return;
  meta.view_version = t.version();
  GradModeGuard on(true);
  Tensor again = meta.base.as_strided(t.sizes(), t.strides(), t.storage_offset());
  AutogradMeta& fresh = make_meta(again);
  meta.grad_fn = fresh.grad_fn;
  meta.output_nr = fresh.output_nr;
  t.impl()->requires_grad = true;
}

}  // namespace

bool Tensor::base_requires_grad() const {
  return grad_fn() != kNoNode;
}

const IntrusivePtr<Node>& Tensor::grad_fn() const {
  AutogradMeta* meta = try_meta(*this);
  if (meta == nullptr) return kNoNode;
  if (impl_->is_view) refresh_view_node(*this, *meta);
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

Tensor& Tensor::requires_grad_(bool value) {
  if (value && !is_floating(dtype()) && !is_complex(dtype())) {
    throw Error(ErrorCode::runtime, "only Tensors of floating point dtype can require gradients");
  }
  if (!value && !is_leaf()) {
    throw Error(
        ErrorCode::runtime,
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
        "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  }
  if (is_leaf()) impl_->requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
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

void Tensor::set_grad(const Tensor& grad) const {
  if (!grad.defined() && impl_->autograd == nullptr) return;
  if (grad.defined() && !(grad.sizes() == sizes())) {
    throw Error(ErrorCode::runtime, "attempting to assign a gradient of size '" + to_list(grad.sizes()) +
                                        "' to a tensor of size '" + to_list(sizes()) +
                                        "'. Please ensure that the gradient and the tensor are the same size");
  }
  if (grad.defined() && grad.dtype() != dtype()) {
    throw Error(ErrorCode::runtime,
                std::string("attempting to assign a gradient with dtype '") + raw::detail::c_type_name(grad.dtype()) +
                    "' to a tensor with grad_dtype '" + scalar_type_name(dtype()) +
                    "'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set "
                    "the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set "
                    "grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream "
                    "systems that assume they match.");
  }
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
  // Shared with the hook, which must not keep the tensor itself alive: the node belongs to it.
  meta.retained = std::make_shared<Tensor>();
  node->hooks().push_back({-1, meta.output_nr, [cell = meta.retained](const Tensor& grad) {
                             *cell = cell->defined() ? *cell + grad : grad.clone();
                             return Tensor();
                           }});
}

std::int64_t Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  if (!requires_grad()) {
    throw Error(ErrorCode::runtime, "cannot register a hook on a tensor that doesn't require gradient");
  }
  static std::atomic<std::int64_t> next_id{0};
  std::int64_t id = next_id++;
  const auto& node = grad_fn();
  AutogradMeta& meta = make_meta(*this);
  (node ? node->hooks() : meta.leaf_hooks).push_back({id, meta.output_nr, std::move(hook)});
  return id;
}

void Tensor::remove_hook(std::int64_t id) const {
  const auto& node = grad_fn();
  auto& hooks = node ? node->hooks() : make_meta(*this).leaf_hooks;
  std::erase_if(hooks, [&](const GradHook& hook) { return hook.id == id; });
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  GradOptions options;
  if (gradient.defined()) options.grad_outputs = {gradient};
  options.retain_graph = retain_graph;
  options.create_graph = create_graph;
  core::backward({*this}, options);
}

Tensor Tensor::detach() const {
  return raw::alias(*this);
}

Tensor& Tensor::detach_() {
  AutogradMeta* meta = try_meta(*this);
  if (meta != nullptr) {
    meta->grad_fn = {};
    meta->output_nr = 0;
    meta->base = {};
  }
  impl_->is_view = false;
  impl_->requires_grad = false;
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
  impl_->storage = other.storage();
  impl_->offset = other.storage_offset();
  impl_->sizes = other.sizes();
  impl_->strides = other.strides();
  impl_->numel = other.numel();
  impl_->dtype = other.dtype();
  impl_->contiguous = other.is_contiguous();
  impl_->own_version = std::move(version);
  // A recorded accumulator expects gradients of the old shape and dtype.
  if (AutogradMeta* meta = try_meta(*this)) meta->accumulator = nullptr;
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
  if (!is_grad_enabled() || is_inference_mode()) return;
  AutogradMeta& meta = make_meta(out);
  AutogradMeta* above = try_meta(base);
  meta.base = above != nullptr && above->base.defined() ? above->base : base;
  meta.view_version = out.version();
  out.impl()->is_view = true;
}

void check_in_place(const Tensor& changed) {
  if (!is_grad_enabled() || !changed.requires_grad()) return;
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

void record_in_place(const Tensor& changed, const IntrusivePtr<Node>& node) {
  AutogradMeta& meta = make_meta(changed);
  if (!meta.base.defined()) {
    meta.grad_fn = node;
    meta.output_nr = first_output(changed, *node);
    changed.impl()->requires_grad = true;
    return;
  }
  first_output(changed, *node);
  Tensor base = meta.base;
  auto slices = make_intrusive<CopySlices>(base, changed, node);
  AutogradMeta& base_meta = make_meta(base);
  base_meta.grad_fn = slices;
  base_meta.output_nr = slices->add_output(base);
  base.impl()->requires_grad = true;
  meta.view_version = changed.version() - 1;  // stale: the view's node comes from the base now
  changed.grad_fn();
}

}  // namespace core
