#pragma once
// Small models that the tests of the bridge save and load.

#include "libcore/module/linear.h"
#include "libcore/module/module.h"
#include "libcore/module/norm.h"

namespace test {

struct TwoLayers : core::ModuleOf<TwoLayers> {
  core::Linear fc1{3, 4};
  core::Linear fc2{4, 2};
  void members(core::Members& m) override { m.child("fc1", fc1).child("fc2", fc2); }
  core::Tensor forward(const core::Tensor& x) { return fc2(fc1(x)); }
};

/// What DataParallel looks like to state_dict, without devices.
template <class M>
struct Wrapper : core::ModuleOf<Wrapper<M>> {
  M module;
  void members(core::Members& m) override { m.child("module", module); }
};

struct Normed : core::ModuleOf<Normed> {
  core::Linear fc{3, 4};
  core::BatchNorm1d bn{4};
  void members(core::Members& m) override { m.child("fc", fc).child("bn", bn); }
};

/// Two names for one parameter, as in models with tied embeddings.
struct Tied : core::ModuleOf<Tied> {
  core::Linear first{3, 3};
  core::Linear second{3, 3};
  Tied() { second.weight = first.weight; }
  void members(core::Members& m) override { m.child("first", first).child("second", second); }
};

}  // namespace test
