#pragma once
// Adam for sparse gradients. As torch.optim.SparseAdam.
// Thread safety: as Optimizer. Use: core::SparseAdam optimizer(embedding.parameters(), {.lr = 0.01});

#include <type_traits>
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
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> SparseAdam(const std::vector<Tensor>& params, Number lr)
      : SparseAdam(params, SparseAdamOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

}  // namespace core
