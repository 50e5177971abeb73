#include "libcore/parallel/comm.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/collectives.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/stream_values.h"
#include "libcore/base/error.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/lazy_copy.h"
#include "libcore/tensor/record_stream.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using Indices = std::vector<std::size_t>;

/// Groups of tensors of one dtype that together have at most `limit` bytes (a larger tensor is alone), in order.
std::vector<Indices> packed_groups(const std::vector<Tensor>& tensors, std::int64_t limit) {
  struct Open {
    DType dtype;
    std::size_t group;
    std::int64_t bytes;
  };
  std::vector<Indices> groups;
  std::vector<Open> open;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::int64_t bytes = tensors[i].numel() * static_cast<std::int64_t>(element_bytes(tensors[i].dtype()));
    auto found = std::find_if(open.begin(), open.end(), [&](const Open& o) { return o.dtype == tensors[i].dtype(); });
    if (found == open.end()) found = open.insert(open.end(), {tensors[i].dtype(), groups.size(), -1});
    if (found->bytes < 0 || (found->bytes != 0 && found->bytes + bytes >= limit)) {
      *found = {tensors[i].dtype(), groups.size(), 0};
      groups.emplace_back();
    }
    groups[found->group].push_back(i);
    found->bytes += bytes;
  }
  return groups;
}

/// Elements from the start of a tensor in a flat buffer to that of the next: whole steps of 256 bytes, as allocations
/// of their own would lie, for kernels that read several elements at once.
std::int64_t slot_size(const Tensor& tensor) {
  const std::int64_t step = 256 / static_cast<std::int64_t>(element_bytes(tensor.dtype()));
  return (tensor.numel() + step - 1) / step * step;
}

/// One after the other, each from a multiple of 256 bytes on, zeros between them.
Tensor flattened(const std::vector<Tensor>& tensors, const Indices& group) {
  const Tensor& first = tensors[group[0]];
  if (group.size() == 1) return first.reshape({-1});
  const Tensor gap = zeros({256}, {.dtype = first.dtype(), .device = first.device()});
  std::vector<Tensor> parts;
  for (std::size_t i : group) {
    parts.push_back(tensors[i].reshape({-1}));
    const std::int64_t rest = slot_size(tensors[i]) - tensors[i].numel();
    if (rest > 0 && i != group.back()) parts.push_back(gap.narrow(0, 0, rest));
  }
  return cat(parts, 0);
}

/// Of its own memory, whatever is in the group.
Tensor packed(const std::vector<Tensor>& tensors, const Indices& group) {
  const Tensor flat = flattened(tensors, group);
  return group.size() == 1 ? flat.clone() : flat;
}

/// Fills copies[1...], which are dense, from copies[0], on the current streams of their devices.
void copy_to_all(const std::vector<Tensor>& copies) {
  std::vector<detail::CollectivePart> parts{
      {copies[0].device(), copies[0].raw_data(), const_cast<void*>(copies[0].raw_data())}};
  for (const Tensor& copy : std::span(copies).subspan(1)) {
    parts.push_back({copy.device(), copies[0].raw_data(), copy.mutable_raw_data()});
  }
  const auto bytes = static_cast<std::size_t>(copies[0].numel()) * element_bytes(copies[0].dtype());
  if (detail::broadcast_by_nccl(parts, bytes)) return;
  Backend& from = raw::backend_of(copies[0]);
  for (std::size_t i = 1; i < copies.size(); ++i) {
    if (!raw::backend_of(copies[i]).copy_from_peer(parts[i].out, from, parts[0].in, bytes)) copies[i].copy_(copies[0]);
  }
}

/// New memory for `tensor` on each device, the first of which has it: itself there.
std::vector<Tensor> places_for(const Tensor& tensor, std::span<const Device> devices) {
  std::vector<Tensor> places{tensor};
  for (Device device : devices.subspan(1)) {
    places.push_back(empty(tensor.sizes(), {.dtype = tensor.dtype(), .device = device}));
  }
  return places;
}

/// By NCCL, undefined where that has nothing to do with it.
Tensor sum_at_once(const std::vector<Tensor>& inputs, std::size_t root) {
  std::vector<Device> devices;
  for (const Tensor& input : inputs) {
    if (input.is_sparse() || !input.is_contiguous() || input.dtype() != inputs[0].dtype()) return {};
    devices.push_back(input.device());
  }
  if (!nccl::is_available(devices)) return {};
  const Tensor sum = raw::make(inputs[root].sizes(), inputs[root].dtype(), raw::backend_of(inputs[root]));
  std::vector<detail::CollectivePart> parts;
  for (const Tensor& input : inputs) parts.push_back({input.device(), input.raw_data(), nullptr});
  parts[root].out = sum.mutable_raw_data();
  return detail::sum_by_nccl(parts, root, sum.numel(), sum.dtype()) ? sum : Tensor();
}

/// The copy streams of devices, and their current streams, as they are when it is made.
struct SideStreams {
  std::vector<cuda::Stream> home, side;

  explicit SideStreams(std::span<const Device> devices) {
    for (Device device : devices) {
      home.push_back(cuda::current_stream(device));
      side.push_back(copy_stream(device));
    }
  }
  /// What is copied from now on comes after what was started so far.
  void follow() const {
    for (std::size_t i = 0; i < home.size(); ++i) side[i].wait_stream(home[i]);
  }
};

/// Views of `flat` with the shapes of the group's tensors, each with a version of its own.
void unflatten(const Tensor& flat, const std::vector<Tensor>& shapes, const Indices& group, std::vector<Tensor>& out) {
  std::int64_t at = 0;
  for (std::size_t i : group) {
    out[i] = flat.narrow(0, at, shapes[i].numel()).view(shapes[i].sizes()).data_alias();
    at += slot_size(shapes[i]);
  }
}

std::string by_x(const Shape& sizes) {
  std::string text;
  for (std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

Device destination_of(const std::optional<DeviceId>& destination) {
  return detail::checked_gpu(destination.value_or(DeviceId("cuda")));
}

/// The index of the input on `destination`.
std::size_t check_addends(const std::vector<Tensor>& inputs, Device destination) {
  std::optional<std::size_t> root;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].device().is_cpu()) {
      throw Error(ErrorCode::assertion,
                  "reduce_add expects all inputs to be on GPUs, but input " + std::to_string(i) + " is on CPU");
    }
    if (inputs[i].device() == destination) root = i;
    if (inputs[i].sizes() == inputs[0].sizes()) continue;
    throw Error(ErrorCode::value, "input " + std::to_string(i) + " has invalid size: got " + by_x(inputs[i].sizes()) +
                                      ", but expected " + by_x(inputs[0].sizes()));
  }
  if (root) return *root;
  throw Error(ErrorCode::runtime, "reduce_add expects destination to be on the same GPU with one of the tensors");
}

}  // namespace

namespace comm {

std::vector<Tensor> broadcast(const Tensor& tensor, const std::vector<DeviceId>& devices) {
  NoGradGuard no_grad;
  const std::vector<Device> targets = detail::checked_gpus(devices);
  if (targets.size() > 1 && tensor.device() == targets[0] && tensor.is_contiguous() && nccl::is_available(targets)) {
    const std::vector<Tensor> places = places_for(tensor.detach(), targets);
    copy_to_all(places);
    return places;
  }
  std::vector<Tensor> copies;
  for (Device device : targets) copies.push_back(tensor.to(device));
  return copies;
}

std::vector<std::vector<Tensor>> broadcast_coalesced(const std::vector<Tensor>& tensors,
                                                     const std::vector<DeviceId>& devices, std::int64_t buffer_size) {
  NoGradGuard no_grad;
  std::vector<Device> targets = detail::checked_gpus(devices);
  for (const Tensor& tensor : tensors) {
    if (!targets.empty() && tensor.device() == targets[0]) continue;
    throw Error(ErrorCode::runtime, "All tensors must be on devices[0]: " +
                                        (targets.empty() ? std::string("none") : std::to_string(targets[0].index())));
  }
  std::vector<std::vector<Tensor>> copies(targets.size(), std::vector<Tensor>(tensors.size()));
  if (!copies.empty()) copies[0] = tensors;
  for (const Indices& group : packed_groups(tensors, buffer_size)) {
    if (targets.size() < 2) break;
    const std::vector<Tensor> flat = places_for(flattened(tensors, group), targets);
    copy_to_all(flat);
    for (std::size_t i = 1; i < targets.size(); ++i) unflatten(flat[i], tensors, group, copies[i]);
  }
  return copies;
}

Tensor reduce_add(const std::vector<Tensor>& inputs, const std::optional<DeviceId>& destination) {
  NoGradGuard no_grad;
  if (inputs.empty()) throw Error(ErrorCode::runtime, "Expected at least one tensor to add");
  Device target = destination_of(destination);
  std::size_t root = check_addends(inputs, target);
  if (inputs.size() == 1) return inputs[0];
  Tensor sum = sum_at_once(inputs, root);
  if (sum.defined()) return sum;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i == root) continue;
    if (!sum.defined()) {
      sum = inputs[root] + inputs[i].to(target);
    } else {
      detail::add_in_place(sum, inputs[i]);
    }
  }
  return sum;
}

std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& inputs,
                                         const std::optional<DeviceId>& destination, std::int64_t buffer_size) {
  NoGradGuard no_grad;
  if (inputs.empty()) return {};
  for (const auto& of_device : inputs) {
    if (of_device.size() == inputs[0].size()) continue;
    throw Error(ErrorCode::value, "reduce_add_coalesced expects the same number of tensors on every device");
  }
  std::vector<Tensor> sums(inputs[0].size());
  for (const Indices& group : packed_groups(inputs[0], buffer_size)) {
    std::vector<Tensor> flat;
    for (const auto& of_device : inputs) flat.push_back(flattened(of_device, group));
    unflatten(reduce_add(flat, destination), inputs[0], group, sums);
  }
  return sums;
}

std::vector<Tensor> scatter(const Tensor& tensor, const std::vector<DeviceId>& devices,
                            const std::optional<Shape>& chunk_sizes, std::int64_t dim) {
  NoGradGuard no_grad;
  std::vector<Device> targets = detail::checked_gpus(devices);
  if (targets.empty()) throw Error(ErrorCode::runtime, "Expected at least one device to scatter to");
  if (chunk_sizes && chunk_sizes->size() != targets.size()) {
    throw Error(ErrorCode::runtime, "Expected devices and chunk_sizes to be of same length, but got len(devices) = " +
                                        std::to_string(targets.size()) +
                                        " and len(chunk_sizes) = " + std::to_string(chunk_sizes->size()));
  }
  std::vector<Tensor> pieces =
      chunk_sizes ? tensor.split(*chunk_sizes, dim) : tensor.chunk(static_cast<std::int64_t>(targets.size()), dim);
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = pieces[i].to(targets[i]);
  return pieces;
}

Tensor gather(const std::vector<Tensor>& tensors, std::int64_t dim, const std::optional<DeviceId>& destination) {
  NoGradGuard no_grad;
  if (tensors.empty()) throw Error(ErrorCode::runtime, "Expected at least one tensor to gather from");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].is_cuda()) continue;
    throw Error(ErrorCode::runtime, "Expected all input tensors to be CUDA tensors, but tensor at index " +
                                        std::to_string(i) + " has device " + tensors[i].device().str());
  }
  Device target = detail::checked_output(destination.value_or(DeviceId("cuda")), detail::CpuOutput::allowed);
  detail::check_gather_shapes(tensors, dim);
  return detail::join_on(tensors, target, dim);
}

}  // namespace comm

namespace detail {

std::vector<std::vector<Tensor>> broadcast_aside(const std::vector<Tensor>& tensors,
                                                 const std::vector<Device>& devices) {
  const NoGradGuard no_grad;
  const SideStreams streams(devices);
  const std::vector<Indices> groups = packed_groups(tensors, comm::kBufferSize);
  std::vector<std::vector<Tensor>> flat;
  for (const Indices& group : groups) flat.push_back(places_for(packed(tensors, group), devices));
  streams.follow();
  std::vector<std::vector<cuda::Event>> arrived(groups.size());
  {
    const CurrentStreams guard(streams.side);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      copy_to_all(flat[g]);
      for (const cuda::Stream& side : streams.side) arrived[g].push_back(side.record_event());
      record_stream(flat[g][0], streams.side[0]);
    }
  }
  std::vector<std::vector<Tensor>> copies(devices.size(), std::vector<Tensor>(tensors.size()));
  copies[0] = tensors;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 1; i < devices.size(); ++i) {
      const Tensor& there = flat[g][i];
      const Storage bytes = lazy_copy(there.storage(), arrived[g][i], streams.home[i]);
      unflatten(from_storage(bytes, there.dtype(), there.sizes(), there.strides()), tensors, groups[g], copies[i]);
    }
  }
  return copies;
}

Tensor copy_aside(const Tensor& tensor, Device device) {
  if (!tensor.device().is_cpu() || !device.is_cuda() || backend_for(device).is_host_memory()) return tensor.to(device);
  const cuda::Stream home = cuda::current_stream(device), side = copy_stream(device);
  Tensor there;
  {
    const cuda::StreamGuard guard(side);
    there = tensor.to(ToOptions{.device = device, .non_blocking = true});
  }
  home.wait_stream(side);
  record_stream(there, home);
  return there;
}

void check_gather_shapes(std::span<const Tensor> tensors, std::int64_t dim) {
  Shape expected = tensors[0].sizes();
  static_cast<void>(tensors[0].size(dim));  // "Dimension out of range"
  auto along = static_cast<std::size_t>(dim < 0 ? dim + tensors[0].dim() : dim);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& sizes = tensors[i].sizes();
    if (sizes.size() != expected.size()) {
      throw Error(ErrorCode::runtime,
                  "Expected all input tensors to have the same number of dimensions, but tensor at index " +
                      std::to_string(i) + "has " + std::to_string(sizes.size()) + " dimensions, (expected " +
                      std::to_string(expected.size()) + ")");
    }
    if (along < sizes.size()) expected[along] = sizes[along];
    if (sizes == expected) continue;
    throw Error(ErrorCode::runtime, "Tensor at index " + std::to_string(i) + " has invalid shape " + to_list(sizes) +
                                        ", but expected " + to_list(expected));
  }
}

Tensor join_on(const std::vector<Tensor>& parts, Device target, std::int64_t dim) {
  std::vector<Tensor> moved;
  for (const Tensor& part : parts) moved.push_back(part.to(target));
  return cat(moved, dim);
}

Tensor copy_to(const Tensor& tensor, Device device) {
  ToOptions options;
  options.device = device;
  options.copy = true;
  return tensor.to(options);
}

void add_in_place(const Tensor& to, const Tensor& from) {
  Backend& there = raw::backend_of(from);
  Backend& here = raw::backend_of(to);
  if (&there != &here && here.is_host_memory() && here.can_access(there) && from.is_contiguous()) {
    Storage lent =
        Storage::borrow(const_cast<void*>(from.raw_data()), from.storage().nbytes(), here.device(), nullptr, nullptr);
    return raw::binary_in_place(BinaryOp::add, to, from_storage(lent, from.dtype(), from.sizes(), from.strides()));
  }
  raw::binary_in_place(BinaryOp::add, to, raw::move(from, here));
}

bool is_sole_owner(const Tensor& tensor) {
  return tensor.is_contiguous() && tensor.impl()->use_count() == 1 && tensor.storage().id()->use_count() == 1;
}

}  // namespace detail
}  // namespace core
