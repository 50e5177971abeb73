#pragma once
// One step of many parameters by the kernels of their device (backend/optimizer_table.h): listed while an optimizer
// goes through a group, run together at its end. Thread safety: none.
// Use: detail::AdamSteps steps; if (!steps.take(param, grad, state, counted, how)) ...; steps.run(how);

#include <array>
#include <span>
#include <vector>

#include "libcore/backend/backend.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/optimizer_table.h"
#include "libcore/optim/options.h"
#include "libcore/optim/update.h"
#include "libcore/optim/update_composed.h"

namespace core::detail {

/// Tensors of one device and dtype.
template <class Entry>
struct StepList {
  Backend* backend;
  DType dtype;
  std::vector<Entry> entries;
};

/// What every optimizer's options say of a step. Without "weight_decay": none.
CommonUpdate common_of(const OptionMap& options);
SgdStepParams sgd_params(const SgdUpdate& how, std::span<const SgdTensor> tensors);
AdamStepParams adam_params(const AdamUpdate& how, std::span<const AdamTensor> tensors);

/// Runs the CPU's kernel for T.
template <class T, class Params>
void run_on_host(std::array<void (*)(const Params&), kDTypeCount> OptimizerTable::*row, const Params& params) {
  (backend_for(Device()).ops().optimizer->*row)[static_cast<std::size_t>(dtype_of<T>)](params);
}

/// What of a step lies in device memory besides the parameter and its gradient.
struct SgdThere {
  const Tensor& buffer;  ///< undefined without momentum
  const Tensor& lr;      ///< the learning rate, as f64, for a step that is recorded; undefined: that of the options
};

class SgdSteps {
 public:
  /// False where the device has no such kernel, or what is given does not lie as it wants it. `how.first` counts.
  bool take(const Tensor& param, const Tensor& grad, const SgdThere& there, const SgdUpdate& how);
  void run(const SgdUpdate& how) const;

 private:
  std::vector<StepList<SgdTensor>> lists_;
};

/// What of a step lies in device memory, so that a recorded step need not be recorded again for it.
struct CountedThere {
  Tensor step = {};  ///< steps taken so far, which the kernel counts up
  Tensor lr = {};    ///< the learning rate, as f64
};

class AdamSteps {
 public:
  /// Without `counted.step`, `how.step` and its learning rate count.
  bool take(const Tensor& param, const Tensor& grad, const AdamTensors& state, const CountedThere& counted,
            const AdamUpdate& how);
  void run(const AdamUpdate& how) const;

 private:
  std::vector<StepList<AdamTensor>> lists_;
};

/// Everything about a step of one of the other optimizers but its tensors: see the rows of OptimizerTable.
struct AdaptiveUpdate {
  CommonUpdate common;
  std::array<double, 4> numbers{};
  bool decoupled = false;
};

class AdaptiveSteps {
 public:
  using Row = OptimizerTable::AdaptiveRow OptimizerTable::*;
  explicit AdaptiveSteps(Row row) : row_(row) {}

  /// False where SgdSteps would say so.
  bool take(const Tensor& param, const Tensor& grad, const std::array<Tensor, 3>& state,
            const std::array<double, 3>& factors = {});
  void run(const AdaptiveUpdate& how) const;
  /// A step on the host by way of copies, where take() gave false: of other dtypes, or with gaps.
  void run_copies(const Tensor& param, const Tensor& grad, const std::array<Tensor, 3>& state,
                  const std::array<double, 3>& factors, const AdaptiveUpdate& how) const;

 private:
  Row row_;
  std::vector<StepList<AdaptiveTensor>> lists_;
};

}  // namespace core::detail
