#pragma once
// Moving many tensors at once: the small ones travel together, many in one copy, so that ten thousand of them cost a
// few copies instead of ten thousand. Thread safety: all functions; a packer belongs to one thread at a time.
// Use: std::vector<core::Tensor> there = core::to_device(tensors, core::Device("cuda:0"));

#include <cstdint>
#include <span>
#include <vector>

#include "libcore/backend/shared_block.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// Tensor::to(device) of every tensor, in order: the same values, strides and storages (each tensor has one of its own,
/// whether or not tensors shared one before; one that is there already is itself). The caller may change the tensors
/// given as soon as this returns; the results are ready for whatever the current stream of `device` is given next, and
/// on the host at once. Memory that small results share on a device goes back when the last of them goes.
/// Errors: those of Tensor::to; then nothing is kept.
std::vector<Tensor> to_device(std::span<const Tensor> tensors, Device device);

/// Makes uninitialised tensors on a device, small ones side by side in shared blocks. Each has a storage of its own.
class TensorPacker {
 public:
  /// Smaller tensors share blocks of memory.
  static constexpr std::size_t kSmallBytes = std::size_t{256} << 10;
  static constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
  static bool is_small(std::uint64_t bytes) { return bytes > 0 && bytes < kSmallBytes; }

  /// `expected`: bytes of all small tensors that will be made, each SharedBlock::rounded(), as far as it is known.
  explicit TensorPacker(Backend& backend, std::uint64_t expected = 0) : backend_(backend), expected_(expected) {}
  ~TensorPacker();
  TensorPacker(const TensorPacker&) = delete;
  TensorPacker& operator=(const TensorPacker&) = delete;

  /// Contiguous. Errors: out of memory, with PyTorch's text.
  Tensor make(const Shape& sizes, DType dtype);

 private:
  void* place(std::size_t bytes);

  Backend& backend_;
  std::uint64_t expected_;
  SharedBlock* block_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace core
