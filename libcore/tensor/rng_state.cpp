#include "libcore/tensor/rng_state.h"

#include "libcore/base/bytes.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"

namespace core {

Tensor rng_state() {
  const ByteVector bytes = default_generator().state();
  return from_bytes(bytes, {static_cast<std::int64_t>(bytes.size())}, DType::u8, {.device = Device()});
}

void set_rng_state(const Tensor& state) {
  if (state.dtype() != DType::u8) throw Error(ErrorCode::type, "RNG state must be a torch.ByteTensor");
  const Tensor dense = state.detach().cpu().contiguous();
  const auto* data = static_cast<const std::byte*>(dense.raw_data());
  default_generator().set_state(ByteVector(data, data + dense.numel()));
}

}  // namespace core
