#include "libcore/optim/detail/device_rates.h"

#include <algorithm>
#include <limits>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/graph_capture.h"
#include "libcore/tensor/factory.h"

namespace core::detail {

struct DeviceRates::Rates {
  struct Place {
    std::size_t group;
    Tensor value;
    double written = std::numeric_limits<double>::quiet_NaN();
  };

  Place& on(Device device, std::size_t group) {
    const auto found = std::find_if(places.begin(), places.end(), [&](const Place& place) {
      return place.group == group && place.value.device() == device;
    });
    if (found != places.end()) return *found;
    // Not empty(), which fills with NaN in debug builds: in a graph that would undo what is written before a replay.
    return places.emplace_back(Place{group, empty_strided({}, {}, {.dtype = DType::f64, .device = device})});
  }

  void write(Place& place) const {
    if (groups == nullptr || place.group >= groups->size()) return;
    const double now = (*groups)[place.group].lr();
    if (now == place.written) return;
    const NoGradGuard no_history;
    place.value.fill_(now);
    place.written = now;
  }

  const std::vector<ParamGroup>* groups;  // null when the optimizer is gone
  std::vector<Place> places = {};
};

DeviceRates::DeviceRates(const std::vector<ParamGroup>& groups) : rates_(std::make_shared<Rates>(Rates{&groups})) {}

DeviceRates::~DeviceRates() {
  if (rates_) rates_->groups = nullptr;  // none in what was moved from
}

Tensor DeviceRates::on(Device device, const ParamGroup& group) {
  const auto index = static_cast<std::size_t>(&group - rates_->groups->data());
  Rates::Place& place = rates_->on(device, index);
  GraphCapture* capture = GraphCapture::any() ? GraphCapture::of(device) : nullptr;
  if (capture == nullptr) {
    rates_->write(place);
  } else {
    capture->before_replay(place.value.raw_data(),
                           [rates = rates_, device, index] { rates->write(rates->on(device, index)); });
  }
  return place.value;
}

}  // namespace core::detail
