#include "libcore/ops/fft.h"

#include <cmath>
#include <complex>
#include <string>
#include <string_view>

#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/backend/fft.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/scalar.h"

namespace core::fft {
namespace {

using core::detail::fail;
using core::detail::FollowsConvention;

/// Transforms along these dimensions, of which the last is the one that is halved.
struct TransformPlan {
  Shape dims;
  bool inverse = false;
  double scale = 1;
  std::int64_t last() const { return dims[dims.size() - 1]; }
};

Tensor c2c(const Tensor& x, const TransformPlan& plan);
Tensor r2c(const Tensor& x, const TransformPlan& plan, bool onesided);

/// The same numbers through the other sign of the exponent.
TransformPlan turned(TransformPlan plan) {
  plan.inverse = !plan.inverse;
  return plan;
}

/// `x` with `size` numbers along `dim`: cut, or padded with zeros.
Tensor resized(const Tensor& x, std::int64_t dim, std::int64_t size) {
  const std::int64_t now = x.size(dim);
  if (size == now) return x;
  if (size < now) return x.narrow(dim, 0, size);
  Shape missing = x.sizes();
  missing[static_cast<std::size_t>(dim)] = size - now;
  return cat({x, zeros(missing, {.dtype = x.dtype(), .device = x.device()})}, dim);
}

struct FftC2CBackward final : Node, FollowsConvention {
  TransformPlan plan;
  std::string_view name() const override { return "FftC2CBackward0"; }
  TensorList apply(TensorList g) override { return {c2c(g[0], turned(plan))}; }
};
struct FftR2CBackward final : Node, FollowsConvention {
  TransformPlan plan;
  std::int64_t length = 0;
  std::string_view name() const override { return "FftR2CBackward0"; }
  TensorList apply(TensorList g) override { return {real(c2c(resized(g[0], plan.last(), length), turned(plan)))}; }
};
/// All but the first number, and the last of an even length, stand for two.
struct FftC2RBackward final : Node, FollowsConvention {
  TransformPlan plan;
  std::int64_t length = 0;
  std::string_view name() const override { return "FftC2RBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor half = r2c(g[0], turned(plan), true);
    const std::int64_t dim = plan.last(), doubled = length - half.size(dim), kept = half.size(dim) - 1 - doubled;
    if (doubled <= 0) return {half};
    return {cat({half.narrow(dim, 0, 1), half.narrow(dim, 1, doubled) * 2, half.narrow(dim, 1 + doubled, kept)}, dim)};
  }
};

void check_place(const Tensor& x) {
  if (!raw::backend_of(x).is_host_memory()) raw::throw_unsupported("fft", raw::backend_of(x), x.dtype());
}
Tensor rows_along(const Tensor& x, std::int64_t dim) {
  return x.movedim(dim, -1).contiguous();
}
/// Memory for such rows of `length` numbers.
Tensor rows_like(const Tensor& rows, std::int64_t length, DType dtype) {
  Shape sizes = rows.sizes();
  sizes[sizes.size() - 1] = length;
  return raw::make(sizes, dtype, raw::backend_of(rows));
}

template <class T>
void transform_rows(const Tensor& in, const Tensor& out, bool inverse, double scale) {
  const std::int64_t length = in.size(-1);
  fourier::transform<T>({in.numel() / length, length, inverse, scale}, in.data<std::complex<T>>(),
                        out.mutable_data<std::complex<T>>());
}

/// Without history, of complex numbers.
Tensor transformed(const Tensor& x, const TransformPlan& plan) {
  check_place(x);
  if (plan.dims.empty() || x.numel() == 0) return raw::contiguous(x);
  Tensor result = x;
  for (std::size_t i = plan.dims.size(); i-- > 0;) {
    const double scale = i == 0 ? plan.scale : 1;
    const Tensor rows = rows_along(result, plan.dims[i]), out = rows_like(rows, rows.size(-1), rows.dtype());
    rows.dtype() == DType::c64 ? transform_rows<float>(rows, out, plan.inverse, scale)
                               : transform_rows<double>(rows, out, plan.inverse, scale);
    result = out.movedim(-1, plan.dims[i]);
  }
  return result.contiguous();
}

template <class T>
void halve_rows(const Tensor& in, const Tensor& out, const TransformPlan& plan) {
  const std::int64_t length = in.size(-1);
  fourier::to_half<T>({in.numel() / length, length, plan.inverse, plan.scale}, in.data<T>(),
                      out.mutable_data<std::complex<T>>());
}
template <class T>
void restore_rows(const Tensor& in, const Tensor& out, const TransformPlan& plan) {
  const std::int64_t length = out.size(-1);
  fourier::from_half<T>({out.numel() / length, length, plan.inverse, plan.scale}, in.data<std::complex<T>>(),
                        out.mutable_data<T>());
}

/// The first halves of the spectra of real numbers: along the last dimension first, then along the others.
Tensor halved(const Tensor& x, const TransformPlan& plan) {
  check_place(x);
  const Tensor rows = rows_along(x, plan.last()), out = rows_like(rows, rows.size(-1) / 2 + 1, complex_type(x.dtype()));
  if (rows.numel() > 0)
    x.dtype() == DType::f32 ? halve_rows<float>(rows, out, plan) : halve_rows<double>(rows, out, plan);
  TransformPlan others{plan.dims, plan.inverse, 1};
  others.dims.pop_back();
  return transformed(out.movedim(-1, plan.last()), others);
}

/// Real numbers from such halves along one dimension.
Tensor restored(const Tensor& half, const TransformPlan& plan, std::int64_t length) {
  check_place(half);
  const Tensor rows = rows_along(half, plan.last()), out = rows_like(rows, length, parts_type(half.dtype()));
  if (out.numel() > 0) {
    out.dtype() == DType::f32 ? restore_rows<float>(rows, out, plan) : restore_rows<double>(rows, out, plan);
  }
  return out.movedim(-1, plan.last()).contiguous();
}

Tensor c2c(const Tensor& x, const TransformPlan& plan) {
  Tensor out = transformed(x.detach(), plan);
  if (!needs_grad(x)) return out;
  auto node = make_node<FftC2CBackward>(x);
  node->plan = plan;
  record(out, node);
  return out;
}

Tensor r2c(const Tensor& x, const TransformPlan& plan, bool onesided) {
  Tensor out = onesided ? halved(x.detach(), plan) : transformed(raw::cast(x.detach(), complex_type(x.dtype())), plan);
  if (!needs_grad(x)) return out;
  auto node = make_node<FftR2CBackward>(x);
  node->plan = plan;
  node->length = x.size(plan.last());
  record(out, node);
  return out;
}

/// The first half of a spectrum, whose other half is its conjugate, to `length` real numbers.
Tensor c2r(const Tensor& x, const TransformPlan& plan, std::int64_t length) {
  Tensor out = restored(x.detach(), plan, length);
  if (!needs_grad(x)) return out;
  auto node = make_node<FftC2RBackward>(x);
  node->plan = plan;
  node->length = length;
  record(out, node);
  return out;
}

/// The factor of a transform over `count` numbers.
double scale_of(const std::string& norm, bool inverse, std::int64_t count) {
  const auto n = static_cast<double>(count);
  if (norm == "ortho") return 1 / std::sqrt(n);
  if (norm == "backward") return inverse ? 1 / n : 1;
  if (norm == "forward") return inverse ? 1 : 1 / n;
  fail("Invalid normalization mode: \"" + norm + "\"");
}

void check_length(std::int64_t n) {
  if (n < 1) fail("Invalid number of data points (" + std::to_string(n) + ") specified");
}

/// In a type that is computed with: integers as the default float type, and complex where that is asked.
Tensor promoted(const Tensor& x, bool to_complex) {
  const DType dtype = is_inexact(x.dtype()) ? x.dtype() : default_dtype();
  const DType parts = parts_type(dtype);
  if (parts != DType::f32 && parts != DType::f64) {
    fail(std::string("Unsupported dtype ") + scalar_type_name(dtype), ErrorCode::not_implemented);
  }
  return x.to(to_complex ? complex_type(dtype) : dtype);
}

std::int64_t checked_dim(const Tensor& x, std::int64_t dim) {
  if (x.dim() == 0) {
    fail("Dimension specified as " + std::to_string(dim) + " but tensor has no dimensions", ErrorCode::index);
  }
  return raw::wrap_dim(dim, x.dim());
}

void check_real(const Tensor& x, const char* name, const char* kind) {
  if (!is_complex(x)) return;
  fail(std::string(name) + " expects a " + kind + " input tensor, but got " + scalar_type_name(x.dtype()),
       ErrorCode::type);
}

Tensor one_way(const Tensor& x, const Options& o, bool inverse) {
  const std::int64_t dim = checked_dim(x, o.dim);
  const Tensor in = promoted(x, false);
  const std::int64_t n = o.n.value_or(in.size(dim));
  check_length(n);
  const TransformPlan plan{{dim}, inverse, scale_of(o.norm, inverse, n)};
  const Tensor sized = resized(in, dim, n);
  return is_complex(sized) ? c2c(sized, plan) : r2c(sized, plan, false);
}

Tensor to_half(const Tensor& x, const Options& o, bool inverse, const char* name) {
  check_real(x, name, "real");
  const std::int64_t dim = checked_dim(x, o.dim);
  const Tensor in = promoted(x, false);
  const std::int64_t n = o.n.value_or(in.size(dim));
  check_length(n);
  const Tensor half = r2c(resized(in, dim, n), {{dim}, false, scale_of(o.norm, inverse, n)}, true);
  return inverse ? conj(half) : half;
}

/// `inverse`: the sign of the exponent and the side of the factor.
Tensor to_reals(const Tensor& x, const Options& o, bool inverse) {
  const std::int64_t dim = checked_dim(x, o.dim);
  const Tensor in = promoted(x, true);
  const std::int64_t n = o.n.value_or(2 * (in.size(dim) - 1));
  check_length(n);
  return c2r(resized(in, dim, n / 2 + 1), {{dim}, inverse, scale_of(o.norm, inverse, n)}, n);
}

/// The dimensions of a transform and their lengths.
struct Extent {
  Shape dims, sizes;
  std::int64_t count() const {
    std::int64_t all = 1;
    for (const std::int64_t size : sizes) all *= size;
    return all;
  }
};

Shape dims_of(const Tensor& x, const NdOptions& o) {
  Shape dims;
  if (o.dim) {
    for (const std::int64_t dim : *o.dim) dims.push_back(checked_dim(x, dim));
  } else {
    const std::int64_t last = o.s ? static_cast<std::int64_t>(o.s->size()) : x.dim();
    for (std::int64_t dim = x.dim() - last; dim < x.dim(); ++dim) dims.push_back(dim);
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (dims[i] == dims[k]) fail("FFT dims must be unique");
    }
  }
  return dims;
}

/// `halves`: the last dimension holds the first half of a spectrum.
Extent extent_of(const Tensor& x, const NdOptions& o, bool halves = false) {
  if (o.s && o.dim && o.s->size() != o.dim->size()) {
    fail("When given, dim and shape arguments must have the same length");
  }
  if (o.s && static_cast<std::int64_t>(o.s->size()) > x.dim()) {
    fail("Got shape with " + std::to_string(o.s->size()) + " values but input tensor only has " +
         std::to_string(x.dim()) + " dimensions.");
  }
  Extent extent{dims_of(x, o), {}};
  for (std::size_t i = 0; i < extent.dims.size(); ++i) {
    const std::int64_t size = x.size(extent.dims[i]);
    const bool is_half = halves && i + 1 == extent.dims.size();
    const std::int64_t wanted = o.s ? (*o.s)[i] : -1;
    extent.sizes.push_back(wanted != -1 ? wanted : is_half ? 2 * (size - 1) : size);
    check_length(extent.sizes[i]);
  }
  return extent;
}

/// In the sizes of the first `count` dimensions of the extent.
Tensor in_size(Tensor x, const Extent& extent, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x = resized(x, extent.dims[i], extent.sizes[i]);
  return x;
}

Tensor many(const Tensor& x, const NdOptions& o, bool inverse) {
  const Extent extent = extent_of(x, o);
  const double scale = scale_of(o.norm, inverse, extent.count());
  const Tensor sized = in_size(promoted(x, true), extent, extent.dims.size());
  return extent.dims.empty() ? sized : c2c(sized, {extent.dims, inverse, scale});
}

void check_any_dim(const Extent& extent, const char* name) {
  if (extent.dims.empty()) fail(std::string(name) + " must transform at least one axis");
}

/// Real numbers from the first halves of spectra along the last of the dimensions.
Tensor from_halves(const Tensor& x, const Extent& extent, const std::string& norm, bool inverse) {
  const std::size_t last = extent.dims.size() - 1;
  const std::int64_t dim = extent.dims[last], length = extent.sizes[last];
  const Tensor half = resized(in_size(promoted(x, true), extent, last), dim, length / 2 + 1);
  Shape others = extent.dims;
  others.pop_back();
  const TransformPlan plan{{dim}, inverse, scale_of(norm, inverse, extent.count())};
  return c2r(others.empty() ? half : c2c(half, {others, inverse, 1}), plan, length);
}

NdOptions of_planes(NdOptions options) {
  if (!options.dim) options.dim = Shape{-2, -1};
  return options;
}

Tensor shifted(const Tensor& x, const std::optional<Shape>& dims, bool back) {
  Shape all;
  for (std::int64_t d = 0; d < x.dim(); ++d) all.push_back(d);
  Shape by;
  for (const std::int64_t dim : dims.value_or(all)) by.push_back((x.size(checked_dim(x, dim)) + (back ? 1 : 0)) / 2);
  return by.empty() ? x : roll(x, by, dims.value_or(all));
}

}  // namespace

Tensor fft(const Tensor& x, const Options& options) {
  return one_way(x, options, false);
}
Tensor ifft(const Tensor& x, const Options& options) {
  return one_way(x, options, true);
}
Tensor rfft(const Tensor& x, const Options& options) {
  return to_half(x, options, false, "rfft");
}
Tensor irfft(const Tensor& x, const Options& options) {
  return to_reals(x, options, true);
}
Tensor hfft(const Tensor& x, const Options& options) {
  return to_reals(x, options, false);
}
Tensor ihfft(const Tensor& x, const Options& options) {
  return to_half(x, options, true, "ihfft");
}

Tensor fftn(const Tensor& x, const NdOptions& options) {
  return many(x, options, false);
}
Tensor ifftn(const Tensor& x, const NdOptions& options) {
  return many(x, options, true);
}
Tensor rfftn(const Tensor& x, const NdOptions& options) {
  check_real(x, "rfftn", "real-valued");
  const Extent extent = extent_of(x, options);
  check_any_dim(extent, "rfftn");
  const Tensor sized = in_size(promoted(x, false), extent, extent.dims.size());
  return r2c(sized, {extent.dims, false, scale_of(options.norm, false, extent.count())}, true);
}
Tensor irfftn(const Tensor& x, const NdOptions& options) {
  const Extent extent = extent_of(x, options, true);
  check_any_dim(extent, "irfftn");
  return from_halves(x, extent, options.norm, true);
}

Tensor hfftn(const Tensor& x, const NdOptions& options) {
  const Extent extent = extent_of(x, options, true);
  check_any_dim(extent, "hfftn");
  return from_halves(x, extent, options.norm, false);
}
Tensor ihfftn(const Tensor& x, const NdOptions& options) {
  if (is_complex(x)) {
    fail(std::string("Only supports floating-point dtypes, but found: ") + scalar_type_name(x.dtype()));
  }
  const Extent extent = extent_of(x, options);
  check_any_dim(extent, "ihfftn");
  const Tensor sized = in_size(promoted(x, false), extent, extent.dims.size());
  const double scale = scale_of(options.norm, true, extent.count());
  Shape others = extent.dims;
  others.pop_back();
  const Tensor half = conj(r2c(sized, {{extent.dims[others.size()]}, false, scale}, true));
  return others.empty() ? half : c2c(half, {others, true, 1});
}

Tensor fft2(const Tensor& x, const NdOptions& options) {
  return fftn(x, of_planes(options));
}
Tensor ifft2(const Tensor& x, const NdOptions& options) {
  return ifftn(x, of_planes(options));
}
Tensor rfft2(const Tensor& x, const NdOptions& options) {
  return rfftn(x, of_planes(options));
}
Tensor irfft2(const Tensor& x, const NdOptions& options) {
  return irfftn(x, of_planes(options));
}

Tensor hfft2(const Tensor& x, const NdOptions& options) {
  return hfftn(x, of_planes(options));
}
Tensor ihfft2(const Tensor& x, const NdOptions& options) {
  return ihfftn(x, of_planes(options));
}

Tensor fftfreq(std::int64_t n, double d, const TensorOptions& options) {
  TensorOptions all = options;
  all.dtype = options.dtype.value_or(default_dtype());
  if (n < 0) fail("Trying to create tensor with negative dimension " + std::to_string(n) + ": " + to_list(Shape{n}));
  const std::int64_t positive = (n + 1) / 2;
  return cat({arange(0, positive, all), arange(-(n / 2), 0, all)}) * (1.0 / (static_cast<double>(n) * d));
}
Tensor rfftfreq(std::int64_t n, double d, const TensorOptions& options) {
  TensorOptions all = options;
  all.dtype = options.dtype.value_or(default_dtype());
  return arange(0, n / 2 + 1, all) * (1.0 / (static_cast<double>(n) * d));
}
Tensor fftshift(const Tensor& x, const std::optional<Shape>& dims) {
  return shifted(x, dims, false);
}
Tensor ifftshift(const Tensor& x, const std::optional<Shape>& dims) {
  return shifted(x, dims, true);
}

}  // namespace core::fft
