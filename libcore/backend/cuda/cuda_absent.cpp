// A build without a CUDA compiler: no GPU, and PyTorch's text for it.
#include "libcore/backend/cuda/cuda_backend.h"
#include "libcore/base/error.h"

namespace core {

std::vector<std::unique_ptr<Backend>> make_cuda_backends(int /*logical_devices*/) {
  return {};
}

bool is_cuda_built() {
  return false;
}

void throw_no_cuda() {
  throw Error(ErrorCode::assertion, "Torch not compiled with CUDA enabled");
}

}  // namespace core
