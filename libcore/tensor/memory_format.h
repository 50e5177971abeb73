#pragma once
// Memory formats: the strides of tensors whose channels lie innermost. What users need of them are Tensor::contiguous,
// to, clone and is_contiguous, and the text of a format. Thread safety: pure functions.
// Use: std::cout << core::MemoryFormat::channels_last;  // torch.channels_last

#include <iosfwd>
#include <string>

#include "libcore/tensor/tensor.h"

namespace core {

/// "torch.contiguous_format", "torch.channels_last", "torch.channels_last_3d", "torch.preserve_format".
std::string to_string(MemoryFormat format);
std::ostream& operator<<(std::ostream& out, MemoryFormat format);

namespace raw {

/// Error(runtime) "required rank 4 tensor to use channels_last format". REQUIRES: not preserve.
Shape strides_of(MemoryFormat format, const Shape& sizes);
/// A copy that lies so.
Tensor formatted(const Tensor& x, MemoryFormat format);
/// The format that x has by its strides, gaps allowed, and that an operation which keeps formats gives its result:
/// PyTorch's suggest_memory_format(). Where sizes of 1 leave it open the strides of those decide.
MemoryFormat suggested_format(const Tensor& x);

}  // namespace raw
}  // namespace core
