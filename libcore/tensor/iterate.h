#pragma once
// A tensor as a sequence of its slices along the first dimension, as Python's len() and for loops have it.
// Thread safety: as Tensor. Use: for (const core::Tensor& row : x) std::cout << row << '\n';

#include <cstddef>
#include <iterator>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

/// Size of the first dimension. Error(type) "len() of a 0-d tensor".
std::int64_t len(const Tensor& x);

/// Holds the slices, which are views of one call of unbind().
class TensorIterator {
 public:
  using value_type = Tensor;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;

  TensorIterator() = default;
  explicit TensorIterator(std::vector<Tensor> slices) : slices_(std::move(slices)) {}

  const Tensor& operator*() const { return slices_[at_]; }
  const Tensor* operator->() const { return &slices_[at_]; }
  TensorIterator& operator++() { return ++at_, *this; }
  void operator++(int) { ++at_; }
  bool operator==(std::default_sentinel_t) const { return at_ == slices_.size(); }

 private:
  std::vector<Tensor> slices_;
  std::size_t at_ = 0;
};

/// Error(type) "iteration over a 0-d tensor".
TensorIterator begin(const Tensor& x);
inline std::default_sentinel_t end(const Tensor&) {
  return {};
}

}  // namespace core
