#include "libcore/parallel/scatter_gather.h"

#include <algorithm>
#include <string>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/index.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/parallel/comm.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// Splits `tensor` into pieces of the given sizes along `dim`, piece i on devices[i].
std::vector<Tensor> split_to(const Tensor& tensor, const Shape& sizes, const std::vector<Device>& devices,
                             std::int64_t dim) {
  std::vector<Tensor> pieces = tensor.split(sizes, dim);
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = pieces[i].to(devices[i]);
  return pieces;
}

struct ScatterBackward final : Node {
  Device home;
  std::int64_t dim = 0;

  std::string_view name() const override { return "ScatterBackward"; }
  TensorList apply(TensorList grads) override {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const OutputMeta& piece = outputs()[i];
      parts.push_back(grads[i].defined() ? grads[i] : zeros(piece.sizes, {.dtype = piece.dtype, .device = home}));
    }
    return {detail::join_on(parts, home, dim)};
  }
};

struct GatherBackward final : Node {
  std::vector<Device> devices;
  Shape sizes;
  std::int64_t dim = 0;
  bool were_scalars = false;

  std::string_view name() const override { return "GatherBackward"; }
  TensorList apply(TensorList grads) override {
    TensorList result;
    for (const Tensor& piece : split_to(grads[0], sizes, devices, dim)) {
      result.push_back(were_scalars ? piece.squeeze(0) : piece);
    }
    return result;
  }
};

void check_on_gpus(const std::vector<Tensor>& inputs) {
  if (inputs.empty()) throw Error(ErrorCode::runtime, "Expected at least one tensor to gather from");
  for (const Tensor& input : inputs) {
    if (!input.is_cuda()) throw Error(ErrorCode::assertion, "Gather function not implemented for CPU tensors");
  }
}

bool all_scalars(const std::vector<Tensor>& inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const Tensor& input) { return input.dim() == 0; });
}

bool any_needs_grad(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    if (needs_grad(tensor)) return true;
  }
  return false;
}

}  // namespace

std::vector<Tensor> scatter(const Tensor& input, const std::vector<Device>& devices, std::int64_t dim) {
  std::vector<Tensor> pieces = input.detach().chunk(static_cast<std::int64_t>(devices.size()), dim);
  // A piece that stays on its device must be a tensor of its own: it gets its own history.
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = detail::copy_aside(pieces[i], devices[i]);
  if (!needs_grad(input)) return pieces;
  auto node = make_node<ScatterBackward>(input);
  node->home = input.device();
  node->dim = dim;
  for (Tensor& piece : pieces) record(piece, node);
  return pieces;
}

Tensor gather(const std::vector<Tensor>& inputs, Device target, std::int64_t dim) {
  check_on_gpus(inputs);
  bool are_scalars = dim == 0 && all_scalars(inputs);
  if (!are_scalars) {
    detail::check_gather_shapes(inputs, dim);
  } else {
    warn(
        "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return "
        "a vector.");
  }
  std::vector<Tensor> parts;
  Shape sizes;
  std::vector<Device> devices;
  for (const Tensor& input : inputs) {
    parts.push_back(are_scalars ? input.detach().unsqueeze(0) : input.detach());
    sizes.push_back(parts.back().size(dim));
    devices.push_back(input.device());
  }
  Tensor joined = detail::join_on(parts, target, dim);
  if (!any_needs_grad(inputs)) return joined;
  auto node = make_node<GatherBackward>();
  for (const Tensor& input : inputs) node->add_edge(input);
  node->devices = std::move(devices);
  node->sizes = std::move(sizes);
  node->dim = dim;
  node->were_scalars = are_scalars;
  record(joined, node);
  return joined;
}

void detail::Scattered::add(const Tensor& tensor) {
  std::vector<Tensor> pieces = scatter(tensor, devices_, dim_);
  if (!pieces_.empty() && pieces_.front().size() != pieces.size()) {
    throw Error(ErrorCode::value, "inputs cannot be scattered along dimension " + std::to_string(dim_) + " over " +
                                      std::to_string(devices_.size()) + " devices: one gives " +
                                      std::to_string(pieces_.front().size()) + " pieces and another " +
                                      std::to_string(pieces.size()) +
                                      ", so rows would be lost; give all the same batch size");
  }
  pieces_.push_back(std::move(pieces));
}

}  // namespace core
