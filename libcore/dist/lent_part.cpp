#include <memory>

#include "libcore/dist/reducer.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/packed_weights.h"
#include "libcore/tensor/tensor_impl.h"

namespace core::distributed::detail {

Tensor lent_part(const std::shared_ptr<const Tensor>& contents, const Tensor& view) {
  using Kept = std::shared_ptr<const Tensor>;
  auto kept = std::make_unique<Kept>(contents);
  const Storage storage = Storage::borrow(
      view.mutable_raw_data(), static_cast<std::size_t>(view.nbytes()), view.device(),
      [](void* context) { delete static_cast<Kept*>(context); }, kept.get());
  static_cast<void>(kept.release());  // the storage's
  return from_storage(storage, view.dtype(), view.sizes(), view.strides());
}

bool is_replaceable(const Tensor& grad) {
  const TensorImpl& impl = *grad.impl();
  return impl.use_count() == 2 && impl.storage->use_count() == 1 && impl.autograd.load() == nullptr &&
         packed_weights::may_keep(impl.storage.id());  // else it is from_blob's, which the program sees without it
}

}  // namespace core::distributed::detail
