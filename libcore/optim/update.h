#pragma once
// The options of an optimizer's step, as numbers: what its kernels (backend/optimizer_table.h) and the same formulas in
// single operations (update_composed.h) are given. Thread safety: plain values.
// Use: SgdUpdate how{.common = {0.1, 0, false}, .momentum = 0.9, ...};

namespace core::detail {

struct CommonUpdate {
  double lr;
  double weight_decay;  ///< added to the gradient as weight_decay * p
  bool maximize;
};

struct SgdUpdate {
  CommonUpdate common;
  double momentum;
  double dampening;
  bool nesterov;
  bool first;  ///< the momentum buffer is new: it becomes the gradient
};

struct AdamUpdate {
  CommonUpdate common;
  double beta1;
  double beta2;
  double eps;
  bool decoupled;          ///< weight decay shrinks the parameter instead (AdamW)
  double step = 0;         ///< 1 for the first; set_step() changes it
  double rate = 0;         ///< -lr over the correction of the first moment
  double correction2 = 0;  ///< of the root of the second moment
};
/// Parameters that were updated as often share the powers that this takes.
void set_step(AdamUpdate& how, double step);

struct RmspropUpdate {
  CommonUpdate common;
  double alpha;
  double eps;
  double momentum;
};

struct AdagradUpdate {
  CommonUpdate common;
  double rate;  ///< the learning rate after its decay
  double eps;
};

struct AdadeltaUpdate {
  CommonUpdate common;
  double rho;
  double eps;
};

}  // namespace core::detail
