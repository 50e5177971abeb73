#pragma once
// Linear, Bilinear, Identity, Flatten, distances. As torch.nn's modules of the same names.
// Thread safety: as Module. Use: core::Linear fc(5, 2); core::Tensor y = fc(x);

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include "libcore/module/module.h"
#include "libcore/ops/distance.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct LinearOptions {
  bool bias = true;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// y = x @ weight^T + bias. x: (*, in), weight: (out, in), bias: (out), y: (*, out).
struct Linear : ModuleOf<Linear> {
  std::int64_t in_features;
  std::int64_t out_features;
  Parameter weight;
  Parameter bias;  ///< undefined when there is none

  Linear(std::int64_t in, std::int64_t out, const LinearOptions& options = {});
  template <std::same_as<bool> Bool>
  Linear(std::int64_t in, std::int64_t out, Bool with_bias) : Linear(in, out, LinearOptions{.bias = with_bias}) {}
  /// Draws the initial values again.
  void reset_parameters();
  void members(Members& m) override;
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

/// y_k = a @ weight_k @ b + bias_k. a: (*, in1), b: (*, in2), weight: (out, in1, in2), y: (*, out).
struct Bilinear : ModuleOf<Bilinear> {
  std::int64_t in1_features;
  std::int64_t in2_features;
  std::int64_t out_features;
  Parameter weight;
  Parameter bias;  ///< undefined when there is none

  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, const LinearOptions& options = {});
  void reset_parameters();
  void members(Members& m) override;
  std::string extra_repr() const override;
  Tensor forward(const Tensor& a, const Tensor& b) const;
};

/// Gives its input back.
struct Identity : ModuleOf<Identity> {
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return x; }
};

/// Makes one dimension of those from start_dim to end_dim.
struct Flatten : ModuleOf<Flatten> {
  std::int64_t start_dim;
  std::int64_t end_dim;

  explicit Flatten(std::int64_t start = 1, std::int64_t end = -1) : start_dim(start), end_dim(end) {}
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const { return x.flatten(start_dim, end_dim); }
};

struct CosineSimilarity : ModuleOf<CosineSimilarity> {
  CosineOptions options;
  explicit CosineSimilarity(const CosineOptions& given = {}) : options(given) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& a, const Tensor& b) const { return cosine_similarity(a, b, options); }
};

struct PairwiseDistance : ModuleOf<PairwiseDistance> {
  PairwiseOptions options;
  explicit PairwiseDistance(const PairwiseOptions& given = {}) : options(given) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& a, const Tensor& b) const { return pairwise_distance(a, b, options); }
};

// Made once, in the source of this header.
extern template class ModuleOf<Linear>;
extern template class ModuleOf<Bilinear>;
extern template class ModuleOf<Identity>;
extern template class ModuleOf<Flatten>;
extern template class ModuleOf<CosineSimilarity>;
extern template class ModuleOf<PairwiseDistance>;

}  // namespace core
