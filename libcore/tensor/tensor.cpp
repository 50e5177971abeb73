#include "libcore/tensor/tensor.h"

#include <algorithm>
#include <complex>
#include <iterator>
#include <string>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/backend.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/backend/host_memory.h"
#include "libcore/base/bytes.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/op_trace.h"

namespace core {

thread_local constinit bool making_inference_tensors = false;

void* TensorImpl::operator new(std::size_t bytes) {
  return host_allocate(bytes);
}
void TensorImpl::operator delete(void* block, std::size_t bytes) noexcept {
  host_free(block, bytes);
}

const char* scalar_type_name(DType dtype) {
  // In the order of the enumeration.
  static constexpr const char* kNames[] = {"Bool",
                                           "Byte",
                                           "Char",
                                           "Short",
                                           "Int",
                                           "Long",
                                           "UInt16",
                                           "UInt32",
                                           "UInt64",
                                           "Half",
                                           "BFloat16",
                                           "Float",
                                           "Double",
                                           "ComplexHalf",
                                           "ComplexFloat",
                                           "ComplexDouble",
                                           "Float8_e4m3fn",
                                           "Float8_e5m2",
                                           "Float8_e4m3fnuz",
                                           "Float8_e5m2fnuz",
                                           "Float8_e8m0fnu",
                                           "Float6_e2m3",
                                           "Float6_e3m2",
                                           "Float4_e2m1fn_x2",
                                           "QInt8",
                                           "QUInt8",
                                           "QInt32",
                                           "QUInt4x2",
                                           "QUInt2x4",
                                           "Bits8",
                                           "Bits16",
                                           "Bits1x8",
                                           "Bits2x4",
                                           "Bits4x2"};
  static_assert(std::size(kNames) == kDTypeCount);
  return kNames[static_cast<std::size_t>(dtype)];
}

void detail::throw_undefined_tensor() {
  throw Error(ErrorCode::runtime, "Expected a proper Tensor but got None (or an undefined Tensor in C++)");
}

bool Tensor::is_sparse() const {
  return storage()->backend().is_sparse();
}

namespace {

void check_has_dimensions(const Tensor& x, std::int64_t dim) {
  if (x.dim() > 0) [[likely]]
    return;
  throw Error(ErrorCode::index, "Dimension specified as " + std::to_string(dim) + " but tensor has no dimensions");
}

}  // namespace

std::int64_t Tensor::size(std::int64_t dim) const {
  check_has_dimensions(*this, dim);
  return sizes()[static_cast<std::size_t>(raw::wrap_dim(dim, this->dim()))];
}

std::int64_t Tensor::stride(std::int64_t dim) const {
  check_has_dimensions(*this, dim);
  return strides()[static_cast<std::size_t>(raw::wrap_dim(dim, this->dim()))];
}

namespace {
/// Apart, so that reading pays for one load and no call.
[[gnu::cold, gnu::noinline]] void note_read(const Tensor& x) {
  if (detail::runs_for_batch() && detail::traces_here()) detail::note_untraced("data", x);
}
}  // namespace

const void* Tensor::raw_data() const {
  if (detail::tracing.load(std::memory_order_relaxed) != 0) [[unlikely]]
    note_read(*this);
  auto* base = static_cast<std::byte*>(self().storage.data());
  return base + self().offset * static_cast<std::int64_t>(element_bytes(self().dtype));
}

void* Tensor::mutable_raw_data() const {
  self().storage->bump_writes();
  return const_cast<void*>(raw_data());
}

void* Tensor::typed_data(DType wanted) const {
  if (dtype() != wanted) {
    throw Error(ErrorCode::runtime, std::string("expected scalar type ") + scalar_type_name(wanted) + " but found " +
                                        scalar_type_name(dtype()));
  }
  if (is_sparse()) throw Error(ErrorCode::runtime, "Cannot access data pointer of Tensor that doesn't have storage");
  return const_cast<void*>(raw_data());
}

namespace {
/// Of a complex number, which a Scalar cannot hold.
Scalar real_item(const Tensor& x) {
  const auto value = x.to_vector<std::complex<double>>()[0];
  if (value.imag() != 0) throw Error(ErrorCode::runtime, "value cannot be converted to type double without overflow");
  return value.real();
}
}  // namespace

Scalar Tensor::item() const {
  if (detail::traced_now()) detail::note_untraced("item", *this);
  if (numel() != 1) {
    throw Error(ErrorCode::runtime,
                "a Tensor with " + std::to_string(numel()) + " elements cannot be converted to Scalar");
  }
  if (is_meta()) throw Error(ErrorCode::runtime, "Tensor.item() cannot be called on meta tensors");
  if (dtype() == DType::f32 && storage()->backend().is_host_memory()) {  // the usual case, kept short
    return static_cast<double>(*static_cast<const float*>(raw_data()));
  }
  if (core::is_complex(dtype())) return real_item(*this);
  DType kind = is_floating(dtype()) ? DType::f64 : dtype() == DType::boolean ? DType::boolean : DType::i64;
  std::byte bytes[8];
  Tensor value = raw::cast(*this, kind);
  raw::backend_of(value).copy_to_host(bytes, value.raw_data(), static_cast<std::size_t>(bit_width(kind) / 8));
  if (kind == DType::f64) return load_le<double>(bytes);
  if (kind == DType::boolean) return load_le<std::uint8_t>(bytes) != 0;
  return load_le<std::int64_t>(bytes);
}

Tensor::operator bool() const {
  if (numel() != 1) {
    throw Error(ErrorCode::runtime, numel() == 0 ? "Boolean value of Tensor with no values is ambiguous"
                                                 : "Boolean value of Tensor with more than one value is ambiguous");
  }
  if (core::is_complex(dtype())) return to(DType::boolean).item().to_bool();
  return item().to_bool();
}

namespace {
/// The value behind Python's float() and int().
Scalar only_value(const Tensor& tensor) {
  if (tensor.numel() != 1) {
    throw Error(ErrorCode::value, "only one element tensors can be converted to Python scalars");
  }
  if (tensor.requires_grad() && is_grad_enabled()) {
    warn(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using "
        "tensor.detach() first.");
  }
  return tensor.item();
}
}  // namespace

Tensor::operator double() const {
  return only_value(*this).to_double();
}
Tensor::operator std::int64_t() const {
  return only_value(*this).to_int();
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  if (detail::traced_now()) detail::note_untraced("to_vector", *this);
  if constexpr (!is_complex_number<T>) {
    if (core::is_complex(dtype())) {
      throw Error(ErrorCode::runtime,
                  "to_vector() of complex numbers gives std::complex: to_vector<std::complex<float>>()");
    }
  }
  Tensor dense = raw::contiguous(raw::cast(*this, dtype_of<T>));
  std::vector<T> values(static_cast<std::size_t>(numel()));
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<std::uint8_t> bytes(values.size());
    raw::backend_of(dense).copy_to_host(bytes.data(), dense.raw_data(), bytes.size());
    std::copy(bytes.begin(), bytes.end(), values.begin());
  } else {
    raw::backend_of(dense).copy_to_host(values.data(), dense.raw_data(), values.size() * sizeof(T));
  }
  return values;
}

template std::vector<bool> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template std::vector<std::int8_t> Tensor::to_vector() const;
template std::vector<std::int16_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<Half> Tensor::to_vector() const;
template std::vector<BFloat16> Tensor::to_vector() const;
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::complex<float>> Tensor::to_vector() const;
template std::vector<std::complex<double>> Tensor::to_vector() const;

}  // namespace core
