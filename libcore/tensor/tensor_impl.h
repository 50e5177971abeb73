#pragma once
// TensorImpl: what a Tensor handle points to. Users never touch it; operations, autograd and modules do.
// Thread safety: as Tensor. Use: x.impl()->sizes;

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/storage.h"

namespace core {

/// What autograd hangs onto a tensor (gradient, node, view base). The tensor layer only knows how to end it.
class AutogradMetaBase {
 public:
  AutogradMetaBase() = default;
  AutogradMetaBase(const AutogradMetaBase&) = delete;
  AutogradMetaBase& operator=(const AutogradMetaBase&) = delete;
  virtual ~AutogradMetaBase() = default;
};

/// A version counter of its own, for tensors that must not share the storage's (`x.data`, set_data).
struct VersionCounter : RefCounted {
  std::atomic<std::uint32_t> value{0};
};

/// Set by autograd's inference mode: tensors made meanwhile say is_inference().
extern thread_local constinit bool making_inference_tensors;

/// Where a view came from, when changing it in place with history would be ambiguous; bits, 0 when it would not.
struct ViewOrigin {
  static constexpr std::uint8_t kOneOfSeveral = 1;  ///< split, chunk, unbind
  static constexpr std::uint8_t kNoGrad = 2;        ///< made without history
  static constexpr std::uint8_t kInference = 4;     ///< made in inference mode, of an ordinary tensor
  static constexpr std::uint8_t kOfHistory = 8;     ///< ... while its base had history
};

struct TensorImpl : RefCounted {
  TensorImpl() = default;
  ~TensorImpl() { delete autograd.load(std::memory_order_acquire); }
  static void* operator new(std::size_t bytes);
  static void operator delete(void* block, std::size_t bytes) noexcept;

  DType dtype = DType::f32;
  bool contiguous = true;                     ///< dense row-major
  bool requires_grad = false;                 ///< a leaf that wants a gradient, or the result of a recorded operation
  bool is_view = false;                       ///< autograd knows its base
  bool inference = making_inference_tensors;  ///< made in inference mode
  bool wrapped_number = false;                ///< a C++ number in an operation: weak in type promotion
  std::uint8_t view_origin = 0;               ///< bits of ViewOrigin
  bool recomputed = false;                    ///< stands for a tensor that a checkpoint computes again
  Storage storage;
  std::int64_t offset = 0;  ///< in elements
  std::int64_t numel = 0;
  Shape sizes;
  Shape strides;                             ///< in elements
  IntrusivePtr<VersionCounter> own_version;  ///< null: the storage's
  /// Owned; null until something is recorded. Atomic, because threads may record operations on one leaf.
  std::atomic<AutogradMetaBase*> autograd{nullptr};

  std::uint32_t version() const {
    return own_version ? own_version->value.load(std::memory_order_relaxed) : storage->version();
  }
  void bump_version() {
    storage->bump_writes();
    if (own_version) {
      detail::count_up(own_version->value);
    } else {
      storage->bump_version();
    }
  }
};

namespace detail {
/// Error(runtime) "Expected a proper Tensor but got None (or an undefined Tensor in C++)".
[[noreturn]] void throw_undefined_tensor();
}  // namespace detail

/// A pointer to a tensor's parts that is null for an undefined tensor, and says so where it is followed.
class TensorImplRef {
 public:
  explicit TensorImplRef(TensorImpl* impl) : impl_(impl) {}
  operator TensorImpl*() const { return impl_; }  // NOLINT(google-explicit-constructor): stands for the pointer
  TensorImpl* operator->() const {
    if (impl_ == nullptr) [[unlikely]]
      detail::throw_undefined_tensor();
    return impl_;
  }

 private:
  TensorImpl* impl_;
};

}  // namespace core
