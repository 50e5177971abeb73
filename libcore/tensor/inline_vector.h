#pragma once
// A vector whose first N elements live in the object itself, so that the short lists of the hot path allocate nothing.
// Thread safety: plain value. Use: core::InlineVector<core::Tensor, 4> grads; grads.push_back(x);

#include <cstddef>
#include <initializer_list>
#include <new>
#include <span>
#include <utility>

namespace core {

template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  explicit InlineVector(std::size_t count) { resize(count); }
  InlineVector(std::initializer_list<T> items) {
    reserve(items.size());
    for (const T& item : items) push_back(item);
  }
  InlineVector(const InlineVector& other) {
    reserve(other.size_);
    for (const T& item : other) push_back(item);
  }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(InlineVector other) noexcept {
    clear_all();
    take(other);
    return *this;
  }
  ~InlineVector() { clear_all(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return items_; }
  const T* data() const { return items_; }
  T* begin() { return items_; }
  T* end() { return items_ + size_; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }
  T& front() { return items_[0]; }
  const T& front() const { return items_[0]; }
  T& back() { return items_[size_ - 1]; }
  const T& back() const { return items_[size_ - 1]; }
  std::span<const T> span() const { return {items_, size_}; }

  void push_back(T item) {
    if (size_ == capacity_) reserve(capacity_ * 2);
    new (items_ + size_) T(std::move(item));
    ++size_;
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) reserve(capacity_ * 2);
    return *new (items_ + size_++) T(std::forward<Args>(args)...);
  }
  void pop_back() { items_[--size_].~T(); }
  void resize(std::size_t count) {
    reserve(count);
    while (size_ > count) pop_back();
    for (; size_ < count; ++size_) new (items_ + size_) T();
  }
  void clear() {
    while (size_ > 0) pop_back();
  }
  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    T* bigger = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t(alignof(T))));
    for (std::size_t i = 0; i < size_; ++i) {
      new (bigger + i) T(std::move(items_[i]));
      items_[i].~T();
    }
    free_heap();
    items_ = bigger;
    capacity_ = capacity;
  }

 private:
  T* local() { return std::launder(reinterpret_cast<T*>(bytes_)); }
  void free_heap() {
    if (items_ != local()) ::operator delete(items_, std::align_val_t(alignof(T)));
  }
  void clear_all() {
    clear();
    free_heap();
    items_ = local();
    capacity_ = N;
  }
  void take(InlineVector& other) noexcept {
    if (other.items_ != other.local()) {
      items_ = std::exchange(other.items_, other.local());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
      return;
    }
    for (T& item : other) new (items_ + size_++) T(std::move(item));
    other.clear();
  }

  alignas(T) std::byte bytes_[N * sizeof(T)];
  T* items_ = local();
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace core
