#pragma once
// BatchNorm1d, BatchNorm2d, LayerNorm. As torch.nn's modules of the same names.
// Thread safety: as Module; in training mode forward writes the running statistics.
// Use: core::BatchNorm2d bn(6); core::Tensor y = bn(x);

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/module/module.h"
#include "libcore/tensor/nn_ops.h"

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

  void reset_parameters();
  void reset_running_stats();

 protected:
  BatchNormState(std::int64_t features, const BatchNormOptions& given);
  void list(Members& m);
  std::string describe() const;
  /// States before version 2 had no num_batches_tracked: 0 is filled in.
  void upgrade(StateDict& state, std::string_view prefix, std::optional<int> saved_version) const;
  Tensor normalise(const Tensor& x, bool training);

 private:
  double average_factor();
};

/// x: (N, C) or (N, C, L).
struct BatchNorm1d : ModuleOf<BatchNorm1d>, BatchNormState {
  explicit BatchNorm1d(std::int64_t features, const BatchNormOptions& given = {}) : BatchNormState(features, given) {}
  void members(Members& m) override { list(m); }
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
  void members(Members& m) override { list(m); }
  std::string extra_repr() const override { return describe(); }
  int version() const override { return 2; }
  void before_load(StateDict& state, std::string_view prefix, std::optional<int> saved_version) override {
    upgrade(state, prefix, saved_version);
  }
  Tensor forward(const Tensor& x);
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

  explicit LayerNorm(const Shape& shape, const LayerNormOptions& given = {});
  void reset_parameters();
  void members(Members& m) override;
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

}  // namespace core
