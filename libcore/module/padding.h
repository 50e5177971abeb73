#pragma once
// Padding modules. As torch.nn's modules of the same names: one number pads every side, or a list in the order of
// core::pad (left, right, top, bottom, front, back).
// Thread safety: as Module. Use: core::ReflectionPad2d pad({1, 1, 2, 0}); core::Tensor y = pad(x);

#include <initializer_list>
#include <string>

#include "libcore/module/module.h"
#include "libcore/ops/pad.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// What all of them keep.
struct PadState {
  Shape padding;
  PaddingMode mode;
  Scalar value;

 protected:
  PadState(std::size_t rank, const Shape& pads, PaddingMode how, Scalar filler = 0);
  Tensor padded(const Tensor& x) const { return pad(x, padding, mode, value); }
  std::string describe() const;
  std::string describe_constant() const;
};

/// Rank: how many dimensions are padded.
template <class Derived, std::size_t Rank, PaddingMode Mode>
struct PadModule : ModuleOf<Derived>, PadState {
  explicit PadModule(std::initializer_list<std::int64_t> pads) : PadModule(Shape(pads)) {}
  explicit PadModule(const Shape& pads) : ModuleOf<Derived>(OnBehalf()), PadState(Rank, pads, Mode) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const { return padded(x); }
};

template <class Derived, std::size_t Rank>
struct ConstantPadModule : ModuleOf<Derived>, PadState {
  ConstantPadModule(const Shape& pads, Scalar filler)
      : ModuleOf<Derived>(OnBehalf()), PadState(Rank, pads, PaddingMode::zeros, filler) {}
  void members(Members&) override {}
  /// "padding=(1, 2), value=3.5"
  std::string extra_repr() const override { return describe_constant(); }
  Tensor forward(const Tensor& x) const { return padded(x); }
};

struct ZeroPad1d : PadModule<ZeroPad1d, 1, PaddingMode::zeros> {
  using PadModule::PadModule;
};
struct ZeroPad2d : PadModule<ZeroPad2d, 2, PaddingMode::zeros> {
  using PadModule::PadModule;
};
struct ZeroPad3d : PadModule<ZeroPad3d, 3, PaddingMode::zeros> {
  using PadModule::PadModule;
};
struct ReflectionPad1d : PadModule<ReflectionPad1d, 1, PaddingMode::reflect> {
  using PadModule::PadModule;
};
struct ReflectionPad2d : PadModule<ReflectionPad2d, 2, PaddingMode::reflect> {
  using PadModule::PadModule;
};
struct ReflectionPad3d : PadModule<ReflectionPad3d, 3, PaddingMode::reflect> {
  using PadModule::PadModule;
};
struct ReplicationPad1d : PadModule<ReplicationPad1d, 1, PaddingMode::replicate> {
  using PadModule::PadModule;
};
struct ReplicationPad2d : PadModule<ReplicationPad2d, 2, PaddingMode::replicate> {
  using PadModule::PadModule;
};
struct ReplicationPad3d : PadModule<ReplicationPad3d, 3, PaddingMode::replicate> {
  using PadModule::PadModule;
};
struct CircularPad1d : PadModule<CircularPad1d, 1, PaddingMode::circular> {
  using PadModule::PadModule;
};
struct CircularPad2d : PadModule<CircularPad2d, 2, PaddingMode::circular> {
  using PadModule::PadModule;
};
struct CircularPad3d : PadModule<CircularPad3d, 3, PaddingMode::circular> {
  using PadModule::PadModule;
};
struct ConstantPad1d : ConstantPadModule<ConstantPad1d, 1> {
  using ConstantPadModule::ConstantPadModule;
};
struct ConstantPad2d : ConstantPadModule<ConstantPad2d, 2> {
  using ConstantPadModule::ConstantPadModule;
};
struct ConstantPad3d : ConstantPadModule<ConstantPad3d, 3> {
  using ConstantPadModule::ConstantPadModule;
};

// Made once, in the source of this header.
extern template class ModuleOf<ZeroPad1d>;
extern template class ModuleOf<ZeroPad2d>;
extern template class ModuleOf<ZeroPad3d>;
extern template class ModuleOf<ReflectionPad1d>;
extern template class ModuleOf<ReflectionPad2d>;
extern template class ModuleOf<ReflectionPad3d>;
extern template class ModuleOf<ReplicationPad1d>;
extern template class ModuleOf<ReplicationPad2d>;
extern template class ModuleOf<ReplicationPad3d>;
extern template class ModuleOf<CircularPad1d>;
extern template class ModuleOf<CircularPad2d>;
extern template class ModuleOf<CircularPad3d>;
extern template class ModuleOf<ConstantPad1d>;
extern template class ModuleOf<ConstantPad2d>;
extern template class ModuleOf<ConstantPad3d>;

}  // namespace core
