#pragma once
// torch.set_default_tensor_type: default dtype and default device in one. Thread safety: sets process-wide values.
// Use: core::set_default_tensor_type("torch.cuda.FloatTensor");  // factories without a device now use the current GPU

#include <string_view>

namespace core {

/// "torch.FloatTensor", "torch.cuda.DoubleTensor", ... Warns that PyTorch has deprecated it. A CUDA type may be set
/// without devices; then factories fail. Errors: "only floating-point types are supported as the default type" (type),
/// "module 'torch' has no attribute 'FooTensor'" (attribute).
void set_default_tensor_type(std::string_view type);

}  // namespace core
