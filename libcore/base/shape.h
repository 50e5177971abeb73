#pragma once
// Shape: a short list of 64-bit integers (sizes, strides or indices of dimensions). Up to six live inside the object,
// so that small tensors allocate nothing for them.
// Thread safety: plain value. Use: core::Shape s{30, 5}; std::cout << s;  // torch.Size([30, 5])

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace core {

class Shape {
 public:
  using value_type = std::int64_t;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) {
    if (sizes.size() > kInline) reserve(sizes.size());
    std::int64_t* to = data();
    for (std::int64_t size : sizes) to[size_++] = size;
  }
  /// One number stands for a list of one, as in `x.sum(1)` and `Conv1d(1, 2, 3)`.
  template <std::integral T>
  requires(!std::same_as<T, bool>) Shape(T size) : size_(1) {  // NOLINT(google-explicit-constructor)
    inline_[0] = static_cast<std::int64_t>(size);
  }
  Shape(const std::vector<std::int64_t>& sizes) : Shape(std::span(sizes)) {}
  explicit Shape(std::span<const std::int64_t> sizes);
  Shape(std::size_t count, std::int64_t value);
  Shape(const Shape& other) { *this = other; }
  Shape(Shape&& other) noexcept : size_(other.size_), capacity_(other.capacity_), heap_(std::move(other.heap_)) {
    for (std::size_t i = 0; i < kInline; ++i) inline_[i] = other.inline_[i];
    other.size_ = 0;
    other.capacity_ = kInline;
  }
  Shape& operator=(const Shape& other) {
    if (heap_ || other.heap_) return assign(other);
    size_ = other.size_;
    for (std::size_t i = 0; i < kInline; ++i) inline_[i] = other.inline_[i];
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept;
  ~Shape() = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t* data() { return heap_ ? heap_.get() : inline_; }
  const std::int64_t* data() const { return heap_ ? heap_.get() : inline_; }
  std::int64_t* begin() { return data(); }
  std::int64_t* end() { return data() + size_; }
  const std::int64_t* begin() const { return data(); }
  const std::int64_t* end() const { return data() + size_; }
  std::int64_t& operator[](std::size_t i) { return data()[i]; }
  std::int64_t operator[](std::size_t i) const { return data()[i]; }
  std::int64_t front() const { return data()[0]; }
  std::int64_t back() const { return data()[size_ - 1]; }
  std::span<const std::int64_t> span() const { return {data(), size_}; }
  std::vector<std::int64_t> to_vector() const { return {begin(), end()}; }

  void push_back(std::int64_t value) {
    if (size_ == capacity_) reserve(static_cast<std::size_t>(capacity_) * 2);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void insert(std::size_t at, std::int64_t value);
  void erase(std::size_t at);
  void resize(std::size_t size, std::int64_t value = 0);
  void reserve(std::size_t capacity);

  /// Product of all sizes, 1 when empty. REQUIRES: the product fits (see try_numel for sizes from a file).
  std::int64_t numel() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.size_ != b.size_) return false;
    const std::int64_t *x = a.data(), *y = b.data();
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (x[i] != y[i]) return false;
    }
    return true;
  }

 private:
  Shape& assign(const Shape& other);

  static constexpr std::size_t kInline = 6;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = kInline;
  std::int64_t inline_[kInline] = {};
  std::unique_ptr<std::int64_t[]> heap_;
};

/// Product of all sizes, or nullopt when one is negative or the product overflows (a zero anywhere does not hide that).
std::optional<std::uint64_t> try_numel(std::span<const std::int64_t> sizes);

/// Strides in elements of a dense row-major tensor; a dimension of 0 counts as 1, as PyTorch does.
Shape contiguous_strides(const Shape& sizes);

/// "[30, 5]".
std::string to_list(const Shape& shape);
/// "torch.Size([30, 5])".
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace core
