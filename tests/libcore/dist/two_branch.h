#pragma once
// TwoBranch of the golden data: one of two branches of which a step uses the one that `which` names (0, 1, or neither).
// Use: test::TwoBranch net(4, 5, 3); net.which = 1;

#include "libcore/module/linear.h"
#include "libcore/ops/activation.h"

namespace test {

struct TwoBranch : core::ModuleOf<TwoBranch> {
  core::Linear head, a, b, tail;
  std::int64_t which = 0;
  TwoBranch(std::int64_t i, std::int64_t h, std::int64_t o) : head(i, h), a(h, h), b(h, h), tail(h, o) {}
  void members(core::Members& m) override { m.child("head", head).child("a", a).child("b", b).child("tail", tail); }
  core::Tensor forward(const core::Tensor& x) {
    const core::Tensor y = core::relu(head(x));
    return tail(core::relu(which == 0 ? a(y) : which == 1 ? b(y) : y));
  }
};

}  // namespace test
