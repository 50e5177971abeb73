#pragma once
// AdaptiveLogSoftmaxWithLoss, FractionalMaxPool2d and 3d, TripletMarginWithDistanceLoss, UpsamplingNearest2d,
// UpsamplingBilinear2d. As torch.nn's modules of the same names.
// Thread safety: as Module. Use: core::FractionalMaxPool2d pool({2}, {.output_ratio = {0.5}}); core::Tensor y =
// pool(x);

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/module/image.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "libcore/tensor/fractional_pool.h"
#include "libcore/tensor/nn_ops.h"

namespace core {

/// A softmax over many classes, of which the frequent come first: those before the first cutoff by themselves, the rest
/// in clusters with smaller projections. Source: Grave et al., "Efficient softmax approximation for GPUs", 2017.
struct AdaptiveLogSoftmaxWithLoss : ModuleOf<AdaptiveLogSoftmaxWithLoss> {
  struct Options {
    double div_value = 4.0;  ///< each cluster's projection is this much narrower
    bool head_bias = false;
    std::optional<DType> dtype = {};
    std::optional<Device> device = {};
  };
  struct Output {
    Tensor output;  ///< log probabilities of the targets: (N) or ()
    Tensor loss;    ///< minus their mean
  };

  std::int64_t in_features;
  std::int64_t n_classes;
  std::vector<std::int64_t> cutoffs;  ///< with n_classes at the end
  Linear head;
  ModuleList tail;

  /// Errors(value): PyTorch's texts unless the cutoffs ascend within the classes.
  AdaptiveLogSoftmaxWithLoss(std::int64_t in, std::int64_t classes, const std::vector<std::int64_t>& cuts,
                             const Options& options);
  AdaptiveLogSoftmaxWithLoss(std::int64_t in, std::int64_t classes, const std::vector<std::int64_t>& cuts)
      : AdaptiveLogSoftmaxWithLoss(in, classes, cuts, Options()) {}
  void reset_parameters();
  void members(Members& m) override { m.child("head", head).child("tail", tail); }
  /// x: (N, in) or (in); target: (N) or ().
  Output forward(const Tensor& x, const Tensor& target);
  /// x: (N, in); gives (N, classes).
  Tensor log_prob(const Tensor& x);
  /// The likeliest class of each row.
  Tensor predict(const Tensor& x);

 private:
  std::int64_t clusters() const { return static_cast<std::int64_t>(cutoffs.size()) - 1; }
  Tensor cluster_log_prob(std::int64_t cluster, const Tensor& x);
};

struct FractionalMaxPool2d : ModuleOf<FractionalMaxPool2d> {
  Shape kernel_size;
  FractionalPoolOptions options;
  /// Errors(value): PyTorch's texts unless just one of size and ratio is given, and the ratio is between 0 and 1.
  FractionalMaxPool2d(const Shape& kernel, const FractionalPoolOptions& given);
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return fractional_max_pool2d(x, kernel_size, options).values; }
  ValuesIndices with_indices(const Tensor& x) const { return fractional_max_pool2d(x, kernel_size, options); }
};

struct FractionalMaxPool3d : ModuleOf<FractionalMaxPool3d> {
  Shape kernel_size;
  FractionalPoolOptions options;
  FractionalMaxPool3d(const Shape& kernel, const FractionalPoolOptions& given);
  void members(Members&) override {}
  Tensor forward(const Tensor& x) const { return fractional_max_pool3d(x, kernel_size, options).values; }
  ValuesIndices with_indices(const Tensor& x) const { return fractional_max_pool3d(x, kernel_size, options); }
};

using DistanceFunction = std::function<Tensor(const Tensor&, const Tensor&)>;
struct TripletDistanceOptions {
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
/// max(distance(anchor, positive) - distance(anchor, negative) + margin, 0). Without a distance that of
/// pairwise_distance. Errors: Error(value) "margin must be greater than 0, got -1.0"; Error(runtime) for other ranks.
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const DistanceFunction& distance = {},
                                         const TripletDistanceOptions& options = {});

struct TripletMarginWithDistanceLoss : ModuleOf<TripletMarginWithDistanceLoss> {
  DistanceFunction distance;
  std::shared_ptr<Module> distance_function;  ///< where the distance is a module
  TripletDistanceOptions options;

  explicit TripletMarginWithDistanceLoss(const TripletDistanceOptions& given = {})
      : TripletMarginWithDistanceLoss(PairwiseDistance(), given) {}
  template <class Distance>
  requires std::is_invocable_r_v<Tensor, Distance&, const Tensor&, const Tensor&>
  explicit TripletMarginWithDistanceLoss(Distance function, const TripletDistanceOptions& given = {}) : options(given) {
    check();
    if constexpr (std::is_base_of_v<Module, Distance>) {
      auto module = std::make_shared<Distance>(std::move(function));
      distance_function = module;
      distance = [module](const Tensor& a, const Tensor& b) { return (*module)(a, b); };
    } else {
      distance = std::move(function);
    }
  }
  void members(Members& m) override {
    if (distance_function) m.child("distance_function", distance_function);
  }
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return triplet_margin_with_distance_loss(anchor, positive, negative, distance, options);
  }

 private:
  void check() const;
};

/// Where an image is to be upsampled to: a size, or a factor.
struct UpsamplingOptions {
  Shape size = {};
  std::vector<double> scale_factor = {};
};
struct UpsamplingNearest2d : ModuleOf<UpsamplingNearest2d> {
  Upsample upsample;
  explicit UpsamplingNearest2d(const UpsamplingOptions& given)
      : upsample({.size = given.size, .scale_factor = given.scale_factor}) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return upsample.extra_repr(); }
  Tensor forward(const Tensor& x) const { return upsample.forward(x); }
};
/// With corners aligned.
struct UpsamplingBilinear2d : ModuleOf<UpsamplingBilinear2d> {
  Upsample upsample;
  explicit UpsamplingBilinear2d(const UpsamplingOptions& given)
      : upsample({.size = given.size, .scale_factor = given.scale_factor, .mode = "bilinear", .align_corners = true}) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return upsample.extra_repr(); }
  Tensor forward(const Tensor& x) const { return upsample.forward(x); }
};

}  // namespace core
