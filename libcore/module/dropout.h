#pragma once
// Dropout modules. As torch.nn's modules of the same names; the functions are in ops/dropout.h.
// Thread safety: as Module; forward in training mode draws from the default generator. Use: core::Dropout drop(0.25);

#include <string>

#include "libcore/module/module.h"

namespace core {

struct DropoutOptions {
  bool inplace = false;
};

/// What all of them keep. Error(value) "dropout probability has to be between 0 and 1, but got 1.5".
struct DropoutState {
  double p;
  bool inplace;

 protected:
  explicit DropoutState(double probability, const DropoutOptions& options);
  std::string describe() const;
};

/// In training, each element is 0 with probability p, else divided by 1 - p.
struct Dropout : ModuleOf<Dropout>, DropoutState {
  explicit Dropout(double probability = 0.5, const DropoutOptions& options = {}) : DropoutState(probability, options) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const;
};

/// Drops whole channels of (N, C, L) or (C, L).
struct Dropout1d : ModuleOf<Dropout1d>, DropoutState {
  explicit Dropout1d(double probability = 0.5, const DropoutOptions& options = {})
      : DropoutState(probability, options) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const;
};

/// Drops whole channels of (N, C, H, W).
struct Dropout2d : ModuleOf<Dropout2d>, DropoutState {
  explicit Dropout2d(double probability = 0.5, const DropoutOptions& options = {})
      : DropoutState(probability, options) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const;
};

/// Drops whole channels of (N, C, D, H, W).
struct Dropout3d : ModuleOf<Dropout3d>, DropoutState {
  explicit Dropout3d(double probability = 0.5, const DropoutOptions& options = {})
      : DropoutState(probability, options) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const;
};

/// Keeps mean and variance; goes with SELU.
struct AlphaDropout : ModuleOf<AlphaDropout>, DropoutState {
  explicit AlphaDropout(double probability = 0.5, const DropoutOptions& options = {})
      : DropoutState(probability, options) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const;
};

/// The same for whole channels.
struct FeatureAlphaDropout : ModuleOf<FeatureAlphaDropout>, DropoutState {
  explicit FeatureAlphaDropout(double probability = 0.5, const DropoutOptions& options = {})
      : DropoutState(probability, options) {}
  void members(Members&) override {}
  std::string extra_repr() const override { return describe(); }
  Tensor forward(const Tensor& x) const;
};

// Made once, in the source of this header.
extern template class ModuleOf<Dropout>;
extern template class ModuleOf<Dropout1d>;
extern template class ModuleOf<Dropout2d>;
extern template class ModuleOf<Dropout3d>;
extern template class ModuleOf<AlphaDropout>;
extern template class ModuleOf<FeatureAlphaDropout>;

}  // namespace core
