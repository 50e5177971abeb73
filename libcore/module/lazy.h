#pragma once
// Lazy modules: the size of the input is taken from the first call. As torch.nn's modules of the same names. Until then
// they print with "Lazy" in front of their name and hold uninitialized tensors; afterwards they are what their `layer`
// is. A state_dict may be loaded before the first call, which then keeps the values that were loaded.
// Thread safety: as Module, but the first call must be over before others begin; DataParallel needs it too.
// Use: core::LazyLinear fc(2); core::Tensor y = fc(x);  // fc.layer.in_features == x.size(-1)

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "libcore/module/conv.h"
#include "libcore/module/conv_nd.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/tensor/factory.h"

namespace core {

namespace detail {

/// Among the module's own parameters and buffers.
bool has_uninitialized(Module& module);
/// Error(runtime) when some were loaded before the first call and others were not.
void check_all_or_none(Module& module);
/// Own tensors that are uninitialized get the shape of what the state holds for them.
void materialize_for(Module& module, const StateDict& state, std::string_view prefix);
/// The channels of an input for a convolution over `rank` dimensions. Error(runtime) "Expected 3D (unbatched) or 4D
/// (batched) input to LazyConv2d, but got input of size: torch.Size([2, 3])", Error(value) "in_channels must be
/// divisible by groups".
std::int64_t lazy_channels(const Tensor& x, std::int64_t rank, std::int64_t groups, const std::string& class_name);
void make_lazy(Linear& layer, const LinearOptions& options);
void make_lazy(Conv2d& layer, bool bias, const TensorOptions& made);
void make_lazy(ConvState& layer, bool bias, const TensorOptions& made);
void make_lazy(BatchNormState& layer, const BatchNormOptions& options);
void settle(Linear& layer, const Tensor& x);
void settle(Conv2d& layer, std::int64_t channels);
void settle(ConvState& layer, std::int64_t channels, bool is_transposed);
void settle(BatchNormState& layer, std::int64_t features);

/// Options that cost nothing to make a module with: no memory, no random numbers.
template <class Options>
Options without_memory(Options options) {
  options.device = Device(DeviceType::meta);
  options.bias = false;
  return options;
}

}  // namespace detail

/// What lazy modules share. Layer: the module that this one becomes.
template <class Derived, class Layer>
struct LazyModule : ModuleOf<Derived> {
  Layer layer;

  bool has_uninitialized_params() { return detail::has_uninitialized(layer); }
  void members(Members& m) override { layer.members(m); }
  std::string extra_repr() const override { return layer.extra_repr(); }
  std::string class_name() const override { return (called_ ? "" : "Lazy") + layer.class_name(); }
  int version() const override { return layer.version(); }
  void set_training(bool mode) override {
    Module::set_training(mode);
    layer.set_training(mode);
  }
  void before_load(StateDict& state, std::string_view prefix, std::optional<int> saved_version) override {
    layer.before_load(state, prefix, saved_version);
    detail::materialize_for(layer, state, prefix);
  }
  Tensor forward(const Tensor& x) {
    if (!called_) {
      detail::check_all_or_none(layer);
      static_cast<Derived&>(*this).initialize_parameters(x);
      called_ = true;
    }
    return layer.forward(x);
  }

 protected:
  explicit LazyModule(Layer made) : ModuleOf<Derived>(OnBehalf()), layer(std::move(made)) {}

 private:
  bool called_ = false;
};

struct LazyLinear : LazyModule<LazyLinear, Linear> {
  explicit LazyLinear(std::int64_t out, const LinearOptions& options = {})
      : LazyModule(Linear(1, out, detail::without_memory(options))) {
    detail::make_lazy(layer, options);
  }
  /// What the first call does before anything else.
  void initialize_parameters(const Tensor& x) { detail::settle(layer, x); }
};

struct LazyConv2d : LazyModule<LazyConv2d, Conv2d> {
  LazyConv2d(std::int64_t out, Size2 kernel, const Conv2dLayerOptions& given = {})
      : LazyModule(Conv2d(given.groups, out, kernel, detail::without_memory(given))) {
    detail::make_lazy(layer, given.bias, {.dtype = given.dtype, .device = given.device});
  }
  void initialize_parameters(const Tensor& x) {
    if (has_uninitialized_params()) {
      detail::settle(layer, detail::lazy_channels(x, 2, layer.options.groups, class_name()));
    }
  }
};

/// Rank: dimensions behind the channels.
template <class Derived, class Layer, std::int64_t Rank, bool kIsTransposed>
struct LazyConvModule : LazyModule<Derived, Layer> {
  LazyConvModule(std::int64_t out, const Shape& kernel, const ConvLayerOptions& given = {})
      : LazyModule<Derived, Layer>(Layer(given.groups, out, kernel, detail::without_memory(given))) {
    detail::make_lazy(this->layer, given.bias, {.dtype = given.dtype, .device = given.device});
  }
  void initialize_parameters(const Tensor& x) {
    if (!this->has_uninitialized_params()) return;
    const std::int64_t channels = detail::lazy_channels(x, Rank, this->layer.groups, this->class_name());
    detail::settle(this->layer, channels, kIsTransposed);
  }
};
struct LazyConv1d : LazyConvModule<LazyConv1d, Conv1d, 1, false> {
  using LazyConvModule::LazyConvModule;
};
struct LazyConv3d : LazyConvModule<LazyConv3d, Conv3d, 3, false> {
  using LazyConvModule::LazyConvModule;
};
struct LazyConvTranspose1d : LazyConvModule<LazyConvTranspose1d, ConvTranspose1d, 1, true> {
  using LazyConvModule::LazyConvModule;
};
struct LazyConvTranspose2d : LazyConvModule<LazyConvTranspose2d, ConvTranspose2d, 2, true> {
  using LazyConvModule::LazyConvModule;
};
struct LazyConvTranspose3d : LazyConvModule<LazyConvTranspose3d, ConvTranspose3d, 3, true> {
  using LazyConvModule::LazyConvModule;
};

/// Of batch and instance norms; the latter learn and track here unless told otherwise, as in PyTorch.
template <class Derived, class Layer>
struct LazyNormModule : LazyModule<Derived, Layer> {
  explicit LazyNormModule(const BatchNormOptions& given = {})
      : LazyModule<Derived, Layer>(Layer(0, {.affine = false, .track_running_stats = false})) {
    detail::make_lazy(this->layer, given);
  }
  void initialize_parameters(const Tensor& x) {
    if (this->has_uninitialized_params()) detail::settle(this->layer, x.size(1));
  }
};
struct LazyBatchNorm1d : LazyNormModule<LazyBatchNorm1d, BatchNorm1d> {
  using LazyNormModule::LazyNormModule;
};
struct LazyBatchNorm2d : LazyNormModule<LazyBatchNorm2d, BatchNorm2d> {
  using LazyNormModule::LazyNormModule;
};
struct LazyBatchNorm3d : LazyNormModule<LazyBatchNorm3d, BatchNorm3d> {
  using LazyNormModule::LazyNormModule;
};
struct LazyInstanceNorm1d : LazyNormModule<LazyInstanceNorm1d, InstanceNorm1d> {
  using LazyNormModule::LazyNormModule;
};
struct LazyInstanceNorm2d : LazyNormModule<LazyInstanceNorm2d, InstanceNorm2d> {
  using LazyNormModule::LazyNormModule;
};
struct LazyInstanceNorm3d : LazyNormModule<LazyInstanceNorm3d, InstanceNorm3d> {
  using LazyNormModule::LazyNormModule;
};

// Made once, in the source of this header.
extern template class ModuleOf<LazyLinear>;
extern template class ModuleOf<LazyConv2d>;
extern template class ModuleOf<LazyConv1d>;
extern template class ModuleOf<LazyConv3d>;
extern template class ModuleOf<LazyConvTranspose1d>;
extern template class ModuleOf<LazyConvTranspose2d>;
extern template class ModuleOf<LazyConvTranspose3d>;
extern template class ModuleOf<LazyBatchNorm1d>;
extern template class ModuleOf<LazyBatchNorm2d>;
extern template class ModuleOf<LazyBatchNorm3d>;
extern template class ModuleOf<LazyInstanceNorm1d>;
extern template class ModuleOf<LazyInstanceNorm2d>;
extern template class ModuleOf<LazyInstanceNorm3d>;

}  // namespace core
