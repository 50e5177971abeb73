#include "libcore/parallel/broadcast_nodes.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/parallel/comm.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

/// Passes all sums on at once.
struct GateBackward final : Node {
  std::string_view name() const override { return "BroadcastBackward"; }
  TensorList apply(TensorList grads) override { return grads; }
};

/// Sum over the devices, first to last, of the gradient of one parameter. Its outputs are the copies on device `first`,
/// on the next, and so on round: the worker of the first output's device runs a node.
struct BroadcastBackward final : Node {
  Device home;
  std::size_t first = 0;

  std::string_view name() const override { return "BroadcastBackward"; }
  TensorList apply(TensorList grads) override {
    Tensor sum;
    for (std::size_t device = 0; device < grads.size(); ++device) {
      Tensor grad = std::move(grads[(device + grads.size() - first) % grads.size()]);
      if (!grad.defined()) continue;
      if (!sum.defined()) {
        sum = grad.to(home);
      } else if (is_grad_enabled() || sum.dtype() != grad.dtype() || !is_sole_owner(sum)) {
        sum = sum + grad.to(home);
      } else {
        add_in_place(sum, grad);
      }
    }
    return {sum};
  }
};

/// For each tensor the device whose worker sums it: the largest first, each to the one with the least to do.
std::vector<std::size_t> spread(const std::vector<Tensor>& tensors, std::size_t devices) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].numel() > tensors[b].numel(); });
  std::vector<std::int64_t> load(devices);
  std::vector<std::size_t> worker(tensors.size());
  for (std::size_t i : order) {
    auto least = std::min_element(load.begin(), load.end());
    worker[i] = static_cast<std::size_t>(least - load.begin());
    *least += tensors[i].numel();
  }
  return worker;
}

}  // namespace

std::vector<std::vector<Tensor>> connect_copies(const std::vector<Tensor>& originals,
                                                const std::vector<std::vector<Tensor>>& copies) {
  std::vector<std::vector<Tensor>> handles = copies;
  for (auto& of_device : handles) {
    for (Tensor& handle : of_device) handle = handle.detach();
  }
  auto gate = make_intrusive<GateBackward>();
  std::vector<Tensor> learning;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < originals.size(); ++i) {
    if (!needs_grad(originals[i])) continue;
    gate->add_edge(originals[i]);
    learning.push_back(originals[i].detach());
    index.push_back(i);
  }
  for (Tensor& passed : learning) record(passed, gate);
  std::vector<std::size_t> worker = spread(learning, copies.size());
  for (std::size_t at = 0; at < learning.size(); ++at) {
    auto node = make_node<BroadcastBackward>(learning[at]);
    node->home = originals[index[at]].device();
    node->first = worker[at];
    for (std::size_t i = 0; i < copies.size(); ++i) {
      record(handles[(worker[at] + i) % copies.size()][index[at]], node);
    }
  }
  return handles;
}

}  // namespace core::detail
