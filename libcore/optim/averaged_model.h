#pragma once
// Averages of a model's parameters over training: stochastic weight averaging and exponential moving averages. As
// torch.optim.swa_utils. Thread safety: none.
// Use: core::AveragedModel ema(model, {.average = core::ema_average(0.999)}); ... optimizer.step();
//      ema.update_parameters(model); ... core::update_bn(loader, ema);
// Source: Izmailov and others, "Averaging weights leads to wider optima and better generalization", 2018.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/module/module.h"
#include "libcore/module/norm.h"
#include "libcore/optim/schedule.h"
#include "libcore/tensor/factory.h"

namespace core {

/// Moves `average` towards `current`, of which `count` values are in it already.
using AverageFunction = std::function<void(const Tensor& average, const Tensor& current, std::int64_t count)>;

/// The mean of all values.
AverageFunction swa_average();
/// decay * average + (1 - decay) * current. Error(value) "Invalid decay value 2 provided. Please provide a value in
/// [0,1] range."
AverageFunction ema_average(double decay = 0.999);

struct AveragedModelOptions {
  AverageFunction average = swa_average();
  bool use_buffers = false;  ///< average buffers too; else they are copied
};

namespace detail {
void update_average(Module& average, const Module& model, const Tensor& count, const AveragedModelOptions& options);
/// Batch normalisations below a module, with new statistics and a plain average while this lives.
class FreshStatistics {
 public:
  explicit FreshStatistics(Module& model);
  ~FreshStatistics();
  FreshStatistics(const FreshStatistics&) = delete;
  FreshStatistics& operator=(const FreshStatistics&) = delete;
  bool empty() const { return norms_.empty(); }

 private:
  Module& model_;
  bool was_training_;
  std::vector<std::pair<BatchNormState*, std::optional<double>>> norms_;
};
}  // namespace detail

/// A deep copy of a model that follows it. Its state has the keys n_averaged and module.*.
template <class M>
class AveragedModel : public ModuleOf<AveragedModel<M>> {
 public:
  M module;
  Tensor n_averaged = zeros({}, {.dtype = DType::i64});

  explicit AveragedModel(const M& model, AveragedModelOptions options = {})
      : module(model.clone()), options_(std::move(options)) {}
  void members(Members& m) override { m.buffer("n_averaged", n_averaged).child("module", module); }
  template <class... Args>
  auto forward(Args&&... args) {
    return module(std::forward<Args>(args)...);
  }
  /// The first call copies, the next ones average.
  void update_parameters(const Module& model) {
    detail::update_average(module, model, n_averaged, options_);
    n_averaged.add_(1);
  }

 private:
  AveragedModelOptions options_;
};

/// Running statistics of all batch normalisations anew, from the batches of a loader (the first part of each where it
/// is a tuple or a vector).
template <class Loader, class M>
void update_bn(const Loader& loader, M& model) {
  const detail::FreshStatistics fresh(model);
  if (fresh.empty()) return;
  const NoGradGuard no_grad;
  for (auto& batch : loader) {
    using Batch = std::remove_cvref_t<decltype(batch)>;
    if constexpr (std::is_base_of_v<Tensor, Batch>) {
      model(batch);
    } else if constexpr (requires { std::get<0>(batch); }) {
      model(std::get<0>(batch));
    } else {
      model(batch[0]);
    }
  }
}

/// From the rate in force to `swa_lr` in anneal_epochs epochs.
class SWALR final : public LRScheduler {
 public:
  struct Options {
    PerGroup swa_lr = 0.05;
    std::int64_t anneal_epochs = 10;
    std::string anneal_strategy = "cos";  ///< or "linear"
  };
  /// Errors(value): "anneal_strategy must be one of 'cos' or 'linear', instead got x", "anneal_epochs must be equal or
  /// greater than 0, got -1".
  SWALR(Optimizer& optimizer, const Options& options, std::int64_t last_epoch = -1);

 private:
  double next_lr(const Group& group) const override;
  OptionMap options() const override;
  void set_options(const OptionMap& state) override;
  double anneal(double part) const;
  Options options_;
};

}  // namespace core
