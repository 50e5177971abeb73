#pragma once
// SparseAdam, Adafactor and Muon. As torch.optim's classes of these names.
// Thread safety: as Optimizer. Use: core::Muon optimizer(matrices, {.lr = 0.02});

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/optim/optimizer.h"

namespace core {

struct SparseAdamOptions {
  Scalar lr = 1e-3;
  std::pair<Scalar, Scalar> betas = {0.9, 0.999};
  Scalar eps = 1e-8;
  bool maximize = false;
};

/// Adam for sparse gradients: only rows that have one change, and their moments.
class SparseAdam final : public Optimizer {
 public:
  /// Errors(value): "Invalid learning rate: 0.0" and its like; Error(runtime) from step(): "SparseAdam does not support
  /// dense gradients, please consider Adam instead".
  explicit SparseAdam(const std::vector<Tensor>& params, const SparseAdamOptions& options = {})
      : SparseAdam(detail::one_group(params), options) {}
  explicit SparseAdam(std::vector<ParamGroup> groups, const SparseAdamOptions& options = {});

 private:
  void update(const ParamGroup& group) override;
};

struct AdafactorOptions {
  Scalar lr = 1e-2;
  Scalar beta2_decay = -0.8;
  std::pair<std::optional<Scalar>, Scalar> eps = {std::nullopt, 1e-3};  ///< the first none: the type's own
  Scalar d = 1.0;                                                       ///< clips the update's root mean square
  Scalar weight_decay = 0.0;
  bool maximize = false;
};

/// Adam whose second moment of a matrix is one number a row and one a column.
/// Source: Shazeer and Stern, "Adafactor", 2018.
class Adafactor final : public Optimizer {
 public:
  /// Errors(value): "Learning rate should be >= 0 but is: -1.0" and its like.
  explicit Adafactor(const std::vector<Tensor>& params, const AdafactorOptions& options = {})
      : Adafactor(detail::one_group(params), options) {}
  explicit Adafactor(std::vector<ParamGroup> groups, const AdafactorOptions& options = {});

 private:
  void update(const ParamGroup& group) override;
};

struct MuonOptions {
  Scalar lr = 1e-3;
  Scalar weight_decay = 0.1;
  Scalar momentum = 0.95;
  bool nesterov = true;
  std::array<Scalar, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  Scalar eps = 1e-7;
  std::int64_t ns_steps = 5;
  std::string adjust_lr_fn = {};  ///< "original" (also when empty), "match_rms_adamw", "spectral_unclamped"
};

/// Momentum whose update of a matrix is made nearly orthogonal by Newton and Schulz's iteration, in bf16.
/// Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
class Muon final : public Optimizer {
 public:
  /// Errors(value): "Muon only supports 2D parameters whereas we found a parameter with size: torch.Size([3])" and its
  /// like.
  explicit Muon(const std::vector<Tensor>& params, const MuonOptions& options = {})
      : Muon(detail::one_group(params), options) {}
  explicit Muon(std::vector<ParamGroup> groups, const MuonOptions& options = {});

 private:
  void update(const ParamGroup& group) override;
};

}  // namespace core
