#pragma once
// PowerSGD: a communication hook that sends matrices of low rank in the place of gradients, so that slow networks carry
// a fraction of the bytes; what was left out is added to the next step's gradients. As
// torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook, with its numbers. Thread safety: a state belongs to one
// model. Use: auto state = std::make_shared<PowerSGDState>(PowerSGDOptions{.matrix_approximation_rank = 2});
// DistributedDataParallel model(net); model.register_comm_hook(powerSGD_hook(state));

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>

#include "libcore/dist/comm_hooks.h"

namespace core::distributed {

struct PowerSGDOptions {
  Group process_group = {};                    ///< the default group
  std::int64_t matrix_approximation_rank = 1;  ///< columns of the matrices that are sent
  std::int64_t start_powerSGD_iter = 1000;     ///< steps before it, in which the gradients themselves are summed
  double min_compression_rate = 2;             ///< a gradient that would not shrink that far is summed as it is
  bool use_error_feedback = true;              ///< what was left out comes with the next step
  bool warm_start = true;                      ///< a step begins with the matrices of the one before
  double orthogonalization_epsilon = 0;        ///< added to norms; gradients that are all zero give NaN without it
  std::uint32_t random_seed = 0;               ///< of the first matrices, the same on all ranks
  bool batch_tensors_with_same_shape = false;  ///< multiplies them at once
};

class PowerSGDState {
 public:
  /// Error(value) "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because
  /// PowerSGD can only be applied after the first two iterations in DDP.".
  explicit PowerSGDState(const PowerSGDOptions& options = {});

  /// Steps so far.
  std::int64_t iter() const { return iter_; }
  /// Elements of all gradients since compression began, and what was sent in their place: a ratio of sizes.
  std::int64_t total_numel_before_compression() const { return numel_before_; }
  std::int64_t total_numel_after_compression() const { return numel_after_; }

 private:
  friend class PowerSGDStep;
  friend CommHook powerSGD_hook(std::shared_ptr<PowerSGDState> state);

  /// What a bucket keeps from step to step.
  struct Kept {
    Tensor error;
    Tensor ps;
    Tensor qs;
  };
  void end_bucket(bool is_last) { iter_ += is_last ? 1 : 0; }
  std::uint64_t next_seed();

  PowerSGDOptions options_;
  std::mt19937 seeds_;
  std::int64_t iter_ = 0;
  std::int64_t numel_before_ = 0;
  std::int64_t numel_after_ = 0;
  std::map<std::size_t, Kept> kept_;  ///< by the number of the bucket
};

/// Gradients must be dense.
CommHook powerSGD_hook(std::shared_ptr<PowerSGDState> state);

}  // namespace core::distributed
