#pragma once
// A softmax over many classes in clusters. As torch.nn.AdaptiveLogSoftmaxWithLoss.
// Thread safety: as Module.
// Use: core::AdaptiveLogSoftmaxWithLoss criterion(64, 10000, {100, 1000}); core::Tensor loss = criterion(x,
// target).loss;

#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"

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

// Made once, in the source of this header.
extern template class ModuleOf<AdaptiveLogSoftmaxWithLoss>;

}  // namespace core
