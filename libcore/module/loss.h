#pragma once
// Losses as modules. As torch.nn's modules of the same names; the functions themselves are in ops/loss.h.
// Thread safety: as Module. Use: core::CrossEntropyLoss criterion; core::Tensor loss = criterion(logits, target);

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/module/linear.h"
#include "libcore/module/module.h"
#include "libcore/ops/loss.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// Class weights are a buffer, as in PyTorch.
struct CrossEntropyLoss : ModuleOf<CrossEntropyLoss> {
  CrossEntropyOptions options;
  explicit CrossEntropyLoss(CrossEntropyOptions given = {}) : options(std::move(given)) {}
  void members(Members& m) override { m.buffer("weight", options.weight); }
  Tensor forward(const Tensor& logits, const Tensor& target) const { return cross_entropy(logits, target, options); }
};

struct NLLLoss : ModuleOf<NLLLoss> {
  NllLossOptions options;
  explicit NLLLoss(NllLossOptions given = {}) : options(std::move(given)) {}
  void members(Members& m) override { m.buffer("weight", options.weight); }
  Tensor forward(const Tensor& log_prob, const Tensor& target) const { return nll_loss(log_prob, target, options); }
};

using NLLLoss2d = NLLLoss;

struct LinearCrossEntropyLayerOptions {
  Shape out_features = {};  ///< d1, ... of the classes' sizes (classes, d1, ...)
  bool bias = false;
  CrossEntropyOptions loss = {};
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// A linear layer into classes and their cross entropy. x: (N, in) or (in).
/// Errors(runtime): "expected weight shape to be (3,), got (2,)",
/// "expected label_smoothing to be in range [0, 1], got 1.5".
struct LinearCrossEntropyLoss : ModuleOf<LinearCrossEntropyLoss> {
  std::int64_t num_classes;
  LinearCrossEntropyLayerOptions options;
  Linear linear;
  LinearCrossEntropyLoss(std::int64_t in, std::int64_t classes, const LinearCrossEntropyLayerOptions& given = {});
  void members(Members& m) override { m.buffer("weight", options.loss.weight).child("linear", linear); }
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x, const Tensor& target) const;
};

struct MSELoss : ModuleOf<MSELoss> {
  Reduction reduction;
  explicit MSELoss(Reduction given = Reduction::mean) : reduction(given) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return mse_loss(x, target, reduction); }
};

struct L1Loss : ModuleOf<L1Loss> {
  Reduction reduction;
  explicit L1Loss(Reduction given = Reduction::mean) : reduction(given) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return l1_loss(x, target, reduction); }
};

struct SmoothL1Loss : ModuleOf<SmoothL1Loss> {
  SmoothL1Options options;
  explicit SmoothL1Loss(SmoothL1Options given = {}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return smooth_l1_loss(x, target, options); }
};

struct HuberLoss : ModuleOf<HuberLoss> {
  HuberOptions options;
  explicit HuberLoss(HuberOptions given = {}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return huber_loss(x, target, options); }
};

struct BCELoss : ModuleOf<BCELoss> {
  BceOptions options;
  explicit BCELoss(BceOptions given = {}) : options(std::move(given)) {}
  void members(Members& m) override { m.buffer("weight", options.weight); }
  Tensor forward(const Tensor& x, const Tensor& target) const { return binary_cross_entropy(x, target, options); }
};

struct BCEWithLogitsLoss : ModuleOf<BCEWithLogitsLoss> {
  BceLogitsOptions options;
  explicit BCEWithLogitsLoss(BceLogitsOptions given = {}) : options(std::move(given)) {}
  void members(Members& m) override { m.buffer("weight", options.weight).buffer("pos_weight", options.pos_weight); }
  Tensor forward(const Tensor& x, const Tensor& target) const {
    return binary_cross_entropy_with_logits(x, target, options);
  }
};

struct KLDivLoss : ModuleOf<KLDivLoss> {
  KlDivOptions options;
  explicit KLDivLoss(KlDivOptions given = {}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return kl_div(x, target, options); }
};

struct PoissonNLLLoss : ModuleOf<PoissonNLLLoss> {
  PoissonNllOptions options;
  explicit PoissonNLLLoss(PoissonNllOptions given = {}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return poisson_nll_loss(x, target, options); }
};

struct GaussianNLLLoss : ModuleOf<GaussianNLLLoss> {
  GaussianNllOptions options;
  explicit GaussianNLLLoss(GaussianNllOptions given = {}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target, const Tensor& var) const {
    return gaussian_nll_loss(x, target, var, options);
  }
};

struct SoftMarginLoss : ModuleOf<SoftMarginLoss> {
  Reduction reduction;
  explicit SoftMarginLoss(Reduction given = Reduction::mean) : reduction(given) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return soft_margin_loss(x, target, reduction); }
};

struct MultiLabelMarginLoss : ModuleOf<MultiLabelMarginLoss> {
  Reduction reduction;
  explicit MultiLabelMarginLoss(Reduction given = Reduction::mean) : reduction(given) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return multilabel_margin_loss(x, target, reduction); }
};

struct HingeEmbeddingLoss : ModuleOf<HingeEmbeddingLoss> {
  MarginOptions options;
  explicit HingeEmbeddingLoss(MarginOptions given = {.margin = 1}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return hinge_embedding_loss(x, target, options); }
};

struct MarginRankingLoss : ModuleOf<MarginRankingLoss> {
  MarginOptions options;
  explicit MarginRankingLoss(MarginOptions given = {}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) const {
    return margin_ranking_loss(a, b, target, options);
  }
};

struct CosineEmbeddingLoss : ModuleOf<CosineEmbeddingLoss> {
  MarginOptions options;
  explicit CosineEmbeddingLoss(MarginOptions given = {}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) const {
    return cosine_embedding_loss(a, b, target, options);
  }
};

struct TripletMarginLoss : ModuleOf<TripletMarginLoss> {
  TripletOptions options;
  explicit TripletMarginLoss(TripletOptions given = {}) : options(std::move(given)) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return triplet_margin_loss(anchor, positive, negative, options);
  }
};

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

struct MultiMarginLoss : ModuleOf<MultiMarginLoss> {
  MultiMarginOptions options;
  explicit MultiMarginLoss(MultiMarginOptions given = {}) : options(std::move(given)) {}
  void members(Members& m) override { m.buffer("weight", options.weight); }
  Tensor forward(const Tensor& x, const Tensor& target) const { return multi_margin_loss(x, target, options); }
};

struct MultiLabelSoftMarginLoss : ModuleOf<MultiLabelSoftMarginLoss> {
  BceOptions options;
  explicit MultiLabelSoftMarginLoss(BceOptions given = {}) : options(std::move(given)) {}
  void members(Members& m) override { m.buffer("weight", options.weight); }
  Tensor forward(const Tensor& x, const Tensor& target) const {
    return multilabel_soft_margin_loss(x, target, options);
  }
};

struct CTCLoss : ModuleOf<CTCLoss> {
  CtcOptions options;
  explicit CTCLoss(CtcOptions given = {}) : options(given) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& log_prob, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                 const std::vector<std::int64_t>& target_lengths) const {
    return ctc_loss(log_prob, targets, input_lengths, target_lengths, options);
  }
};

// Made once, in the source of this header.
extern template class ModuleOf<CrossEntropyLoss>;
extern template class ModuleOf<NLLLoss>;
extern template class ModuleOf<LinearCrossEntropyLoss>;
extern template class ModuleOf<MSELoss>;
extern template class ModuleOf<L1Loss>;
extern template class ModuleOf<SmoothL1Loss>;
extern template class ModuleOf<HuberLoss>;
extern template class ModuleOf<BCELoss>;
extern template class ModuleOf<BCEWithLogitsLoss>;
extern template class ModuleOf<KLDivLoss>;
extern template class ModuleOf<PoissonNLLLoss>;
extern template class ModuleOf<GaussianNLLLoss>;
extern template class ModuleOf<SoftMarginLoss>;
extern template class ModuleOf<MultiLabelMarginLoss>;
extern template class ModuleOf<HingeEmbeddingLoss>;
extern template class ModuleOf<MarginRankingLoss>;
extern template class ModuleOf<CosineEmbeddingLoss>;
extern template class ModuleOf<TripletMarginLoss>;
extern template class ModuleOf<TripletMarginWithDistanceLoss>;
extern template class ModuleOf<MultiMarginLoss>;
extern template class ModuleOf<MultiLabelSoftMarginLoss>;
extern template class ModuleOf<CTCLoss>;

}  // namespace core
