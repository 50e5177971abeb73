#pragma once
// What operations in place share: checks, and turning the result of the ordinary operation into a change of the tensor.
// Internal to ops.
// Use: return detail::in_place(x, needs_grad(x, y), [&](const Tensor& t) { return hypot(t, y); });

#include "libcore/autograd/autocast.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// `copy`, of t's elements, with t's own history: t as it was before a change.
Tensor with_history_of(const Tensor& t, Tensor copy);
/// A copy of `t` with t's own history, so that what an operation saves survives the change of t.
Tensor snapshot(const Tensor& t);
/// check_in_place(), and that no element of `self` stands for several.
/// Error(runtime) "unsupported operation: more than one element of the written-to tensor refers to a single memory
/// ...".
void check_writable(const Tensor& self, bool with_history);
/// Error(runtime) "unsupported operation: some elements of the input tensor and the written-to tensor refer to ...".
void check_overlap(const Tensor& self, const Tensor& other);
/// Writes `result` into `self`. Errors(runtime): "output with shape [3] doesn't match the broadcast shape [2, 3]",
/// "result type Float can't be cast to the desired output type Long".
void write_result(const Tensor& self, const Tensor& result);

/// An in-place operation on `self` whose result is that of `operation` on a copy of it. With history, `self` takes the
/// values and the node of the result; without, `plain` works on the memory directly.
template <class Operation, class Plain>
const Tensor& in_place(const Tensor& self, bool track, Operation operation, Plain plain) {
  check_writable(self, track);
  const NoCasts in_its_own_type;
  if (!track) {
    plain();
    self.impl()->bump_version();
    return self;
  }
  Tensor result = operation(snapshot(self));
  write_result(self, result);
  self.impl()->bump_version();
  if (result.grad_fn()) record_in_place(self, result.grad_fn());
  return self;
}

/// The same where the operation has no direct form.
template <class Operation>
const Tensor& in_place(const Tensor& self, bool track, Operation operation) {
  return in_place(self, track, operation, [&] {
    const NoGradGuard no_history;
    write_result(self, operation(raw::alias(self)));
  });
}

template <class Operation>
const Tensor& with_other(const Tensor& x, const Tensor& other, Operation operation) {
  detail::check_overlap(x, other);
  return in_place(x, needs_grad(x, other), operation);
}

}  // namespace core::detail
