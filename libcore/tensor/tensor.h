#pragma once
// Tensor: a cheap handle (8 bytes) on an n-dimensional array; copying it shares the array. Behaves as torch.Tensor.
// Operations as free functions are in ops.h, construction in factory.h; the methods here are the same functions.
// Thread safety: as std::shared_ptr; several threads may read one tensor. No call copies between devices unless its
// name says so (to, cpu, cuda). Errors: core::Error with PyTorch's text.
// Use: core::Tensor x = core::ones({2, 3}); core::Tensor y = (x * 2).sum(); y.item<float>() == 12;

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor_impl.h"

namespace core {

class Node;
class Tensor;
struct ValuesIndices;
class TensorIndex;
struct MinMax;
struct Frexp;
struct Unique;
struct Histogram;
struct HistogramOptions;
struct StftOptions;
struct IstftOptions;
struct Reflections;
struct SingularValues;
enum class Layout;
namespace linalg {
struct LUFactors;
struct SignAndLog;
}  // namespace linalg

/// How elements lie in memory: row-major, or with the channels (dimension 1 of 4 or 5) innermost; preserve: as they
/// are.
enum class MemoryFormat { contiguous, channels_last, channels_last_3d, preserve };

/// Arguments of Tensor::to; what is not given stays.
struct ToOptions {
  std::optional<Device> device = {};
  std::optional<DType> dtype = {};
  bool non_blocking = false;
  bool copy = false;  ///< a new tensor even when nothing changes
  std::optional<MemoryFormat> memory_format = {};
};

class Tensor {
 public:
  /// Undefined: stands for None.
  Tensor() = default;
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  /// `x = y`: x is y from now on, as in Python.
  Tensor& operator=(const Tensor& other) & = default;
  Tensor& operator=(Tensor&& other) & noexcept = default;
  /// `x[0] = y`, `x.select(0, 1) = 5`: the elements of x become those of y (which broadcasts), as copy_ and fill_ do
  /// it. Error(runtime) where nothing else shares the elements and the values would be lost: `(x + 1) = y`,
  /// `x.index({mask}) = y`.
  const Tensor& operator=(const Tensor& other) &&;
  const Tensor& operator=(Scalar value) &&;

  // --- what it is
  bool defined() const { return static_cast<bool>(impl_); }
  /// Same object (Python's `is`), not merely equal values.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  // Whatever looks into a tensor, here and below, is Error(runtime) with PyTorch's text where there is none: "Expected
  // a proper Tensor but got None (or an undefined Tensor in C++)".
  const Shape& sizes() const { return self().sizes; }
  const Shape& size() const { return self().sizes; }
  const Shape& shape() const { return self().sizes; }
  const Shape& strides() const { return self().strides; }
  /// Negative dimensions count from the end. Error(index) "Dimension out of range ...", "... tensor has no dimensions".
  std::int64_t size(std::int64_t dim) const;
  std::int64_t stride(std::int64_t dim) const;
  std::int64_t dim() const { return static_cast<std::int64_t>(self().sizes.size()); }
  std::int64_t ndim() const { return dim(); }
  std::int64_t ndimension() const { return dim(); }
  std::int64_t numel() const { return self().numel; }
  std::int64_t nelement() const { return numel(); }
  /// Bytes of one element, and of all.
  std::int64_t element_size() const { return bit_width(dtype()) / 8; }
  std::int64_t itemsize() const { return element_size(); }
  std::int64_t nbytes() const { return numel() * element_size(); }
  DType dtype() const { return self().dtype; }
  Device device() const { return self().storage.device(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_meta() const { return device().is_meta(); }
  /// Only some elements are held (sparse.h).
  bool is_sparse() const;
  int get_device() const { return device().index(); }  ///< -1 on the CPU
  bool is_contiguous() const { return self().contiguous; }
  bool is_contiguous(MemoryFormat format) const;
  bool is_floating_point() const { return is_floating(dtype()); }
  std::int64_t storage_offset() const { return self().offset; }
  const Storage& storage() const { return self().storage; }
  TensorImplRef impl() const { return TensorImplRef(impl_.get()); }

  // --- data; pointers are host pointers unless the tensor is on a real GPU
  /// First element. T must be the element type (Half, BFloat16 for the half types). Error(runtime) on a dtype mismatch.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(typed_data(dtype_of<T>));
  }
  /// As above for writing; counts as a write for caches (StorageImpl::writes), not for autograd.
  template <class T>
  T* mutable_data() const {
    self().storage->bump_writes();
    return static_cast<T*>(typed_data(dtype_of<T>));
  }
  const void* raw_data() const;
  void* mutable_raw_data() const;
  /// The only element. Errors: "a Tensor with 2 elements cannot be converted to Scalar".
  Scalar item() const;
  template <class T>
  T item() const {
    Scalar value = item();
    if constexpr (std::is_same_v<T, bool>) return value.to_bool();
    return value.is_float() ? static_cast<T>(value.to_double()) : static_cast<T>(value.to_int());
  }
  /// All elements in row-major order, converted to T. Any device.
  template <class T>
  std::vector<T> to_vector() const;
  /// Truth of a one-element tensor. Error "Boolean value of Tensor with more than one value is ambiguous".
  explicit operator bool() const;
  /// The only element, as Python's float() and int(); warns when the tensor requires a gradient.
  /// Error(value) "only one element tensors can be converted to Python scalars".
  explicit operator double() const;
  explicit operator std::int64_t() const;

  // --- autograd
  bool requires_grad() const { return self().requires_grad || (self().is_view && base_requires_grad()); }
  /// Error "Only Tensors of floating point and complex dtype can require gradients" and for non-leaves, as PyTorch.
  const Tensor& requires_grad_(bool value = true) const&;
  Tensor& requires_grad_(bool value = true) & { return std::as_const(*this).requires_grad_(value), *this; }
  Tensor requires_grad_(bool value = true) && { return std::as_const(*this).requires_grad_(value), std::move(*this); }
  bool is_leaf() const;
  /// Undefined when there is none. Reading it on a non-leaf warns as PyTorch does. Constant, so that `x.grad() = y`,
  /// which would not set it, does not compile: write x.set_grad(y), x.set_grad({}).
  const Tensor grad() const;  // NOLINT(readability-const-return-type): see above
  void set_grad(const Tensor& grad) const;
  void retain_grad() const;
  bool retains_grad() const;
  /// `hook` sees the gradient and may return another (undefined: keep). Gives a number for remove_hook.
  std::int64_t register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// `hook` sees this leaf after its grad() has been added to. Error "post accumulate grad hooks cannot be registered
  /// on non-leaf tensors".
  std::int64_t register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const;
  void remove_hook(std::int64_t id) const;
  /// The node that made it, or null. "MulBackward0" is what printing shows.
  const IntrusivePtr<Node>& grad_fn() const;
  std::string grad_fn_name() const;
  std::uint32_t output_nr() const;
  /// Gradients of this (scalar, or with the given upstream gradient) are added to the leaves' grad().
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false) const;
  /// Shares memory and version, no history.
  Tensor detach() const;
  Tensor& detach_();
  /// `.data`: shares memory, no history, own version counter.
  Tensor data_alias() const;
  Tensor data() const { return data_alias(); }
  /// `x.data = other`: this object now holds other's array (dtype, device and shape may change) and keeps identity,
  /// requires_grad, version. The way modules move and cast their parameters.
  void set_data(const Tensor& other) const;
  /// Error "Inference tensors do not track version counter."
  std::uint32_t version() const;
  bool is_inference() const { return self().inference; }

  // --- moving and casting; the same object when nothing changes
  Tensor to(const ToOptions& options) const;
  Tensor to(Device device) const;
  Tensor to(DType dtype) const;
  Tensor to(Device device, DType dtype) const;
  Tensor to(MemoryFormat format) const;
  Tensor cpu() const { return to(Device(DeviceType::cpu)); }
  Tensor cuda(std::optional<int> index = std::nullopt) const;
  Tensor to_float() const { return to(DType::f32); }
  Tensor to_double() const { return to(DType::f64); }
  Tensor to_half() const { return to(DType::f16); }
  Tensor to_bfloat16() const { return to(DType::bf16); }
  Tensor to_long() const { return to(DType::i64); }
  Tensor to_int() const { return to(DType::i32); }
  Tensor to_bool() const { return to(DType::boolean); }
  // PyTorch's names; those that C++ reserves end in _.
  Tensor float_() const { return to(DType::f32); }
  Tensor double_() const { return to(DType::f64); }
  Tensor half() const { return to(DType::f16); }
  Tensor bfloat16() const { return to(DType::bf16); }
  Tensor long_() const { return to(DType::i64); }
  Tensor int_() const { return to(DType::i32); }
  Tensor short_() const { return to(DType::i16); }
  Tensor char_() const { return to(DType::i8); }
  Tensor byte() const { return to(DType::u8); }
  Tensor bool_() const { return to(DType::boolean); }
  Tensor to(const Tensor& other) const { return to(other.device(), other.dtype()); }
  Tensor type_as(const Tensor& other) const;
  Tensor contiguous() const;
  /// Error "required rank 4 tensor to use channels_last format".
  Tensor contiguous(MemoryFormat format) const;
  Tensor clone() const;
  Tensor clone(MemoryFormat format) const;
  /// As copy.deepcopy: memory, requires_grad and grad of its own. Error for tensors with history, with PyTorch's text.
  Tensor deepcopy() const;

  // --- writing in place; each returns *this; more in the table below
  const Tensor& copy_(const Tensor& from) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& add_(Scalar other, Scalar alpha = 1) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& sub_(Scalar other, Scalar alpha = 1) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(Scalar other) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& div_(Scalar other) const;
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  const Tensor& lerp_(const Tensor& end, Scalar weight) const;
  const Tensor& clamp_(std::optional<Scalar> low, std::optional<Scalar> high = {}) const;
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  const Tensor& pow_(Scalar exponent) const;
  const Tensor& index_add_(std::int64_t dim, const Tensor& index, const Tensor& from, Scalar alpha = 1) const;
  const Tensor& scatter_(std::int64_t dim, const Tensor& index, const Tensor& from) const;
  const Tensor& scatter_(std::int64_t dim, const Tensor& index, Scalar value) const;
  const Tensor& scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& from) const;
  const Tensor& abs_() const;
  const Tensor& exp_() const;
  const Tensor& neg_() const;
  const Tensor& relu_() const;
  const Tensor& sigmoid_() const;
  const Tensor& sqrt_() const;
  const Tensor& tanh_() const;

  // --- views (share memory)
  Tensor view(const Shape& sizes) const;
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  /// A view where strides allow it, else a copy.
  Tensor reshape(const Shape& sizes) const;
  Tensor flatten(std::int64_t start = 0, std::int64_t end = -1) const;
  Tensor unflatten(std::int64_t dim, const Shape& sizes) const;
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t dim) const;
  Tensor unsqueeze(std::int64_t dim) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor t() const;
  /// All dimensions in reverse order; warns unless there are two (or one).
  Tensor T() const;
  /// The last two dimensions swapped. Error(runtime) "tensor.mT is only supported on matrices ...".
  Tensor mT() const;
  Tensor permute(const Shape& dims) const;
  Tensor movedim(std::int64_t from, std::int64_t to) const;
  Tensor expand(const Shape& sizes) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor select(std::int64_t dim, std::int64_t index) const;
  Tensor slice(std::int64_t dim, std::optional<std::int64_t> start = {}, std::optional<std::int64_t> end = {},
               std::int64_t step = 1) const;
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  Tensor diagonal(std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1) const;
  Tensor unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const;
  Tensor as_strided(const Shape& sizes, const Shape& strides, std::optional<std::int64_t> offset = {}) const;
  std::vector<Tensor> chunk(std::int64_t chunks, std::int64_t dim = 0) const;
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  std::vector<Tensor> split(const Shape& sizes, std::int64_t dim = 0) const;
  std::vector<Tensor> unbind(std::int64_t dim = 0) const;
  /// select(0, index), with the index error of `x[i]`.
  Tensor operator[](std::int64_t index) const;

  // --- arithmetic, reductions and whatever else is a function too: the table of methods.inc
#include "libcore/tensor/methods.inc"

 private:
  bool base_requires_grad() const;
  void* typed_data(DType wanted) const;
  /// The one place where a handle is followed.
  TensorImpl& self() const {
    if (!impl_) [[unlikely]]
      detail::throw_undefined_tensor();
    return *impl_;
  }
  IntrusivePtr<TensorImpl> impl_;
};

/// What an operation along one dimension finds, and where.
struct ValuesIndices {
  Tensor values;
  Tensor indices;  // int64
};

}  // namespace core
