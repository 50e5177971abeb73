#pragma once
// tensor_text: the values of a tensor as PyTorch prints them. Only what is shown is read.
// Thread safety: pure. Use: std::cout << ckpt::tensor_text(entry);

#include <string>

#include "libckpt/entry.h"

namespace ckpt {

struct TensorTextOptions {
  std::uint64_t threshold = 1000;  ///< more values than that are shown by the edges of each dimension
  std::int64_t edge = 3;           ///< values at either edge
  int precision = 4;               ///< digits behind the point
  std::size_t width = 80;          ///< columns of a line
};

/// "tensor([[1.0000, 2.5000], ..." with dtype and size where PyTorch says them. Types that are no numbers are shown as
/// the bytes they are stored in. Errors: those of reading.
std::string tensor_text(const Entry& entry, const TensorTextOptions& options = {});

}  // namespace ckpt
