#include "libcore/tensor/tensor.h"

#include <optional>

#include "libcore/autograd/node.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/detail/index_checks.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/intrusive_ptr.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor_impl.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using detail::in_place;

CORE_NODE(FillBackward, "FillBackward2", return {zeros_like(g[0])};)
CORE_NODE(ZeroBackward, "ZeroBackward0", return {zeros_like(g[0])};)

template <class Operation>
const Tensor& unary_in_place(const Tensor& self, UnaryOp op, Operation operation, const raw::OpArgs& args = {}) {
  return in_place(self, needs_grad(self), operation, [&] { raw::unary_into(op, self, self, args); });
}

/// Before an assignment to what a call gave. Nothing else holds the elements: whatever is written there is lost.
void check_shared(const TensorImpl& target) {
  if (target.use_count() > 1 || target.storage->use_count() > 1) return;
  throw Error(ErrorCode::runtime,
              "the assigned values would be lost, as nothing else shares the elements of this result; to write where a "
              "mask or index tensors say, use x.index_put_({...}, values)");
}

/// A factor as PyTorch has it: one of integers is cut to one, of bool it says whether. Else the product would be of
/// another type than the sum.
Scalar as_of(DType dtype, Scalar factor) {
  if (dtype == DType::boolean) return factor.to_bool();
  return is_floating(dtype) || is_complex(dtype) ? factor : Scalar(factor.to_int());
}

/// Errors(runtime) as add() and sub().
template <class Other>
raw::OpArgs factor_of(BinaryOp op, Scalar alpha, const Tensor& self, const Other& other) {
  raw::check_factor(alpha, result_type(self, other), "alpha", op == BinaryOp::sub);
  return {alpha.to_double(), 0, 0};
}

}  // namespace

const Tensor& Tensor::operator=(const Tensor& other) && {
  check_shared(self());
  return copy_(other);
}
const Tensor& Tensor::operator=(Scalar value) && {
  check_shared(self());
  return fill_(value);
}

const Tensor& Tensor::fill_(Scalar value) const {
  check_in_place(*this);
  bool track = needs_grad(*this);
  IntrusivePtr<Node> node;
  if (track) node = make_node<FillBackward>(*this);
  raw::fill_into(*this, value);
  self().bump_version();
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
  self().bump_version();
  if (node) record_in_place(*this, node);
  return *this;
}

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  if (detail::any_sparse(*this, other)) {
    check_in_place(*this);
    detail::sparse_add_into(*this, other, alpha);
    if (!is_sparse()) self().bump_version();
    return *this;
  }
  detail::check_overlap(*this, other);
  return in_place(
      *this, needs_grad(*this, other), [&](const Tensor& t) { return core::add(t, other, alpha); },
      [&] { raw::binary_in_place(BinaryOp::add, *this, other, factor_of(BinaryOp::add, alpha, *this, other)); });
}
const Tensor& Tensor::add_(Scalar other, Scalar alpha) const {
  return in_place(
      *this, needs_grad(*this), [&](const Tensor& t) { return core::add(t, other, alpha); },
      [&] { raw::binary_in_place(BinaryOp::add, *this, other, factor_of(BinaryOp::add, alpha, *this, other)); });
}
const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  if (detail::any_sparse(*this, other)) return add_(other, -alpha.to_double());
  detail::check_overlap(*this, other);
  return in_place(
      *this, needs_grad(*this, other), [&](const Tensor& t) { return core::sub(t, other, alpha); },
      [&] { raw::binary_in_place(BinaryOp::sub, *this, other, factor_of(BinaryOp::sub, alpha, *this, other)); });
}
const Tensor& Tensor::sub_(Scalar other, Scalar alpha) const {
  return in_place(
      *this, needs_grad(*this), [&](const Tensor& t) { return core::sub(t, other, alpha); },
      [&] { raw::binary_in_place(BinaryOp::sub, *this, other, factor_of(BinaryOp::sub, alpha, *this, other)); });
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
      [&] { raw::copy_into(*this, core::addcmul(*this, a, b, value)); });
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, Scalar value) const {
  return in_place(
      *this, needs_grad(*this, a, b), [&](const Tensor& t) { return core::addcdiv(t, a, b, value); },
      [&] { raw::copy_into(*this, core::addcdiv(*this, a, b, value)); });
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

const Tensor& Tensor::pow_(Scalar exponent) const {
  return in_place(*this, needs_grad(*this), [&](const Tensor& t) { return core::pow(t, exponent); });
}
const Tensor& Tensor::index_add_(std::int64_t dim, const Tensor& index, const Tensor& from, Scalar alpha) const {
  detail::check_index_add_dtype(*this, from);
  raw::check_fits_halves_too(alpha, from.dtype());
  const Tensor scaled = alpha.to_double() == 1 ? from : from * as_of(from.dtype(), alpha);
  return in_place(
      *this, needs_grad(*this, from), [&](const Tensor& t) { return core::index_add(t, dim, index, scaled); },
      [&] { raw::index_into(IndexOp::accumulate, *this, dim, index, scaled); });
}
const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, const Tensor& from) const {
  detail::check_scatter_dtype(*this, from);
  return in_place(
      *this, needs_grad(*this, from), [&](const Tensor& t) { return core::scatter(t, dim, index, from); },
      [&] { raw::scatter_into(IndexOp::put, *this, dim, index, from); });
}
const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, Scalar value) const {
  return in_place(*this, needs_grad(*this), [&](const Tensor& t) { return core::scatter(t, dim, index, value); });
}
const Tensor& Tensor::scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& from) const {
  detail::check_scatter_dtype(*this, from);
  return in_place(
      *this, needs_grad(*this, from), [&](const Tensor& t) { return core::scatter_add(t, dim, index, from); },
      [&] { raw::scatter_into(IndexOp::accumulate, *this, dim, index, from); });
}

}  // namespace core
