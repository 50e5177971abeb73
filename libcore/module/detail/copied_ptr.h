#pragma once
// A pointer, mostly null, whose copies point to copies: what few modules have and copies must not share.
// Thread safety: as std::unique_ptr. For libcore/module alone. Use: core::detail::CopiedPtr<std::vector<int>> rare;

#include <memory>

namespace core::detail {

template <class T>
class CopiedPtr {
 public:
  CopiedPtr() = default;
  CopiedPtr(const CopiedPtr& other) : held_(other.held_ ? std::make_unique<T>(*other.held_) : nullptr) {}
  CopiedPtr(CopiedPtr&&) noexcept = default;
  CopiedPtr& operator=(CopiedPtr other) noexcept {
    held_.swap(other.held_);
    return *this;
  }
  ~CopiedPtr() = default;

  explicit operator bool() const { return held_ != nullptr; }
  T& operator*() const { return *held_; }
  T* operator->() const { return held_.get(); }
  /// Made when there is none.
  T& make() {
    if (!held_) held_ = std::make_unique<T>();
    return *held_;
  }

 private:
  std::unique_ptr<T> held_;
};

}  // namespace core::detail
