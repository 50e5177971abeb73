#pragma once
// Normalisations: batch, layer, group, instance, root mean square, response. As torch.nn's modules of the same names.
// Thread safety: as Module; in training mode forward writes the running statistics.
// Use: core::BatchNorm2d bn(6); core::Tensor y = bn(x);

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "libcore/module/module.h"
#include "libcore/ops/norm.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< none: the plain average of all batches so far
  bool affine = true;                    ///< learn weight and bias
  bool track_running_stats = true;       ///< keep statistics for evaluation
  bool bias = true;                      ///< with affine
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// What batch normalisations of all ranks share.
struct BatchNormState {
  std::int64_t num_features;
  BatchNormOptions options;
  Parameter weight;  ///< ones; undefined without affine
  Parameter bias;    ///< zeros; undefined without affine or bias
  Tensor running_mean;
  Tensor running_var;
  Tensor num_batches_tracked;  ///< int64, 0-dim
  bool synchronized = false;   ///< prints and works as SyncBatchNorm

  void reset_parameters();
  void reset_running_stats();

 protected:
  BatchNormState(std::int64_t features, const BatchNormOptions& given);
  void list(Members& m);
  std::string describe() const;
  /// States before version 2 had no num_batches_tracked: 0 is filled in.
  void upgrade(StateDict& state, std::string_view prefix, std::optional<int> saved_version) const;
  Tensor normalise(const Tensor& x, bool training);
  /// Error(value) "expected 4D input (got 2D input)" unless the rank is one of these; of a synchronized one
  /// "expected at least 2D input (got 1D input)".
  void check_rank(const Tensor& x, std::int64_t low, std::int64_t high) const;
  Tensor normalise_instances(const Tensor& x, std::int64_t rank, bool training);

 private:
  double average_factor();
};

/// x: (N, C) or (N, C, L).
struct BatchNorm1d : ModuleOf<BatchNorm1d>, BatchNormState {
  explicit BatchNorm1d(std::int64_t features, const BatchNormOptions& given = {}) : BatchNormState(features, given) {}
  template <std::floating_point Eps>
  BatchNorm1d(std::int64_t features, Eps eps) : BatchNorm1d(features, BatchNormOptions{.eps = eps}) {}
  template <std::floating_point Eps>
  BatchNorm1d(std::int64_t features, Eps eps, double momentum)
      : BatchNorm1d(features, BatchNormOptions{.eps = eps, .momentum = momentum}) {}
  void members(Members& m) override { list(m); }
  std::string class_name() const override { return synchronized ? "SyncBatchNorm" : Module::class_name(); }
  std::string extra_repr() const override { return describe(); }
  int version() const override { return 2; }
  void before_load(StateDict& state, std::string_view prefix, std::optional<int> saved_version) override {
    upgrade(state, prefix, saved_version);
  }
  Tensor forward(const Tensor& x);
};

/// x: (N, C, H, W).
struct BatchNorm2d : ModuleOf<BatchNorm2d>, BatchNormState {
  explicit BatchNorm2d(std::int64_t features, const BatchNormOptions& given = {}) : BatchNormState(features, given) {}
  template <std::floating_point Eps>
  BatchNorm2d(std::int64_t features, Eps eps) : BatchNorm2d(features, BatchNormOptions{.eps = eps}) {}
  template <std::floating_point Eps>
  BatchNorm2d(std::int64_t features, Eps eps, double momentum)
      : BatchNorm2d(features, BatchNormOptions{.eps = eps, .momentum = momentum}) {}
  void members(Members& m) override { list(m); }
  std::string class_name() const override { return synchronized ? "SyncBatchNorm" : Module::class_name(); }
  std::string extra_repr() const override { return describe(); }
  int version() const override { return 2; }
  void before_load(StateDict& state, std::string_view prefix, std::optional<int> saved_version) override {
    upgrade(state, prefix, saved_version);
  }
  Tensor forward(const Tensor& x);
};

/// x: (N, C, D, H, W).
struct BatchNorm3d : ModuleOf<BatchNorm3d>, BatchNormState {
  explicit BatchNorm3d(std::int64_t features, const BatchNormOptions& given = {}) : BatchNormState(features, given) {}
  template <std::floating_point Eps>
  BatchNorm3d(std::int64_t features, Eps eps) : BatchNorm3d(features, BatchNormOptions{.eps = eps}) {}
  template <std::floating_point Eps>
  BatchNorm3d(std::int64_t features, Eps eps, double momentum)
      : BatchNorm3d(features, BatchNormOptions{.eps = eps, .momentum = momentum}) {}
  void members(Members& m) override { list(m); }
  std::string class_name() const override { return synchronized ? "SyncBatchNorm" : Module::class_name(); }
  std::string extra_repr() const override { return describe(); }
  int version() const override { return 2; }
  void before_load(StateDict& state, std::string_view prefix, std::optional<int> saved_version) override {
    upgrade(state, prefix, saved_version);
  }
  Tensor forward(const Tensor& x);
};

/// Batch normalisation of any rank whose statistics, in training, are those of all processes of a distributed training
/// (libcore/dist), on the CPU too, which PyTorch refuses. In one process it does the same as the ordinary ones (as
/// PyTorch's does there; replicas of DataParallel use their own batches in both). A second derivative through several
/// processes is not supported. x: (N, C, ...).
struct SyncBatchNorm : ModuleOf<SyncBatchNorm>, BatchNormState {
  explicit SyncBatchNorm(std::int64_t features, const BatchNormOptions& given = {}) : BatchNormState(features, given) {
    synchronized = true;
  }
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  int version() const override { return 2; }
  void before_load(StateDict& state, std::string_view prefix, std::optional<int> saved_version) override {
    upgrade(state, prefix, saved_version);
  }
  Tensor forward(const Tensor& x);

  /// Every BatchNorm1d, 2d and 3d in `module` becomes synchronized, in place: a member of a struct keeps its type, and
  /// prints and works as SyncBatchNorm.
  template <class M>
  static M& convert_sync_batchnorm(M& module) {
    convert_all(module);
    return module;
  }

 private:
  static void convert_all(Module& module);
};

/// As BatchNormOptions, but PyTorch's instance norms neither learn nor track unless asked to.
struct InstanceNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
  bool bias = true;  ///< with affine
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// Rank: dimensions behind the channels. x: (N, C, ...) or (C, ...).
template <class Derived, std::int64_t Rank>
struct InstanceNormModule : ModuleOf<Derived>, BatchNormState {
  explicit InstanceNormModule(std::int64_t features, const InstanceNormOptions& o = {})
      : ModuleOf<Derived>(OnBehalf()),
        BatchNormState(features, {o.eps, o.momentum, o.affine, o.track_running_stats, o.bias, o.dtype, o.device}) {}
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  int version() const override { return 2; }
  void before_load(StateDict& state, std::string_view prefix, std::optional<int> saved_version) override {
    upgrade(state, prefix, saved_version);
  }
  Tensor forward(const Tensor& x) { return normalise_instances(x, Rank, this->is_training()); }
};
struct InstanceNorm1d : InstanceNormModule<InstanceNorm1d, 1> {
  using InstanceNormModule::InstanceNormModule;
};
struct InstanceNorm2d : InstanceNormModule<InstanceNorm2d, 2> {
  using InstanceNormModule::InstanceNormModule;
};
struct InstanceNorm3d : InstanceNormModule<InstanceNorm3d, 3> {
  using InstanceNormModule::InstanceNormModule;
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;  ///< with elementwise_affine
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// Over the last dimensions of x, which are `normalized_shape`.
struct LayerNorm : ModuleOf<LayerNorm> {
  Shape normalized_shape;
  LayerNormOptions options;
  Parameter weight;
  Parameter bias;

  explicit LayerNorm(std::initializer_list<std::int64_t> shape, const LayerNormOptions& given = {})
      : LayerNorm(Shape(shape), given) {}
  explicit LayerNorm(const Shape& shape, const LayerNormOptions& given = {});
  template <std::floating_point Eps>
  LayerNorm(const Shape& shape, Eps eps) : LayerNorm(shape, LayerNormOptions{.eps = eps}) {}
  void reset_parameters();
  void members(Members& m) override;
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;  ///< with affine
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// x: (N, C, ...); each of the groups of channels is normalised by itself.
struct GroupNorm : ModuleOf<GroupNorm> {
  std::int64_t num_groups;
  std::int64_t num_channels;
  GroupNormOptions options;
  Parameter weight;
  Parameter bias;

  /// Error(value) "num_channels (5) must be divisible by num_groups (2)".
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& given = {});
  void members(Members& m) override { m.parameter("weight", weight).parameter("bias", bias); }
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return group_norm(x, num_groups, {weight, bias, options.eps}); }
};

struct RmsNormOptions {
  std::optional<double> eps = {};  ///< the dtype's machine epsilon
  bool elementwise_affine = true;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// Over the last dimensions of x, which are `normalized_shape`.
struct RMSNorm : ModuleOf<RMSNorm> {
  Shape normalized_shape;
  RmsNormOptions options;
  Parameter weight;

  explicit RMSNorm(std::initializer_list<std::int64_t> shape, const RmsNormOptions& given = {})
      : RMSNorm(Shape(shape), given) {}
  explicit RMSNorm(const Shape& shape, const RmsNormOptions& given = {});
  void members(Members& m) override { m.parameter("weight", weight); }
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return rms_norm(x, normalized_shape, {weight, options.eps}); }
};

/// Over neighbouring channels. x: (N, C, ...).
struct LocalResponseNorm : ModuleOf<LocalResponseNorm> {
  std::int64_t size;
  ResponseNormOptions options;

  explicit LocalResponseNorm(std::int64_t neighbours, const ResponseNormOptions& given = {})
      : size(neighbours), options(given) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return local_response_norm(x, size, options); }
};

struct CrossMapOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  Scalar k = 1;  ///< prints as it is given: "1", "2.0"
};

/// The older form of LocalResponseNorm, with PyTorch's two errors: sums of channels never let go of the first channel,
/// and the gradient takes the neighbours on one side alone. x: (N, C, H, W).
struct CrossMapLRN2d : ModuleOf<CrossMapLRN2d> {
  std::int64_t size;
  CrossMapOptions options;

  explicit CrossMapLRN2d(std::int64_t neighbours, const CrossMapOptions& given = {})
      : size(neighbours), options(given) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  /// Error(value) "CrossMapLRN2d: Expected input to be 4D, got 2D instead."
  Tensor forward(const Tensor& x) const;
};

// Made once, in the source of this header.
extern template class ModuleOf<BatchNorm1d>;
extern template class ModuleOf<BatchNorm2d>;
extern template class ModuleOf<BatchNorm3d>;
extern template class ModuleOf<SyncBatchNorm>;
extern template class ModuleOf<InstanceNorm1d>;
extern template class ModuleOf<InstanceNorm2d>;
extern template class ModuleOf<InstanceNorm3d>;
extern template class ModuleOf<LayerNorm>;
extern template class ModuleOf<GroupNorm>;
extern template class ModuleOf<RMSNorm>;
extern template class ModuleOf<LocalResponseNorm>;
extern template class ModuleOf<CrossMapLRN2d>;

}  // namespace core
