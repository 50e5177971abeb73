#pragma once
// Making tensors: empty, zeros, ones, full, arange, from C++ values. As torch's functions of the same names.
// Thread safety: pure functions; the default dtype and device are process-wide settings.
// Use: core::Tensor x = core::zeros({2, 3}, {.dtype = core::DType::f64, .device = "cuda:0"});

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

struct TensorOptions {
  std::optional<DType> dtype = {};    ///< default_dtype(), or what the values suggest
  std::optional<Device> device = {};  ///< default_device()
  bool requires_grad = false;
  std::optional<MemoryFormat> memory_format = {};  ///< row-major; for X_like that of the other tensor
};

// PyTorch's names of element types.
inline constexpr DType float16 = DType::f16, bfloat16 = DType::bf16, float32 = DType::f32, float64 = DType::f64;
inline constexpr DType int8 = DType::i8, int16 = DType::i16, int32 = DType::i32, int64 = DType::i64;
inline constexpr DType uint8 = DType::u8, boolean = DType::boolean;
inline constexpr DType kHalf = float16, kBFloat16 = bfloat16, kFloat = float32, kFloat32 = float32, kDouble = float64;
inline constexpr DType kFloat64 = float64, kInt = int32, kInt32 = int32, kLong = int64, kInt64 = int64;
inline constexpr DType kUInt8 = uint8, kBool = boolean;
inline constexpr DeviceType kCPU = DeviceType::cpu, kCUDA = DeviceType::cuda;

/// f32 unless set. Error(type) "only floating-point types are supported as the default type".
DType default_dtype();
void set_default_dtype(DType dtype);
Device default_device();
void set_default_device(Device device);

/// Uninitialised (NaN in debug builds). Error "Trying to create tensor with negative dimension -1: [-1]".
Tensor empty(const Shape& sizes, const TensorOptions& options = {});
Tensor empty_strided(const Shape& sizes, const Shape& strides, const TensorOptions& options = {});
Tensor zeros(const Shape& sizes, const TensorOptions& options = {});
Tensor ones(const Shape& sizes, const TensorOptions& options = {});
/// Without a dtype: that of the value (bool, int64, or the default float type).
Tensor full(const Shape& sizes, Scalar value, const TensorOptions& options = {});
Tensor empty_like(const Tensor& like, const TensorOptions& options = {});
Tensor zeros_like(const Tensor& like, const TensorOptions& options = {});
Tensor ones_like(const Tensor& like, const TensorOptions& options = {});
Tensor full_like(const Tensor& like, Scalar value, const TensorOptions& options = {});
/// Sizes one by one: zeros(2, 3).
template <std::integral... N>
requires(sizeof...(N) > 1) Tensor empty(N... sizes) {
  return empty(Shape{static_cast<std::int64_t>(sizes)...});
}
template <std::integral... N>
requires(sizeof...(N) > 1) Tensor zeros(N... sizes) {
  return zeros(Shape{static_cast<std::int64_t>(sizes)...});
}
template <std::integral... N>
requires(sizeof...(N) > 1) Tensor ones(N... sizes) {
  return ones(Shape{static_cast<std::int64_t>(sizes)...});
}
/// [start, end) by step; int64 when all three are integers.
Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options = {});
Tensor arange(Scalar start, Scalar end, const TensorOptions& options = {});
Tensor arange(Scalar end, const TensorOptions& options = {});
Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options = {});
/// base to the power of linspace()'s numbers. Error(runtime) "number of steps must be non-negative".
Tensor logspace(double start, double end, std::int64_t steps, double base = 10, const TensorOptions& options = {});
/// Of no dimensions, in the default float type unless a dtype is given.
Tensor scalar_tensor(Scalar value, const TensorOptions& options = {});
/// Of these sizes, with physical_layout's last dimension innermost in memory. Errors(runtime): PyTorch's texts for what
/// is no permutation.
Tensor empty_permuted(const Shape& sizes, const Shape& physical_layout, const TensorOptions& options = {});
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, const TensorOptions& options = {});

/// Nested braces: tensor({{1.0, 2.0}, {3.0, 4.0}}), tensor({1, 2}) (int64), tensor(3.5) (0-dim).
/// Error(value) "expected sequence of length 2 at dim 1 (got 1)".
class NestedValues {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> NestedValues(T value) : scalar_(value) {}  // NOLINT(google-explicit-constructor)
  NestedValues(std::initializer_list<NestedValues> items) : items_(items), is_list_(true) {}

 private:
  friend Tensor tensor(const NestedValues& values, const TensorOptions& options);
  friend struct NestedReader;
  Scalar scalar_;
  std::vector<NestedValues> items_;
  bool is_list_ = false;
};
Tensor tensor(const NestedValues& values, const TensorOptions& options = {});
inline Tensor tensor(std::initializer_list<NestedValues> values, const TensorOptions& options = {}) {
  return tensor(NestedValues(values), options);
}

/// A copy of contiguous values on the host, given dtype T; `sizes` multiply up to values.size().
template <class T>
Tensor from_values(std::span<const T> values, const Shape& sizes, const TensorOptions& options = {});
template <class T>
Tensor from_values(const std::vector<T>& values, const TensorOptions& options = {}) {
  return from_values(std::span<const T>(values), Shape{static_cast<std::int64_t>(values.size())}, options);
}
/// A copy of raw row-major bytes in any dtype. REQUIRES: bytes.size() is the tensor's size.
Tensor from_bytes(std::span<const std::byte> bytes, const Shape& sizes, DType dtype, const TensorOptions& options = {});
/// Memory of the caller, not copied (torch.from_blob). `release(context)` runs when the last alias goes.
Tensor from_blob(void* data, const Shape& sizes, DType dtype, Device device = Device(),
                 void (*release)(void*) = nullptr, void* context = nullptr);
/// A tensor over an existing storage.
Tensor from_storage(Storage storage, DType dtype, const Shape& sizes, const Shape& strides, std::int64_t offset = 0);

template <class T>
Tensor from_values(std::span<const T> values, const Shape& sizes, const TensorOptions& options) {
  Tensor made = from_bytes(std::as_bytes(values), sizes, dtype_of<T>, {.device = options.device});
  if (options.dtype) made = made.to(*options.dtype);
  return options.requires_grad ? made.requires_grad_() : made;
}

}  // namespace core
