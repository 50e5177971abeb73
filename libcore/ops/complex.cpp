#include "libcore/ops/complex.h"

#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/view_nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_impl.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::FollowsConvention;

bool can_be_part(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16;
}

struct ViewAsRealBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "ViewAsRealBackward0"; }
  TensorList apply(TensorList g) override { return {view_as_complex(g[0].contiguous())}; }
};
struct ViewAsComplexBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "ViewAsComplexBackward0"; }
  TensorList apply(TensorList g) override { return {view_as_real(g[0])}; }
};
struct ConjBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "ConjBackward0"; }
  TensorList apply(TensorList g) override { return {conj(g[0])}; }
};
struct ComplexBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "ComplexBackward0"; }
  TensorList apply(TensorList g) override {
    return {wants(0) ? real(g[0]) : Tensor(), wants(1) ? imag(g[0]) : Tensor()};
  }
};
/// Turning z by i z / |z|^2 adds 1 to its angle; 0 has none.
struct AngleBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "AngleBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor z = saved(0);
    if (!is_complex(z)) return {zeros_like(z)};
    const Tensor none = z == 0, square_size = masked_fill(square(abs(z)), none, 1);
    return {g[0] * (z / square_size) * complex_number(0, 1)};
  }
};

/// The memory of `x` as elements of another type.
Tensor view_of_type(const Tensor& x, DType dtype, const Shape& sizes, const Shape& strides, std::int64_t offset) {
  Tensor out = raw::view(x, sizes, strides, offset);
  out.impl()->dtype = dtype;
  return out;
}

void check_parts(const Tensor& first, const Tensor& second) {
  if (!can_be_part(first.dtype()) || !can_be_part(second.dtype())) {
    fail(std::string("Expected both inputs to be Half, Float or Double tensors but got ") +
             scalar_type_name(first.dtype()) + " and " + scalar_type_name(second.dtype()),
         ErrorCode::not_implemented);
  }
  if (first.dtype() != second.dtype()) {
    fail(std::string("Expected object of scalar type ") + scalar_type_name(first.dtype()) + " but got scalar type " +
         scalar_type_name(second.dtype()) + " for second argument");
  }
}

/// New memory with these parts.
Tensor joined(const Tensor& real_part, const Tensor& imaginary_part, const Shape& sizes) {
  const Tensor out = raw::make(sizes, complex_type(real_part.dtype()), raw::backend_of(real_part));
  const Tensor parts = view_as_real(out);
  raw::copy_into(parts.select(-1, 0), real_part);
  raw::copy_into(parts.select(-1, 1), imaginary_part);
  return out;
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
  Tensor out = view_of_type(x, parts_type(x.dtype()), sizes, strides, x.storage_offset() * 2);
  return detail::make_view<ViewAsRealBackward>(x, std::move(out), [](ViewAsRealBackward&) {});
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
  Shape sizes, strides;
  for (std::int64_t d = 0; d + 1 < x.dim(); ++d) {
    sizes.push_back(x.size(d));
    if (x.stride(d) % 2 != 0) {
      fail("Tensor must have a stride divisible by 2 for all but last dimension");
    }
    strides.push_back(x.stride(d) / 2);
  }
  if (x.storage_offset() % 2 != 0) fail("Tensor must have a storage_offset divisible by 2");
  Tensor out = view_of_type(x, complex_type(x.dtype()), sizes, strides, x.storage_offset() / 2);
  return detail::make_view<ViewAsComplexBackward>(x, std::move(out), [](ViewAsComplexBackward&) {});
}

Tensor real(const Tensor& x) {
  return is_complex(x) ? view_as_real(x).select(-1, 0) : x;
}

Tensor imag(const Tensor& x) {
  if (!is_complex(x)) fail("imag is not implemented for tensors with non-complex dtypes.", ErrorCode::type);
  return view_as_real(x).select(-1, 1);
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  check_parts(real, imag);
  Tensor out = joined(real.detach(), imag.detach(), broadcast_shapes(real.sizes(), imag.sizes()));
  if (needs_grad(real, imag)) record(out, make_node<ComplexBackward>(real, imag));
  return out;
}

Tensor polar(const Tensor& abs, const Tensor& angle) {
  check_parts(abs, angle);
  if (abs.dtype() == DType::f16) return complex(abs * cos(angle), abs * sin(angle));  // composed() would widen it
  return composed("PolarBackward0", {abs, angle},
                  [](const TensorList& in) { return complex(in[0] * cos(in[1]), in[0] * sin(in[1])); });
}

Tensor conj(const Tensor& x) {
  if (!is_complex(x)) return x;
  Tensor out = raw::make_like(x, x.dtype());
  const Tensor from = view_as_real(x.detach()), to = view_as_real(out);
  raw::copy_into(to.select(-1, 0), from.select(-1, 0));
  raw::unary_into(UnaryOp::neg, to.select(-1, 1), from.select(-1, 1));
  return detail::with_node<ConjBackward>(x, std::move(out));
}
Tensor adjoint(const Tensor& x) {
  if (x.dim() == 0) {
    warn("adjoint() is deprecated on 0-D tensors. Consider using x.conj().");
    return conj(x);
  }
  if (x.dim() == 1) {
    fail("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.");
  }
  return conj(x.transpose(-2, -1));
}
Tensor resolve_conj(const Tensor& x) {
  return x;
}

Tensor angle(const Tensor& x) {
  Tensor out;
  if (is_complex(x)) {
    const Tensor parts = view_as_real(x.detach());
    out = raw::binary(BinaryOp::atan2, parts.select(-1, 1), parts.select(-1, 0));
  } else {
    const Tensor number = is_floating(x.dtype()) ? x.detach() : x.detach().to(default_dtype());
    const Tensor by_sign = masked_fill(zeros_like(number), number < 0, std::numbers::pi);
    out = where(isnan(number), number, by_sign);
  }
  return detail::with_saved_input<AngleBackward>(x, std::move(out));
}

Tensor complex_number(double real, double imag) {
  const double parts[] = {real, imag};
  const Tensor number = raw::make({}, DType::c128, backend_for(DeviceType::cpu));
  std::copy_n(parts, 2, static_cast<double*>(number.mutable_raw_data()));
  number.impl()->wrapped_number = true;
  return number;
}

std::complex<double> complex_item(const Tensor& x) {
  if (x.numel() != 1) {
    fail("a Tensor with " + std::to_string(x.numel()) + " elements cannot be converted to Scalar");
  }
  return x.to_vector<std::complex<double>>()[0];
}

}  // namespace core
