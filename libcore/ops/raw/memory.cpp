// Allocation, views, copies, casts, moves.
#include "libcore/ops/raw/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/bytes.h"
#include "libcore/base/error.h"
#include "libcore/base/float8.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/blocked_layout.h"
#include "libcore/tensor/intrusive_ptr.h"
#include "libcore/tensor/loop_builder.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_impl.h"
#include "libcore/tensor/type_promotion.h"
#include "libcore/tensor/untracked_views.h"

namespace core::raw {
namespace {

std::size_t bytes_for(std::int64_t elements, DType dtype) {
  if (dtype <= DType::f64 && elements < (std::int64_t{1} << 56))
    return static_cast<std::size_t>(elements) * element_bytes(dtype);
  auto bytes = byte_size(dtype, static_cast<std::uint64_t>(elements));
  if (!bytes || *bytes > static_cast<std::uint64_t>(INT64_MAX)) {  // room for what allocators add
    throw Error(ErrorCode::runtime, "Storage size calculation overflowed");
  }
  return static_cast<std::size_t>(*bytes);
}

Tensor wrap_impl(IntrusivePtr<TensorImpl> impl, Storage storage, DType dtype, std::int64_t numel) {
  impl->storage = std::move(storage);
  impl->dtype = dtype;
  impl->numel = numel;
  return Tensor(std::move(impl));
}

/// Into a shape that is still empty: as many numbers as there are, where an assignment moves all that have room.
[[gnu::always_inline]] inline void put_shape(Shape& to, const Shape& from) {
  for (std::int64_t size : from) to.push_back(size);
}

/// Element size in bytes where a plain move of that size exists, else 0.
std::size_t move_size(DType dtype) {
  int bits = bit_width(dtype);
  return bits % 8 == 0 ? static_cast<std::size_t>(bits / 8) : 0;
}

void run_copy(void (*kernel)(const CopyParams&), const Tensor& out, const Tensor& in) {
  if (kernel == nullptr) throw_unsupported("copy", backend_of(out), in.dtype());
  CopyParams params{const_cast<void*>(out.raw_data()), in.raw_data(), {}};
  if (out.is_contiguous() && in.is_contiguous() && out.numel() == in.numel()) {
    detail::flat_loop<2>(params.loop, out.numel(), {1, 1});
  } else {
    detail::build_loop<2>(params.loop, out.sizes(), {detail::layout_of(out), detail::layout_of(in)});
  }
  kernel(params);
}

/// Both on one device, `in` broadcastable to out.
void copy_on_device(const Tensor& out, const Tensor& in) {
  const CopyTable* table = backend_of(out).ops().copy;
  if (table == nullptr) return;  // the meta device has nothing to copy
  if (out.dtype() == in.dtype()) return run_copy(table->move[move_size(out.dtype())], out, in);
  auto kernel = table->convert[static_cast<std::size_t>(in.dtype())][static_cast<std::size_t>(out.dtype())];
  const bool by_f32 = table->convert[static_cast<std::size_t>(in.dtype())][static_cast<std::size_t>(DType::f32)];
  if (kernel == nullptr && by_f32 && in.dtype() != DType::f32) {
    return copy_on_device(out, cast(in, DType::f32));  // narrow floats go through f32
  }
  if (kernel == nullptr) {
    throw Error(ErrorCode::not_implemented, std::string("cannot convert ") + std::string(name(in.dtype())) + " to " +
                                                std::string(name(out.dtype())));
  }
  run_copy(kernel, out, in);
}

void check_broadcast_into(const Shape& out, const Shape& in) {
  bool fits = in.size() <= out.size();
  for (std::size_t i = 0; fits && i < in.size(); ++i) {
    std::int64_t from = in[in.size() - 1 - i];
    fits = from == 1 || from == out[out.size() - 1 - i];
  }
  if (fits) return;
  Shape both = broadcast_shapes(out, in);  // throws PyTorch's text when they do not even broadcast
  throw Error(ErrorCode::runtime,
              "output with shape " + to_list(out) + " doesn't match the broadcast shape " + to_list(both));
}

/// Where the bytes of `dense` go: in pinned memory where the copy to the host need not be waited for.
Tensor target_of_move(const Tensor& dense, Backend& to, Waiting waiting) {
  const bool pins = waiting == Waiting::non_blocking && to.device().is_cpu() && !backend_of(dense).is_host_memory();
  return pins ? empty_pinned(dense.sizes(), dense.dtype(), backend_of(dense)) : make(dense.sizes(), dense.dtype(), to);
}

/// Contiguous bytes across two devices.
Tensor move_bytes(const Tensor& dense, Backend& to, Waiting waiting) {
  const core::detail::OpScope scope("copy_", dense);
  Backend& from = backend_of(dense);
  Tensor moved = target_of_move(dense, to, waiting);
  const std::size_t bytes = bytes_for(dense.numel(), dense.dtype());
  void* target = const_cast<void*>(moved.raw_data());
  const void* source = dense.raw_data();
  const bool waits = waiting == Waiting::blocking;
  if (from.is_host_memory()) {
    waits ? to.copy_from_host(target, source, bytes) : to.copy_from_host_async(target, source, bytes);
  } else if (to.is_host_memory()) {
    waits ? from.copy_to_host(target, source, bytes) : from.copy_to_host_async(target, source, bytes);
  } else if (!to.copy_from_peer(target, from, source, bytes)) {
    const Tensor host = move_bytes(dense, backend_for(DeviceType::cpu), Waiting::blocking);
    to.copy_from_host(target, host.raw_data(), bytes);
  }
  return moved;
}

}  // namespace

Tensor make(const Shape& sizes, DType dtype, Backend& backend) {
  auto impl = make_intrusive<TensorImpl>();
  put_shape(impl->sizes, sizes);
  put_shape(impl->strides, sizes);
  std::int64_t numel = 1;
  bool is_empty = false;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const std::int64_t size = sizes[i];
    impl->strides[i] = numel;
    numel *= std::max<std::int64_t>(size, 1);
    is_empty = is_empty || size == 0;
  }
  if (is_empty) numel = 0;
  Storage storage = Storage::allocate(bytes_for(numel, dtype), backend);
  return wrap_impl(std::move(impl), std::move(storage), dtype, numel);
}

Tensor make_strided(const Shape& sizes, const Shape& strides, DType dtype, Backend& backend) {
  std::int64_t numel = sizes.numel();
  std::int64_t extent = numel == 0 ? 0 : 1;
  for (std::size_t i = 0; i < sizes.size() && numel != 0; ++i) extent += (sizes[i] - 1) * strides[i];
  auto impl = make_intrusive<TensorImpl>();
  impl->sizes = sizes;
  impl->strides = strides;
  impl->contiguous = is_row_major(sizes, strides);
  return wrap_impl(std::move(impl), Storage::allocate(bytes_for(extent, dtype), backend), dtype, numel);
}

bool is_row_major(const Shape& sizes, const Shape& strides) {
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1 && strides[i] != next) return false;
    next *= sizes[i];
  }
  return true;
}

Tensor make_like(const Tensor& like, DType dtype) {
  if (like.is_contiguous()) return make(like.sizes(), dtype, backend_of(like));
  if (detail::is_dense(like.sizes(), like.strides())) {
    return make_strided(like.sizes(), like.strides(), dtype, backend_of(like));
  }
  detail::Layout layout[] = {detail::layout_of(like)};
  return make_strided(like.sizes(), detail::strides_like(like.sizes(), layout), dtype, backend_of(like));
}

namespace {

/// As it was made.
void undescribe(TensorImpl& view) {
  while (!view.sizes.empty()) view.sizes.pop_back();
  while (!view.strides.empty()) view.strides.pop_back();
  view.requires_grad = view.is_view = view.wrapped_number = view.recomputed = false;
  view.view_origin = 0;
}

/// A tensor on x's storage whose shape and place are not said yet.
Tensor undescribed_view(const Tensor& x) {
  core::detail::SpareViews* spare = core::detail::spare_views;
  Tensor out = spare != nullptr ? spare->take(x.storage()) : Tensor();
  if (out.defined()) {
    undescribe(*out.impl());
  } else {
    Storage storage = x.storage();  // first: counting one more owner waits for all stores before it
    out = Tensor(make_intrusive<TensorImpl>());
    out.impl()->storage = std::move(storage);
  }
  TensorImpl& impl = *out.impl();
  impl.dtype = x.dtype();
  impl.own_version = x.impl()->own_version;
  impl.inference = x.impl()->inference;  // in inference mode too: a view of an ordinary tensor is ordinary
  return out;
}

Tensor shared(const Tensor& x, const Shape& sizes, const Shape& strides, std::int64_t offset) {
  Tensor out = undescribed_view(x);
  TensorImpl& impl = *out.impl();
  put_shape(impl.sizes, sizes);
  put_shape(impl.strides, strides);
  impl.offset = offset;
  impl.numel = sizes.numel();
  impl.contiguous = is_row_major(sizes, strides);
  return out;
}

}  // namespace

Tensor part(const Tensor& x, std::size_t dim, std::int64_t index) {
  if (core::detail::traced_now()) core::detail::note_untraced("select", x);
  if (core::detail::any_sparse(x)) core::detail::throw_sparse();
  Tensor out = undescribed_view(x);
  TensorImpl& impl = *out.impl();
  const Shape &sizes = x.sizes(), &strides = x.strides();
  impl.numel = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i == dim) continue;
    impl.sizes.push_back(sizes[i]);
    impl.strides.push_back(strides[i]);
    impl.numel *= sizes[i];
  }
  impl.offset = x.storage_offset() + index * strides[dim];
  impl.contiguous = (dim == 0 && x.is_contiguous()) || is_row_major(impl.sizes, impl.strides);
  return out;
}

Tensor view(const Tensor& x, const Shape& sizes, const Shape& strides, std::int64_t offset) {
  if (core::detail::traced_now()) core::detail::note_untraced("as_strided", x);
  if (core::detail::any_sparse(x)) core::detail::throw_sparse();
  return shared(x, sizes, strides, offset);
}

Tensor alias(const Tensor& x) {
  if (core::detail::traced_now()) return core::detail::traced("detach", {x}, {}, [&] { return alias(x); });
  Tensor same = shared(x, x.sizes(), x.strides(), x.storage_offset());
  same.impl()->contiguous = x.is_contiguous();  // never of a sparse tensor, whatever its sizes
  return same;
}

Tensor cast(const Tensor& x, DType dtype) {
  if (core::detail::traced_now())
    return core::detail::traced("to", {x}, {{"dtype", dtype}}, [&] { return cast(x, dtype); });
  if (x.dtype() == dtype) return x;
  Tensor out = make_like(x, dtype);
  copy_on_device(out, x);
  return out;
}

Tensor move(const Tensor& x, Backend& to, Waiting waiting) {
  if (&backend_of(x) == &to) return x;
  if (!to.has_memory()) return make_like_on(x, to);
  if (x.is_meta()) throw Error(ErrorCode::not_implemented, "Cannot copy out of meta tensor; no data!");
  if (x.is_contiguous()) return move_bytes(x, to, waiting);
  // Bytes travel densely; the layout is put back on the other side, which on the host has to wait for them.
  if (to.is_host_memory()) waiting = Waiting::blocking;
  Tensor moved = move_bytes(contiguous(x), to, waiting);
  Tensor out = make_like_on(x, to);
  copy_on_device(out, moved);
  return out;
}

Tensor make_like_on(const Tensor& x, Backend& to) {
  if (x.is_contiguous()) return make(x.sizes(), x.dtype(), to);
  detail::Layout layout[] = {detail::layout_of(x)};
  return make_strided(x.sizes(), detail::strides_like(x.sizes(), layout), x.dtype(), to);
}

Tensor contiguous(const Tensor& x) {
  if (core::detail::traced_now()) return core::detail::traced("contiguous", {x}, {}, [&] { return contiguous(x); });
  if (x.is_contiguous()) return x;
  Tensor out = make(x.sizes(), x.dtype(), backend_of(x));
  copy_on_device(out, x);
  return out;
}

Tensor clone(const Tensor& x) {
  if (core::detail::traced_now()) return core::detail::traced("clone", {x}, {}, [&] { return clone(x); });
  const core::detail::OpScope scope("clone", x);
  if (Tensor copy = blocked::try_clone(x); copy.defined()) return copy;
  Tensor out = make_like(x, x.dtype());
  copy_on_device(out, x);
  return out;
}

void copy_into(const Tensor& out, const Tensor& in) {
  if (core::detail::traced_now())
    return core::detail::traced_in_place("copy", out, {in}, {}, [&] { copy_into(out, in); });
  const core::detail::OpScope scope("copy_", out, in);
  if (blocked::try_copy_into(out, in)) return;
  check_broadcast_into(out.sizes(), in.sizes());
  if (out.is_meta()) return;
  copy_on_device(out, move(in, backend_of(out)));
}

namespace {

/// As PyTorch's messages write the types of C++.
std::string cpp_name(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return "int";
    case DType::f32:
      return "float";
    case DType::c64:
      return "c10::complex<float>";
    case DType::f16:
      return "c10::Half";
    case DType::bf16:
      return "c10::BFloat16";
    default:
      return std::string(name(dtype)) + "_t";
  }
}

[[noreturn]] void fail_overflow(DType dtype) {
  throw Error(ErrorCode::runtime, "value cannot be converted to type " + cpp_name(dtype) + " without overflow");
}

bool is_beyond(Scalar value, double largest) {
  const double x = value.to_double();
  return std::isfinite(x) && std::abs(x) > largest;
}

}  // namespace

bool overflows(Scalar value, DType dtype) {
  if (dtype == DType::f32 || dtype == DType::c64) return is_beyond(value, std::numeric_limits<float>::max());
  if (!is_integer(dtype) || dtype == DType::boolean || bit_width(dtype) > 64) return false;
  const int bits = bit_width(dtype);
  const bool is_unsigned = dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
  const double top = std::ldexp(1.0, is_unsigned ? bits : bits - 1);
  if (value.is_float()) {
    const double x = value.to_double();
    return !(x < top && x >= (is_unsigned ? 0.0 : -top));
  }
  if (bits == 64) return false;
  const auto x = static_cast<double>(value.to_int());
  return x >= top || (is_unsigned ? x <= -top : x < -top);
}

void check_fits(Scalar value, DType dtype) {
  if (overflows(value, dtype)) [[unlikely]]
    fail_overflow(dtype);
}

void check_fits_halves_too(Scalar value, DType dtype) {
  constexpr double kLargestHalf = 65504, kLargestBFloat16 = 0x1.fep127;
  check_fits(value, dtype);
  const bool is_half = dtype == DType::f16 || dtype == DType::bf16;
  if (is_half && is_beyond(value, dtype == DType::f16 ? kLargestHalf : kLargestBFloat16)) fail_overflow(dtype);
}

void check_factor(Scalar factor, DType dtype, const char* name, bool negated) {
  if (factor.kind() == DType::i64 && factor.to_int() == 1) return;  // what most calls have
  if (factor.is_bool() && dtype != DType::boolean) {
    throw Error(ErrorCode::runtime, "Boolean " + std::string(name) + " only supported for Boolean results.");
  }
  if (factor.is_float() && !is_inexact(dtype)) {
    throw Error(ErrorCode::runtime,
                "For integral input tensors, argument " + std::string(name) + " must not be a floating point number.");
  }
  if (!negated) return check_fits_halves_too(factor, dtype);
  check_fits_halves_too(factor.is_float() ? Scalar(-factor.to_double()) : Scalar(-factor.to_int()), dtype);
}

Scalar product_factor(Scalar factor, DType dtype) {
  check_fits_halves_too(factor, dtype);
  return factor.is_float() && is_integer(dtype) ? Scalar(factor.to_int()) : factor;
}

void fill_into(const Tensor& out, Scalar value) {
  const core::detail::OpScope scope("fill_", out);
  const CopyTable* table = backend_of(out).ops().copy;
  if (table == nullptr) return;
  if (out.numel() == 1) {
    check_fits(value, out.dtype());
  } else {
    check_fits_halves_too(value, out.dtype());
  }
  if (value.to_double() == 0 && out.is_contiguous() && !std::signbit(value.to_double())) {
    return backend_of(out).fill_zero(const_cast<void*>(out.raw_data()), bytes_for(out.numel(), out.dtype()));
  }
  std::byte element[16];
  store_scalar(element, value, out.dtype());
  auto kernel = table->fill[move_size(out.dtype())];
  if (kernel == nullptr) throw_unsupported("fill", backend_of(out), out.dtype());
  CopyParams params{const_cast<void*>(out.raw_data()), element, {}};
  detail::build_loop<2>(params.loop, out.sizes(), {detail::layout_of(out), detail::layout_of(out)});
  kernel(params);
}

void store_scalar(void* to, Scalar value, DType dtype) {
  auto* bytes = static_cast<std::byte*>(to);
  switch (dtype) {
    case DType::f32:
      return store_le(bytes, static_cast<float>(value.to_double()));
    case DType::f64:
      return store_le(bytes, value.to_double());
    case DType::f16:
      return store_le(bytes, f64_to_f16(value.to_double()));
    case DType::bf16:
      return store_le(bytes, f32_to_bf16(static_cast<float>(value.to_double())));
    case DType::boolean:
      return store_le(bytes, value.to_bool());
    case DType::u8:
    case DType::i8:
      return store_le(bytes, static_cast<std::uint8_t>(value.to_int()));
    case DType::i16:
    case DType::u16:
      return store_le(bytes, static_cast<std::uint16_t>(value.to_int()));
    case DType::i32:
    case DType::u32:
      return store_le(bytes, static_cast<std::uint32_t>(value.to_int()));
    case DType::i64:
    case DType::u64:
      return store_le(bytes, value.to_int());
    case DType::c32:
      store_le(bytes, f64_to_f16(value.to_double()));
      return store_le(bytes + sizeof(std::uint16_t), std::uint16_t{0});
    case DType::c64:
      store_le(bytes, static_cast<float>(value.to_double()));
      return store_le(bytes + sizeof(float), 0.0F);
    case DType::c128:
      store_le(bytes, value.to_double());
      return store_le(bytes + sizeof(double), 0.0);
    case DType::f8_e4m3fn:
    case DType::f8_e5m2:
    case DType::f8_e4m3fnuz:
    case DType::f8_e5m2fnuz:
    case DType::f8_e8m0fnu:
      return store_le(bytes, f32_to_f8(dtype, static_cast<float>(value.to_double())));
    default:
      throw Error(ErrorCode::unsupported, "a number cannot be stored as " + std::string(name(dtype)));
  }
}

Tensor wrapped(Scalar value, Backend& backend) {
  if (!backend.is_host_memory() && backend.has_memory()) {  // the value goes along with a kernel
    Tensor there = make({}, value.kind(), backend);
    fill_into(there, value);
    there.impl()->wrapped_number = true;
    return there;
  }
  Tensor number = make({}, value.kind(), backend_for(DeviceType::cpu));
  store_scalar(const_cast<void*>(number.raw_data()), value, value.kind());
  Tensor out = move(number, backend);
  out.impl()->wrapped_number = true;
  return out;
}

}  // namespace core::raw
