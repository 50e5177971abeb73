#include "libcore/tensor/iterate.h"

#include "libcore/base/error.h"

namespace core {

std::int64_t len(const Tensor& x) {
  if (x.dim() == 0) throw Error(ErrorCode::type, "len() of a 0-d tensor");
  return x.size(0);
}

TensorIterator begin(const Tensor& x) {
  if (x.dim() == 0) throw Error(ErrorCode::type, "iteration over a 0-d tensor");
  return TensorIterator(x.unbind(0));
}

}  // namespace core
