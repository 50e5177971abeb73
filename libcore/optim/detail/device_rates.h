#pragma once
// The learning rates of an optimizer in device memory, for steps that are recorded as a graph: a schedule changes them
// from replay to replay. Thread safety: as Optimizer.
// Use: core::detail::DeviceRates rates(groups); core::Tensor rate = rates.on("cuda:0", groups[0]);

#include <memory>
#include <vector>

#include "libcore/optim/options.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

class DeviceRates {
 public:
  /// `groups`, of which more may be added later, live as long as this.
  explicit DeviceRates(const std::vector<ParamGroup>& groups);
  ~DeviceRates();
  DeviceRates(DeviceRates&&) = default;
  DeviceRates& operator=(DeviceRates other) noexcept {  // `other` takes what was here with it
    rates_.swap(other.rates_);
    return *this;
  }

  /// The rate of a group, one f64 on `device`: what the group's option says now, or, in a graph that is being captured,
  /// at each replay.
  Tensor on(Device device, const ParamGroup& group);

 private:
  struct Rates;
  std::shared_ptr<Rates> rates_;  // graphs share it; they may outlive the optimizer
};

}  // namespace core::detail
