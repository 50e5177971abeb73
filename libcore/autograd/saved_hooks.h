#pragma once
// Saved-tensor hooks: what operations keep for backward goes through a pair of functions, so that it can be packed,
// moved or written elsewhere. As torch.autograd.graph's classes of these names.
// Thread safety: a guard acts on its thread; unpacking happens on the thread that runs backward.
// Use: core::saved_tensors_hooks guard([](const core::Tensor& t) { return t.to(core::DType::bf16); },
//                                      [](const core::Tensor& t) { return t.to(core::DType::f32); });
//      core::Tensor y = net(x);   // keeps halves

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "libcore/tensor/tensor.h"

namespace core {

namespace detail {

class CheckpointFrame;

struct SavedHooks {
  std::function<std::any(const Tensor&)> pack;
  std::function<Tensor(const std::any&)> unpack;
};

/// The innermost of this thread, or null.
extern thread_local constinit const std::shared_ptr<const SavedHooks>* current_saved_hooks;
/// What a node keeps instead of `tensor`.
Tensor pack_by_hooks(const Tensor& tensor, bool is_output);

/// Makes hooks the innermost for a scope; inside them no checkpoint around them sees what is saved.
class SavedHooksScope {
 public:
  SavedHooksScope(const SavedHooksScope&) = delete;
  SavedHooksScope& operator=(const SavedHooksScope&) = delete;

 protected:
  explicit SavedHooksScope(SavedHooks hooks);
  ~SavedHooksScope();

 private:
  std::shared_ptr<const SavedHooks> hooks_;
  const std::shared_ptr<const SavedHooks>* previous_;
  CheckpointFrame* frame_;
};

}  // namespace detail

/// `pack` is given each tensor that is saved and may give anything that can be copied; `unpack` is given that back when
/// backward needs the tensor. Neither records history. The gradient is that of the tensor which unpack gives; changes
/// in place are not noticed. An output of an operation comes to `pack` without its history.
/// Error(runtime) "A saved tensor pack hook is modifying its input in place. ...".
class saved_tensors_hooks : detail::SavedHooksScope {  // NOLINT(readability-identifier-naming): PyTorch's name
 public:
  template <class Pack, class Unpack>
  saved_tensors_hooks(Pack pack, Unpack unpack)
      : SavedHooksScope({[pack = std::move(pack)](const Tensor& t) -> std::any { return pack(t); },
                         [unpack = std::move(unpack)](const std::any& packed) -> Tensor {
                           using Packed = std::decay_t<std::invoke_result_t<const Pack&, const Tensor&>>;
                           return unpack(std::any_cast<const Packed&>(packed));
                         }}) {}
};

/// What is saved waits in host memory until backward needs it.
class save_on_cpu : detail::SavedHooksScope {  // NOLINT(readability-identifier-naming): PyTorch's name
 public:
  /// `pin_memory`: in memory that devices copy from without staging.
  explicit save_on_cpu(bool pin_memory = false);
};

/// Hooks are refused in this scope: Error(runtime) with this text from their guards.
class disable_saved_tensors_hooks {  // NOLINT(readability-identifier-naming): PyTorch's name
 public:
  explicit disable_saved_tensors_hooks(std::string message);
  ~disable_saved_tensors_hooks();
  disable_saved_tensors_hooks(const disable_saved_tensors_hooks&) = delete;
  disable_saved_tensors_hooks& operator=(const disable_saved_tensors_hooks&) = delete;

 private:
  std::string message_;
  const std::string* previous_;
};

}  // namespace core
