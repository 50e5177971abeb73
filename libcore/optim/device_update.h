#pragma once
// The updates of update.h for many parameters at once, on devices that have kernels for it: parameters are collected,
// and one kernel a device and dtype updates them all. Thread safety: none. Use: DeviceSgd steps(how); ... if
// (steps.take(param, grad, buffer, first)) return; ... steps.run();

#include <vector>

#include "libcore/backend/backend.h"
#include "libcore/backend/optimizer_table.h"
#include "libcore/optim/update.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// The tensors of one kernel, and what has to live until it was started.
template <class Entry>
struct DeviceBatch {
  Backend* backend;
  DType dtype;
  std::vector<Entry> entries;
  std::vector<Tensor> kept;
};

class DeviceSgd {
 public:
  explicit DeviceSgd(const SgdUpdate& how) : how_(how) {}
  /// False where the device has no such kernel, or where an array is not dense. `buffer` is undefined without momentum;
  /// `first`: it is new.
  bool take(const Tensor& param, const Tensor& grad, const Tensor& buffer, bool first);
  void run();

 private:
  SgdUpdate how_;
  std::vector<DeviceBatch<SgdTensor>> batches_;
};

struct AdamDeviceState {
  const Tensor& exp_avg;
  const Tensor& exp_avg_sq;
  const Tensor& top;         ///< undefined without amsgrad
  double step;               ///< 1 for the first; not used where there is a counter
  const Tensor& step_count;  ///< on the device: counted up by the kernel; or undefined
};

class DeviceAdam {
 public:
  explicit DeviceAdam(const AdamUpdate& how) : how_(how) {}
  /// As DeviceSgd::take().
  bool take(const Tensor& param, const Tensor& grad, const AdamDeviceState& state);
  void run();

 private:
  AdamUpdate how_;
  std::vector<DeviceBatch<AdamTensor>> batches_;
};

}  // namespace core::detail
