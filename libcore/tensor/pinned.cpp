#include "libcore/tensor/pinned.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

struct Block {
  Backend* backend;
  std::size_t bytes;
};

/// The pinned blocks alive, by address. Never destroyed: tensors of static lifetime may still be freed.
struct Blocks {
  std::mutex mutex;
  std::map<void*, Block> by_address;
};

Blocks& blocks() {
  static auto* made = new Blocks;
  return *made;
}

void release(void* address) {
  std::scoped_lock lock(blocks().mutex);
  auto found = blocks().by_address.find(address);
  found->second.backend->free_pinned(address, found->second.bytes);
  blocks().by_address.erase(found);
}

}  // namespace

bool is_pinned(const Tensor& tensor) {
  if (!tensor.device().is_cpu()) return false;
  std::scoped_lock lock(blocks().mutex);
  return blocks().by_address.contains(tensor.storage().data());
}

Tensor pin_memory(const Tensor& tensor) {
  if (is_pinned(tensor)) return tensor;
  if (!tensor.device().is_cpu()) {
    throw Error(ErrorCode::runtime, std::string("cannot pin 'torch.") + (tensor.is_cuda() ? "cuda." : "") +
                                        scalar_type_name(tensor.dtype()) +
                                        "Tensor' only dense CPU tensors can be pinned");
  }
  Backend& backend = backend_for(DeviceType::cuda);
  Tensor dense = tensor.detach().contiguous();
  Tensor pinned = empty_pinned(dense.sizes(), dense.dtype(), backend);
  raw::copy_into(pinned, dense);
  return pinned;
}

Tensor empty_pinned(const Shape& sizes, DType dtype, Backend& backend) {
  const std::size_t bytes = static_cast<std::size_t>(sizes.numel()) * element_bytes(dtype);
  void* data = backend.allocate_pinned(bytes);
  {
    std::scoped_lock lock(blocks().mutex);
    blocks().by_address.emplace(data, Block{&backend, bytes});
  }
  // Not from_blob: nobody else writes into it.
  return from_storage(Storage::borrow(data, bytes, Device(), release, data), dtype, sizes, contiguous_strides(sizes),
                      0);
}

}  // namespace core
