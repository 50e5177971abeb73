#pragma once
// Moving tensors between devices without history, as torch.nn.parallel.comm: what replicate, scatter and gather are
// made of. Thread safety: pure functions.
// Use: auto copies = core::comm::broadcast(x, {0, 1}); core::Tensor sum = core::comm::reduce_add(copies, 0);

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libcore/base/shape.h"
#include "libcore/parallel/device_id.h"
#include "libcore/tensor/tensor.h"

namespace core::comm {

/// Bytes of a buffer into which small tensors are packed.
inline constexpr std::int64_t kBufferSize = 10485760;

/// The tensor on every device; where it lies already it is itself. From any device.
std::vector<Tensor> broadcast(const Tensor& tensor, const std::vector<DeviceId>& devices);

/// [device][tensor]: the same for many tensors, which travel packed into buffers of one dtype and at most `buffer_size`
/// bytes. The first device gets the tensors themselves. Error(runtime) "All tensors must be on devices[0]: 0".
std::vector<std::vector<Tensor>> broadcast_coalesced(const std::vector<Tensor>& tensors,
                                                     const std::vector<DeviceId>& devices,
                                                     std::int64_t buffer_size = kBufferSize);

/// The sum, one addend after the other, on `destination` (the current device unless given), where one of them must lie.
/// A single input comes back itself. Errors: "reduce_add expects all inputs to be on GPUs, but input 0 is on CPU"
/// (assertion), "input 1 has invalid size: got 2x3, but expected 3x2" (value), "reduce_add expects destination to be on
/// the same GPU with one of the tensors" (runtime).
Tensor reduce_add(const std::vector<Tensor>& inputs, const std::optional<DeviceId>& destination = {});

/// inputs[device][tensor]: the sum over devices of each tensor, packed into buffers on the way.
std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& inputs,
                                         const std::optional<DeviceId>& destination = {},
                                         std::int64_t buffer_size = kBufferSize);

/// Pieces along `dim`, piece i on devices[i]: of the given sizes, or ceil(size / devices) rows each. Errors: "Expected
/// at least one device to scatter to", "Expected devices and chunk_sizes to be of same length, but got len(devices) =
/// 2 and len(chunk_sizes) = 3", the texts of split and chunk.
std::vector<Tensor> scatter(const Tensor& tensor, const std::vector<DeviceId>& devices,
                            const std::optional<Shape>& chunk_sizes = {}, std::int64_t dim = 0);

/// The tensors joined along `dim` on `destination` (the current CUDA device unless given; -1 is the CPU, with a
/// warning). Errors: "Expected at least one tensor to gather from", "Expected all input tensors to be CUDA tensors, but
/// tensor at index 0 has device cpu", and the texts for shapes that do not fit.
Tensor gather(const std::vector<Tensor>& tensors, std::int64_t dim = 0,
              const std::optional<DeviceId>& destination = {});

}  // namespace core::comm

namespace core::detail {

/// Errors: PyTorch's texts for tensors that cannot be joined along `dim`.
void check_gather_shapes(std::span<const Tensor> tensors, std::int64_t dim);
Tensor join_on(const std::vector<Tensor>& parts, Device target, std::int64_t dim);
/// A tensor of its own on `device`.
Tensor copy_to(const Tensor& tensor, Device device);
/// As broadcast_coalesced of tensors on the first device, but beside what the devices compute: returns at once, packed
/// copies are made on streams of their own, and a copy is waited for, in the order of streams, when it is first used
/// (tensor/lazy_copy.h). The tensors may be written to at once. The devices are different ones.
std::vector<std::vector<Tensor>> broadcast_aside(const std::vector<Tensor>& tensors,
                                                 const std::vector<Device>& devices);
/// tensor.to(device), beside what a GPU computes where the tensor comes from the host; what is started afterwards comes
/// after it.
Tensor copy_aside(const Tensor& tensor, Device device);
/// `to` += `from` for dense tensors of one shape, without history; `from` may lie on another device.
void add_in_place(const Tensor& to, const Tensor& from);
/// True when nobody else can see the tensor's memory.
bool is_sole_owner(const Tensor& tensor);

}  // namespace core::detail
