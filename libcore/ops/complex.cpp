#include "libcore/ops/complex.h"

#include <string>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/join.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;

DType parts_type(DType complex) {
  return complex == DType::c128 ? DType::f64 : complex == DType::c64 ? DType::f32 : DType::f16;
}
DType complex_type(DType part) {
  return part == DType::f64 ? DType::c128 : part == DType::f32 ? DType::c64 : DType::c32;
}
bool can_be_part(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16;
}

}  // namespace

bool is_complex(const Tensor& x) {
  return is_complex(x.dtype());
}

Tensor view_as_real(const Tensor& x) {
  if (!is_complex(x)) fail("view_as_real is only supported for complex tensors", ErrorCode::type);
  Shape sizes = x.sizes(), strides = x.strides();
  for (std::size_t d = 0; d < strides.size(); ++d) strides[d] *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return from_storage(x.storage(), parts_type(x.dtype()), sizes, strides, x.storage_offset() * 2);
}

Tensor view_as_complex(const Tensor& x) {
  if (!can_be_part(x.dtype())) {
    fail(std::string("view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar "
                     "type: ") +
             scalar_type_name(x.dtype()),
         ErrorCode::not_implemented);
  }
  if (x.dim() == 0) fail("Input tensor must have one or more dimensions");
  if (x.size(-1) != 2) fail("Tensor must have a last dimension of size 2");
  if (x.stride(-1) != 1) fail("Tensor must have a last dimension with stride 1");
  if (needs_grad(x)) {
    throw Error(ErrorCode::not_implemented, "view_as_complex: complex tensors have no gradients here; detach() first");
  }
  Shape sizes, strides;
  for (std::int64_t d = 0; d + 1 < x.dim(); ++d) {
    sizes.push_back(x.size(d));
    if (x.stride(d) % 2 != 0) {
      fail("Tensor must have a stride divisible by 2 for all but last dimension");
    }
    strides.push_back(x.stride(d) / 2);
  }
  if (x.storage_offset() % 2 != 0) fail("Tensor must have a storage_offset divisible by 2");
  return from_storage(x.storage(), complex_type(x.dtype()), sizes, strides, x.storage_offset() / 2);
}

Tensor real(const Tensor& x) {
  return is_complex(x) ? view_as_real(x).select(-1, 0) : x;
}

Tensor imag(const Tensor& x) {
  if (!is_complex(x)) fail("imag is not implemented for tensors with non-complex dtypes.", ErrorCode::type);
  return view_as_real(x).select(-1, 1);
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  if (!can_be_part(real.dtype()) || !can_be_part(imag.dtype())) {
    fail(std::string("Expected both inputs to be Half, Float or Double tensors but got ") +
             scalar_type_name(real.dtype()) + " and " + scalar_type_name(imag.dtype()),
         ErrorCode::not_implemented);
  }
  if (real.dtype() != imag.dtype()) {
    fail(std::string("Expected object of scalar type ") + scalar_type_name(real.dtype()) + " but got scalar type " +
         scalar_type_name(imag.dtype()) + " for second argument");
  }
  const Shape sizes = broadcast_shapes(real.sizes(), imag.sizes());
  return view_as_complex(stack({real.expand(sizes), imag.expand(sizes)}, -1));
}

}  // namespace core
