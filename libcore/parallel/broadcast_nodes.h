#pragma once
// The history of replicated parameters. Backward of one parameter: its gradients on all devices are summed in device
// order on the original's device, whatever came first; the sums run spread over the devices' workers. No sum reaches an
// original before all are there, so that a backward that fails on the way leaves every gradient as it was.
// Thread safety: as Node. For replicate.cpp.

#include <string_view>
#include <vector>

#include "libcore/autograd/node.h"

namespace core::detail {

/// Handles on the copies of `originals`: copies[device][tensor] with the history of a broadcast. Where nothing wants a
/// gradient, plain handles.
std::vector<std::vector<Tensor>> connect_copies(const std::vector<Tensor>& originals,
                                                const std::vector<std::vector<Tensor>>& copies);

}  // namespace core::detail
