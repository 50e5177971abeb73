#pragma once
// Losses as modules. As torch.nn's modules of the same names; the functions themselves are in tensor/nn_ops.h.
// Thread safety: as Module. Use: core::CrossEntropyLoss criterion; core::Tensor loss = criterion(logits, target);

#include <utility>

#include "libcore/module/module.h"
#include "libcore/tensor/nn_ops.h"

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

struct MSELoss : ModuleOf<MSELoss> {
  Reduction reduction;
  explicit MSELoss(Reduction given = Reduction::mean) : reduction(given) {}
  void members(Members&) override {}
  Tensor forward(const Tensor& x, const Tensor& target) const { return mse_loss(x, target, reduction); }
};

}  // namespace core
