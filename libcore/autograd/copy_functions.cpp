// Copies, casts, moves between devices, and the common operations in place.
#include <string>

#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/in_place.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/sparse.h"

namespace core {
namespace {

struct ToCopyBackward final : Node {
  DType dtype = DType::f32;
  Device device;
  std::string_view name() const override { return "ToCopyBackward0"; }
  TensorList apply(TensorList g) override { return {g[0].to(device, dtype)}; }
};
CORE_NODE(CloneBackward, "CloneBackward0", return {g[0]};)
struct CopyBackwards final : Node {
  Device from;
  std::string_view name() const override { return "torch::autograd::CopyBackwards"; }
  TensorList apply(TensorList g) override {
    return {wants(0) ? zeros_like(g[0]) : Tensor(), wants(1) ? g[0].to(from) : Tensor()};
  }
};
CORE_NODE(FillBackward, "FillBackward2", return {zeros_like(g[0])};)
CORE_NODE(ZeroBackward, "ZeroBackward0", return {zeros_like(g[0])};)

/// Records the move of `x` to `out`.
Tensor moved(const Tensor& x, Tensor out) {
  if (!needs_grad(x) || !out.is_floating_point()) return out;
  auto node = make_node<ToCopyBackward>(x);
  node->dtype = x.dtype();
  node->device = x.device();
  record(out, node);
  return out;
}

}  // namespace

Tensor Tensor::to(const ToOptions& options) const {
  Backend& target = options.device ? backend_for(*options.device) : raw::backend_of(*this);
  DType wanted = options.dtype.value_or(dtype());
  if (is_sparse() || target.is_sparse()) return detail::sparse_to(*this, options);
  const bool lies_so =
      !options.memory_format || *options.memory_format == MemoryFormat::preserve ||
      (is_contiguous(*options.memory_format) && raw::suggested_format(*this) == *options.memory_format);
  if (&target == &raw::backend_of(*this) && wanted == dtype()) {
    if (lies_so && !options.copy) return *this;
    return moved(*this, lies_so ? raw::clone(*this) : raw::formatted(*this, *options.memory_format));
  }
  // Casting happens where fewer bytes have to travel afterwards.
  bool narrower = bit_width(wanted) <= bit_width(dtype());
  // What the host goes on working with has to be there.
  const bool is_last = (narrower && lies_so) || !target.is_host_memory();
  const auto waiting = options.non_blocking && is_last ? raw::Waiting::non_blocking : raw::Waiting::blocking;
  Tensor out = narrower ? raw::move(raw::cast(*this, wanted), target, waiting)
                        : raw::cast(raw::move(*this, target, waiting), wanted);
  return moved(*this, lies_so ? out : raw::formatted(out, *options.memory_format));
}
Tensor Tensor::to(MemoryFormat format) const {
  return to(ToOptions{.device = {}, .dtype = {}, .memory_format = format});
}
Tensor Tensor::to(Device device) const {
  return to(ToOptions{.device = device, .dtype = {}});
}
Tensor Tensor::to(DType dtype) const {
  return to(ToOptions{.device = {}, .dtype = dtype});
}
Tensor Tensor::to(Device device, DType dtype) const {
  return to(ToOptions{.device = device, .dtype = dtype});
}
Tensor Tensor::cuda(std::optional<int> index) const {
  return to(index ? Device(DeviceType::cuda, *index) : Device(DeviceType::cuda));
}
Tensor Tensor::type_as(const Tensor& other) const {
  return to(other.device(), other.dtype());
}

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  return detail::with_node<CloneBackward>(*this, raw::contiguous(*this));
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::preserve) {
    throw Error(ErrorCode::runtime, "preserve memory format is unsupported by the contiguous operator");
  }
  if (is_contiguous(format)) return *this;
  if (format == MemoryFormat::contiguous) return contiguous();
  return detail::with_node<CloneBackward>(*this, raw::formatted(*this, format));
}

Tensor Tensor::clone() const {
  if (is_sparse()) return detail::sparse_clone(*this);
  return detail::with_node<CloneBackward>(*this, raw::clone(*this));
}
Tensor Tensor::clone(MemoryFormat format) const {
  if (format == MemoryFormat::preserve) return clone();
  return detail::with_node<CloneBackward>(*this, raw::formatted(*this, format));
}

const Tensor& Tensor::copy_(const Tensor& from) const {
  detail::check_writable(*this, needs_grad(*this, from));
  if (!is_same(from)) detail::check_overlap(*this, from);
  IntrusivePtr<CopyBackwards> node;
  if (needs_grad(*this, from) && is_floating_point()) {
    node = make_node<CopyBackwards>(*this, from);
    node->from = from.device();
  }
  raw::copy_into(*this, from);
  impl_->bump_version();
  if (node) record_in_place(*this, node);
  return *this;
}

const Tensor& Tensor::fill_(Scalar value) const {
  check_in_place(*this);
  bool track = needs_grad(*this);
  IntrusivePtr<Node> node;
  if (track) node = make_node<FillBackward>(*this);
  raw::fill_into(*this, value);
  impl_->bump_version();
  if (node) record_in_place(*this, node);
  return *this;
}

const Tensor& Tensor::zero_() const {
  if (detail::any_sparse(*this)) {
    const detail::SparseParts& parts = detail::parts_of(*this);
    detail::set_parts(*this, {parts.indices.narrow(1, 0, 0), parts.values.narrow(0, 0, 0), true});
    return *this;
  }
  check_in_place(*this);
  IntrusivePtr<Node> node;
  if (needs_grad(*this)) node = make_node<ZeroBackward>(*this);
  raw::fill_into(*this, 0);
  impl_->bump_version();
  if (node) record_in_place(*this, node);
  return *this;
}

Tensor detail::snapshot(const Tensor& t) {
  Tensor copy = raw::clone(t);
  if (const auto& node = t.grad_fn()) {
    AutogradMeta& meta = make_meta(copy);
    meta.grad_fn = node;
    meta.output_nr = t.output_nr();
    copy.impl()->requires_grad = true;
  }
  return copy;
}

void detail::check_writable(const Tensor& self, bool with_history) {
  if (any_sparse(self)) throw_sparse();
  check_in_place(self, with_history);
  for (std::size_t d = 0; d < self.sizes().size(); ++d) {
    if (self.sizes()[d] < 2 || self.strides()[d] != 0) continue;
    throw Error(ErrorCode::runtime,
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation.");
  }
}

void detail::check_overlap(const Tensor& self, const Tensor& other) {
  if (self.storage().id() != other.storage().id() || !self.is_contiguous() || !other.is_contiguous()) return;
  if (self.dtype() != other.dtype() || self.numel() == 0 || other.numel() == 0) return;
  const std::int64_t a = self.storage_offset(), b = other.storage_offset();
  if (a == b && self.numel() == other.numel()) return;
  if (a >= b + other.numel() || b >= a + self.numel()) return;
  throw Error(ErrorCode::runtime,
              "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
              "memory location. Please clone() the tensor before performing the operation.");
}

void detail::write_result(const Tensor& self, const Tensor& result) {
  const bool loses_fraction = is_floating(result.dtype()) && !is_floating(self.dtype());
  const bool loses_number = result.dtype() != DType::boolean && self.dtype() == DType::boolean;
  if (loses_fraction || loses_number) {
    throw Error(ErrorCode::runtime, std::string("result type ") + scalar_type_name(result.dtype()) +
                                        " can't be cast to the desired output type " + scalar_type_name(self.dtype()));
  }
  if (result.sizes() != self.sizes()) {
    throw Error(ErrorCode::runtime, "output with shape " + to_list(self.sizes()) +
                                        " doesn't match the broadcast shape " + to_list(result.sizes()));
  }
  raw::copy_into(self, result);
}

namespace {

using detail::in_place;

template <class Operation>
const Tensor& unary_in_place(const Tensor& self, UnaryOp op, Operation operation, const raw::OpArgs& args = {}) {
  return in_place(self, needs_grad(self), operation, [&] { raw::unary_into(op, self, self, args); });
}

}  // namespace

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  if (detail::any_sparse(*this, other)) {
    check_in_place(*this);
    detail::sparse_add_into(*this, other, alpha);
    if (!is_sparse()) impl_->bump_version();
    return *this;
  }
  detail::check_overlap(*this, other);
  return in_place(
      *this, needs_grad(*this, other), [&](const Tensor& t) { return core::add(t, other, alpha); },
      [&] {
        raw::binary_in_place(BinaryOp::add, *this, other, {alpha.to_double(), 0, 0});
      });
}
const Tensor& Tensor::add_(Scalar other, Scalar alpha) const {
  return in_place(
      *this, needs_grad(*this), [&](const Tensor& t) { return core::add(t, other, alpha); },
      [&] {
        raw::binary_in_place(BinaryOp::add, *this, other, {alpha.to_double(), 0, 0});
      });
}
const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  if (detail::any_sparse(*this, other)) return add_(other, -alpha.to_double());
  detail::check_overlap(*this, other);
  return in_place(
      *this, needs_grad(*this, other), [&](const Tensor& t) { return core::sub(t, other, alpha); },
      [&] {
        raw::binary_in_place(BinaryOp::sub, *this, other, {alpha.to_double(), 0, 0});
      });
}
const Tensor& Tensor::sub_(Scalar other, Scalar alpha) const {
  return in_place(
      *this, needs_grad(*this), [&](const Tensor& t) { return core::sub(t, other, alpha); },
      [&] {
        raw::binary_in_place(BinaryOp::sub, *this, other, {alpha.to_double(), 0, 0});
      });
}
const Tensor& Tensor::mul_(const Tensor& other) const {
  if (detail::any_sparse(*this)) {
    detail::set_parts(*this, detail::parts_of(detail::sparse_mul(*this, other)));
    return *this;
  }
  detail::check_overlap(*this, other);
  return in_place(
      *this, needs_grad(*this, other), [&](const Tensor& t) { return core::mul(t, other); },
      [&] { raw::binary_in_place(BinaryOp::mul, *this, other); });
}
const Tensor& Tensor::mul_(Scalar other) const {
  if (detail::any_sparse(*this)) return mul_(full({}, other, {.dtype = dtype(), .device = device()}));
  return in_place(
      *this, needs_grad(*this), [&](const Tensor& t) { return core::mul(t, other); },
      [&] { raw::binary_in_place(BinaryOp::mul, *this, other); });
}
const Tensor& Tensor::div_(const Tensor& other) const {
  detail::check_overlap(*this, other);
  return in_place(
      *this, needs_grad(*this, other), [&](const Tensor& t) { return core::div(t, other); },
      [&] { raw::binary_in_place(BinaryOp::div, *this, other); });
}
const Tensor& Tensor::div_(Scalar other) const {
  return in_place(
      *this, needs_grad(*this), [&](const Tensor& t) { return core::div(t, other); },
      [&] { raw::binary_in_place(BinaryOp::div, *this, other); });
}
const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, Scalar value) const {
  return in_place(
      *this, needs_grad(*this, a, b), [&](const Tensor& t) { return core::addcmul(t, a, b, value); },
      [&] { raw::copy_into(*this, raw::ternary(TernaryOp::addcmul, *this, a, b, value.to_double())); });
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, Scalar value) const {
  return in_place(
      *this, needs_grad(*this, a, b), [&](const Tensor& t) { return core::addcdiv(t, a, b, value); },
      [&] { raw::copy_into(*this, raw::ternary(TernaryOp::addcdiv, *this, a, b, value.to_double())); });
}
const Tensor& Tensor::lerp_(const Tensor& end, Scalar weight) const {
  auto operation = [&](const Tensor& t) { return core::lerp(t, end, weight); };
  return in_place(*this, needs_grad(*this, end), operation);
}
const Tensor& Tensor::clamp_(std::optional<Scalar> low, std::optional<Scalar> high) const {
  auto operation = [&](const Tensor& t) { return core::clamp(t, low, high); };
  return in_place(*this, needs_grad(*this), operation);
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  auto operation = [&](const Tensor& t) { return core::masked_fill(t, mask, value); };
  return in_place(*this, needs_grad(*this), operation);
}

const Tensor& Tensor::abs_() const {
  return unary_in_place(*this, UnaryOp::abs, [](const Tensor& t) { return core::abs(t); });
}
const Tensor& Tensor::exp_() const {
  return unary_in_place(*this, UnaryOp::exp, [](const Tensor& t) { return core::exp(t); });
}
const Tensor& Tensor::neg_() const {
  return unary_in_place(*this, UnaryOp::neg, [](const Tensor& t) { return core::neg(t); });
}
const Tensor& Tensor::relu_() const {
  return unary_in_place(*this, UnaryOp::relu, [](const Tensor& t) { return core::relu(t); });
}
const Tensor& Tensor::sigmoid_() const {
  return unary_in_place(*this, UnaryOp::sigmoid, [](const Tensor& t) { return core::sigmoid(t); });
}
const Tensor& Tensor::sqrt_() const {
  return unary_in_place(*this, UnaryOp::sqrt, [](const Tensor& t) { return core::sqrt(t); });
}
const Tensor& Tensor::tanh_() const {
  return unary_in_place(*this, UnaryOp::tanh, [](const Tensor& t) { return core::tanh(t); });
}

}  // namespace core
