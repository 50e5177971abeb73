#pragma once
// Adafactor. As torch.optim.Adafactor.
// Thread safety: as Optimizer. Use: core::Adafactor optimizer(model.parameters(), {.lr = 0.01});

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/optim/optimizer.h"

namespace core {

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
  /// With this learning rate.
  template <class Number>
  requires std::is_arithmetic_v<Number> Adafactor(const std::vector<Tensor>& params, Number lr)
      : Adafactor(params, AdafactorOptions{.lr = lr}) {}

 private:
  void update(const ParamGroup& group) override;
};

}  // namespace core
