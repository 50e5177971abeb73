#pragma once
// What stands in the place of a module's parameters that are computed from others (parametrize.h). A module owns it;
// copies of the module get one of their own over the same tensors. Internal to libcore/module.
// Thread safety: as Module. Use: core::detail::ReparametrizedPtr held; if (held) held.reset();

#include <utility>

namespace core {

class Members;
class Module;

namespace detail {

struct Reparametrized;

/// Null for nearly every module.
class ReparametrizedPtr {
 public:
  ReparametrizedPtr() = default;
  ReparametrizedPtr(const ReparametrizedPtr& other);
  ReparametrizedPtr(ReparametrizedPtr&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  ReparametrizedPtr& operator=(ReparametrizedPtr other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~ReparametrizedPtr() {
    if (held_ != nullptr) reset();
  }
  explicit operator bool() const { return held_ != nullptr; }
  Reparametrized& operator*() const { return *held_; }
  Reparametrized* operator->() const { return held_; }
  /// Made when there is none.
  Reparametrized& make();
  void reset();

 private:
  Reparametrized* held_ = nullptr;
};

/// Computes the parameters again, for the call that follows.
void recompute(Module& module);
/// Puts what parameters are computed from into the list in their place.
void replace_members(Members& list, Module& module);

}  // namespace detail
}  // namespace core
