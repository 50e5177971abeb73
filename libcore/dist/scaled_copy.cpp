#include "libcore/dist/reducer.h"

namespace core::distributed::detail {
namespace {

template <class T>
void scale(T* to, const T* from, std::int64_t count, T factor) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

}  // namespace

void scaled_copy(const Tensor& to, const Tensor& from, double factor) {
  const bool same_order = to.is_contiguous() && from.is_contiguous() && to.dtype() == from.dtype();
  if (same_order && to.device().is_cpu() && from.device().is_cpu()) {
    if (to.dtype() == DType::f32) {
      return scale(to.mutable_data<float>(), from.data<float>(), to.numel(), static_cast<float>(factor));
    }
    if (to.dtype() == DType::f64) return scale(to.mutable_data<double>(), from.data<double>(), to.numel(), factor);
  }
  to.copy_(from);
  to.mul_(factor);
}

}  // namespace core::distributed::detail
