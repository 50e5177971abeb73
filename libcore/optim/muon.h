#pragma once
// Muon. As torch.optim.Muon.
// Thread safety: as Optimizer. Use: core::Muon optimizer(matrices, {.lr = 0.02});

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "libcore/optim/optimizer.h"

namespace core {

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
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> Muon(const std::vector<Tensor>& params, Number lr)
      : Muon(params, MuonOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

}  // namespace core
