#pragma once
// Normalisations without history: checks with PyTorch's texts, then the backend's slot. Thread safety: pure functions,
// but batch_norm_stats updates running statistics.

#include "libcore/ops/norm.h"
#include "libcore/tensor/tensor.h"

namespace core::raw {

/// What batch_norm found: mean and 1 / sqrt(var + eps) of each channel.
struct NormStats {
  Tensor mean;
  Tensor inverse_std;
};

/// Checks, takes the statistics of x or the running ones, and updates the latter when training.
NormStats batch_norm_stats(const Tensor& x, const BatchNormArguments& arguments);
Tensor batch_norm(const Tensor& x, const NormStats& stats, const BatchNormArguments& arguments);

/// Gradients of input, weight and bias; undefined where not wanted.
struct NormGrads {
  Tensor input;
  Tensor weight;
  Tensor bias;
};

struct NormWanted {
  bool input, weight, bias;
};
NormGrads batch_norm_grad(const Tensor& output_grad, const Tensor& x, const NormStats& stats, const Tensor& weight,
                          bool batch_stats, NormWanted wanted);

struct LayerNormResult {
  Tensor output;
  NormStats stats;
};
LayerNormResult layer_norm(const Tensor& x, const Shape& normalized_shape, const LayerNormArguments& arguments);
NormGrads layer_norm_grad(const Tensor& output_grad, const Tensor& x, const NormStats& stats, const Tensor& weight,
                          NormWanted wanted);

}  // namespace core::raw
