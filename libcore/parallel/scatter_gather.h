#pragma once
// Splitting a batch over devices and joining results: torch.nn.parallel's scatter and gather, recorded for backward.
// Thread safety: pure functions. Use: auto pieces = core::scatter(x, devices); core::Tensor y = core::gather(pieces,
// devices[0]);

#include <cstdint>
#include <vector>

#include "libcore/parallel/containers.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// Pieces of `input` along `dim`, piece i on devices[i]: ceil(size / devices) rows each, so there may be fewer pieces
/// than devices. Backward joins the gradients on the input's device. Errors: "chunk expects at least a 1-dimensional
/// tensor".
std::vector<Tensor> scatter(const Tensor& input, const std::vector<Device>& devices, std::int64_t dim = 0);

/// The tensors joined along `dim` on `target`; 0-dim ones become a vector, with a warning. Backward splits again.
/// Errors: "Gather function not implemented for CPU tensors" and the texts for shapes that do not fit.
Tensor gather(const std::vector<Tensor>& inputs, Device target, std::int64_t dim = 0);

/// The same for any value with tensors inside; see containers.h.
template <class T>
T gather_values(const std::vector<T>& values, Device target, std::int64_t dim = 0) {
  return join_tensors(values, [&](const std::vector<Tensor>& tensors) { return gather(tensors, target, dim); });
}

/// A value with tensors inside, one for each device. Error(value) when tensors give different numbers of pieces: some
/// rows would be lost. Without tensors: a copy per device.
template <class T>
std::vector<T> scatter_values(const T& value, const std::vector<Device>& devices, std::int64_t dim = 0);

namespace detail {
/// Scatters every tensor of a value in order; shards() says how many replicas that makes.
class Scattered {
 public:
  Scattered(std::vector<Device> devices, std::int64_t dim) : devices_(std::move(devices)), dim_(dim) {}
  void add(const Tensor& tensor);
  /// Pieces per tensor, or all devices when there was no tensor.
  std::size_t shards() const { return pieces_.empty() ? devices_.size() : pieces_.front().size(); }
  const Tensor& piece(std::size_t tensor, std::size_t shard) const { return pieces_[tensor][shard]; }

 private:
  std::vector<Device> devices_;
  std::int64_t dim_;
  std::vector<std::vector<Tensor>> pieces_;
};
}  // namespace detail

template <class T>
std::vector<T> scatter_values(const T& value, const std::vector<Device>& devices, std::int64_t dim) {
  detail::Scattered scattered(devices, dim);
  (void)map_tensors(value, [&](const Tensor& tensor) {
    scattered.add(tensor);
    return tensor;
  });
  std::vector<T> shards;
  for (std::size_t shard = 0; shard < scattered.shards(); ++shard) {
    std::size_t next = 0;
    shards.push_back(map_tensors(value, [&](const Tensor&) { return scattered.piece(next++, shard); }));
  }
  return shards;
}

}  // namespace core
