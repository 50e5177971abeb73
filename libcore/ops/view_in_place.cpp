// Views that a tensor becomes itself, and its memory made larger.
#include <algorithm>
#include <optional>
#include <string>

#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;

void take_shape(const Tensor& x, const Tensor& from) {
  TensorImpl& impl = *x.impl();
  impl.sizes = from.sizes();
  impl.strides = from.strides();
  impl.offset = from.storage_offset();
  impl.numel = from.numel();
  impl.contiguous = from.is_contiguous();
}

template <class View>
const Tensor& become(const Tensor& x, View view_of) {
  raw::backend_of(x);  // refuses an undefined tensor
  const bool track = needs_grad(x);
  check_in_place(x, track);
  if (track && x.impl()->is_view) {
    fail("the shape of a view that takes part in a graph cannot be changed in place; use the operation without '_'",
         ErrorCode::not_implemented);
  }
  std::optional<NoGradGuard> no_history;
  if (!track) no_history.emplace();
  const Tensor after = view_of(track ? detail::with_history_of(x, raw::alias(x)) : raw::alias(x));
  const IntrusivePtr<Node> node = after.grad_fn();  // of a view, so before the memory counts as changed
  take_shape(x, after);
  x.impl()->bump_version();
  if (track && node) record_in_place(x, node);
  return x;
}

}  // namespace

const Tensor& t_(const Tensor& x) {
  return become(x, [](const Tensor& before) { return before.t(); });
}
const Tensor& transpose_(const Tensor& x, std::int64_t a, std::int64_t b) {
  return become(x, [&](const Tensor& before) { return before.transpose(a, b); });
}
const Tensor& squeeze_(const Tensor& x) {
  return become(x, [](const Tensor& before) { return before.squeeze(); });
}
const Tensor& squeeze_(const Tensor& x, std::int64_t dim) {
  return become(x, [&](const Tensor& before) { return before.squeeze(dim); });
}
const Tensor& unsqueeze_(const Tensor& x, std::int64_t dim) {
  return become(x, [&](const Tensor& before) { return before.unsqueeze(dim); });
}
const Tensor& as_strided_(const Tensor& x, const Shape& sizes, const Shape& strides,
                          std::optional<std::int64_t> offset) {
  return become(x, [&](const Tensor& before) { return before.as_strided(sizes, strides, offset); });
}

const Tensor& resize_(const Tensor& x, const Shape& sizes) {
  if (x.requires_grad()) fail("cannot resize variables that require grad");
  for (const std::int64_t size : sizes) {
    if (size < 0) fail("requested resize to " + to_list(sizes) + ": a size is negative");
  }
  const Tensor wanted = empty(sizes, {.dtype = x.dtype(), .device = x.device()});
  TensorImpl& impl = *x.impl();
  const std::size_t begin = static_cast<std::size_t>(impl.offset) * static_cast<std::size_t>(x.element_size());
  if (begin + wanted.storage().nbytes() <= impl.storage.nbytes()) {
    const std::int64_t offset = impl.offset;
    take_shape(x, wanted);
    impl.offset = offset;
    return x;
  }
  if (impl.storage->use_count() > 1) {
    fail("memory that several tensors share cannot grow: " + to_list(x.sizes()) + " to " + to_list(sizes),
         ErrorCode::not_implemented);
  }
  // The elements stay in the order in which they lie in memory; what is new is uninitialised.
  const std::int64_t there =
      static_cast<std::int64_t>((impl.storage.nbytes() - begin) / static_cast<std::size_t>(x.element_size()));
  const std::int64_t kept = std::min(there, wanted.numel());
  const NoGradGuard no_history;
  raw::copy_into(wanted.view({-1}).narrow(0, 0, kept), raw::alias(x).as_strided({kept}, {1}));
  impl.storage = wanted.storage();
  take_shape(x, wanted);
  return x;
}
const Tensor& resize_as_(const Tensor& x, const Tensor& other) {
  return resize_(x, other.sizes());
}

}  // namespace core
