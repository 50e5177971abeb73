#include "libcore/base/shape.h"

#include <algorithm>
#include <ostream>

#include "libcore/base/checked_math.h"

namespace core {

Shape::Shape(std::span<const std::int64_t> sizes) {
  reserve(sizes.size());
  std::copy(sizes.begin(), sizes.end(), data());
  size_ = static_cast<std::uint32_t>(sizes.size());
}

Shape::Shape(std::size_t count, std::int64_t value) {
  resize(count, value);
}

Shape& Shape::assign(const Shape& other) {
  if (this == &other) return *this;
  size_ = 0;
  reserve(other.size_);
  std::copy(other.begin(), other.end(), data());
  size_ = other.size_;
  return *this;
}

Shape& Shape::operator=(Shape&& other) noexcept {
  if (this == &other) return *this;
  size_ = other.size_;
  capacity_ = other.capacity_;
  heap_ = std::move(other.heap_);
  std::copy(std::begin(other.inline_), std::end(other.inline_), inline_);
  other.size_ = 0;
  other.capacity_ = kInline;
  return *this;
}

void Shape::reserve(std::size_t capacity) {
  if (capacity <= capacity_) return;
  auto bigger = std::make_unique<std::int64_t[]>(capacity);
  std::copy(begin(), end(), bigger.get());
  heap_ = std::move(bigger);
  capacity_ = static_cast<std::uint32_t>(capacity);
}

void Shape::insert(std::size_t at, std::int64_t value) {
  push_back(value);
  std::rotate(begin() + at, end() - 1, end());
}

void Shape::erase(std::size_t at) {
  std::copy(begin() + at + 1, end(), begin() + at);
  --size_;
}

void Shape::resize(std::size_t size, std::int64_t value) {
  reserve(size);
  for (std::size_t i = size_; i < size; ++i) data()[i] = value;
  size_ = static_cast<std::uint32_t>(size);
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (std::int64_t size : *this) product *= size;
  return product;
}

std::optional<std::uint64_t> try_numel(std::span<const std::int64_t> sizes) {
  std::uint64_t product = 1;
  bool has_zero = false;
  for (std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      has_zero = true;
      continue;
    }
    auto next = try_mul(product, static_cast<std::uint64_t>(size));
    if (!next) return std::nullopt;
    product = *next;
  }
  return has_zero ? 0 : product;
}

Shape contiguous_strides(const Shape& sizes) {
  Shape strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
  return strides;
}

std::string to_list(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << "torch.Size(" << to_list(shape) << ")";
}

}  // namespace core
