#pragma once
// Dropout. As torch.nn.Dropout.
// Thread safety: as Module; forward in training mode draws from the default generator. Use: core::Dropout drop(0.25);

#include <string>

#include "libcore/module/module.h"

namespace core {

struct DropoutOptions {
  bool inplace = false;
};

/// In training, each element is 0 with probability p, else divided by 1 - p.
struct Dropout : ModuleOf<Dropout> {
  double p;
  bool inplace;

  /// Error(value) "dropout probability has to be between 0 and 1, but got 1.5".
  explicit Dropout(double probability = 0.5, const DropoutOptions& options = {});
  void members(Members&) override {}
  std::string extra_repr() const override;
  Tensor forward(const Tensor& x) const;
};

}  // namespace core
