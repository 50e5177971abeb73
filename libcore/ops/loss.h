#pragma once
// Losses, as torch.nn.functional: values, gradients, warnings and errors are PyTorch's. Thread safety: pure functions.
// Use: core::Tensor loss = core::cross_entropy(scores, labels); core::Tensor l1 = core::smooth_l1_loss(x, y, {.beta =
// 0.5});

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

enum class Reduction { none, mean, sum };

/// Error(value) "foo is not a valid value for reduction".
Reduction parse_reduction(std::string_view text);
std::string_view name(Reduction reduction);

/// Warns as PyTorch when the sizes differ; they broadcast.
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

struct NllLossOptions {
  Tensor weight = {};  ///< of each class
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

/// log_prob: (N, C), (C) or (N, C, d1, ...); target: class indices (N), () or (N, d1, ...).
Tensor nll_loss(const Tensor& log_prob, const Tensor& target, const NllLossOptions& options = {});

struct CrossEntropyOptions {
  Tensor weight = {};
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
};

/// logits as log_prob above; target: class indices as above, or probabilities in the shape of the logits.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

/// cross_entropy() of linear(x, weight, bias). x: (N, in) or (in); weight: (classes, in) or (classes, d1, ..., in),
/// then bias (classes, d1, ...) and target (N, d1, ...). Errors(runtime): PyTorch's texts for sizes.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias = {},
                            const CrossEntropyOptions& options = {});

/// Warns as PyTorch when the sizes differ; they broadcast. So do smooth_l1_loss and huber_loss.
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

struct SmoothL1Options {
  Reduction reduction = Reduction::mean;
  double beta = 1;
};

/// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2.
/// Error(runtime) "smooth_l1_loss does not support negative values for beta."
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, const SmoothL1Options& options = {});

struct HuberOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;
};

/// d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2).
/// Error(runtime) "huber_loss does not support non-positive values for delta."
Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberOptions& options = {});

struct BceOptions {
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};

/// x: probabilities; each logarithm is at least -100.
/// Errors: "Using a target size ... is deprecated" (value), "all elements of input should be between 0 and 1".
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const BceOptions& options = {});

struct BceLogitsOptions {
  Tensor weight = {};
  Tensor pos_weight = {};
  Reduction reduction = Reduction::mean;
};

/// Error(value) "Target size (torch.Size([4])) must be the same as input size (torch.Size([4, 1]))".
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const BceLogitsOptions& options = {});

struct KlDivOptions {
  Reduction reduction = Reduction::mean;
  bool batch_mean = false;  ///< the sum over the first dimension's size, whatever `reduction` says
  bool log_target = false;
};

/// x: log probabilities.
Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options = {});

struct PoissonNllOptions {
  bool log_input = true;
  bool full = false;  ///< add Stirling's approximation
  double eps = 1e-8;
  Reduction reduction = Reduction::mean;
};

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonNllOptions& options = {});

struct GaussianNllOptions {
  bool full = false;
  double eps = 1e-6;  ///< the least variance
  Reduction reduction = Reduction::mean;
};

/// Errors (value): "var is of incorrect size", "var has negative entry/entries".
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         const GaussianNllOptions& options = {});
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

struct MarginOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};

/// PyTorch's margin here is 1 unless given. target: 1 or -1.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, const MarginOptions& options = {.margin = 1});
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, const MarginOptions& options = {});
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, const MarginOptions& options = {});

struct TripletOptions {
  double margin = 1;
  double p = 2;
  double eps = 1e-6;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletOptions& options = {});
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

struct MultiMarginOptions {
  double p = 1;
  double margin = 1;
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};

/// x: (N, C) or (C); target: classes.
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginOptions& options = {});
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const BceOptions& options = {});

/// target: classes of each row, -1 behind the last.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

struct CtcOptions {
  std::int64_t blank = 0;
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;
};

/// log_prob: (T, N, C) or (T, C); targets: (N, S), or all in one row; lengths: one a sample.
Tensor ctc_loss(const Tensor& log_prob, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, const CtcOptions& options = {});

}  // namespace core
