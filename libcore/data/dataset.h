#pragma once
// Datasets: what a DataLoader reads. Any type with `size()` and `get(i) const` is one; the types here are the usual
// ones. Thread safety: get() is called from worker threads at once, so it must only read. Use: struct Squares {
// std::int64_t size() const { return 9; } core::Tensor get(std::int64_t i) const; };
//      core::TensorDataset data(images, labels); auto parts = core::random_split(data, {0.8, 0.2});

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/data/sampler.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {

template <class D>
concept DatasetLike = requires(const D& data, std::int64_t i) {
  { data.size() } -> std::convertible_to<std::int64_t>;
  data.get(i);
};

template <DatasetLike D>
using SampleOf = std::decay_t<decltype(std::declval<const D&>().get(std::int64_t{}))>;

/// A dataset that can make a whole batch at once, faster than sample by sample and with the same result.
template <class D>
concept BatchedDataset = DatasetLike<D> && requires(const D& data, std::span<const std::int64_t> indices) {
  data.get_batch(indices);
};

/// Base of a dataset that is chosen at run time.
template <class Sample>
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual Sample get(std::int64_t index) const = 0;
};

namespace detail {
/// A pointer to `data` that keeps nothing alive (an lvalue) or owns a moved copy (an rvalue).
template <class D>
std::shared_ptr<const std::remove_cvref_t<D>> share_dataset(D&& data) {
  using Type = std::remove_cvref_t<D>;
  if constexpr (std::is_lvalue_reference_v<D>) {
    return std::shared_ptr<const Type>(std::shared_ptr<const Type>(), &data);
  } else {
    return std::make_shared<const Type>(std::move(data));
  }
}
/// Error(assertion) "Size mismatch between tensors".
void check_same_length(std::span<const Tensor> tensors);
Tensor rows_of(const Tensor& tensor, std::span<const std::int64_t> indices);
/// A place in a list of `size` items; negative indices count from the end. Error(index) "list index out of range".
std::size_t list_position(std::int64_t index, std::int64_t size);
}  // namespace detail

/// The items of a vector, as a Python list is a dataset.
template <class Sample>
class ListDataset {
 public:
  explicit ListDataset(std::vector<Sample> items) : items_(std::move(items)) {}
  std::int64_t size() const { return static_cast<std::int64_t>(items_.size()); }
  /// Negative indices count from the end. Error(index) "list index out of range".
  Sample get(std::int64_t index) const { return items_[detail::list_position(index, size())]; }

 private:
  std::vector<Sample> items_;
};

/// Sample i is a tuple of row i of every tensor. Holds the tensors, copies nothing.
template <std::size_t N>
class TensorDataset {
 public:
  template <class... T>
  requires(sizeof...(T) == N && N > 0 &&
           (std::convertible_to<const T&, Tensor> && ...)) explicit TensorDataset(const T&... tensors)
      : tensors_{tensors...} {
    detail::check_same_length(tensors_);
  }

  std::int64_t size() const { return tensors_[0].size(0); }
  auto get(std::int64_t index) const {
    return apply([&](const auto&... tensor) { return std::make_tuple(tensor[index]...); });
  }
  auto get_batch(std::span<const std::int64_t> indices) const {
    return apply([&](const auto&... tensor) { return std::make_tuple(detail::rows_of(tensor, indices)...); });
  }
  const std::array<Tensor, N>& tensors() const { return tensors_; }

 private:
  template <class F>
  auto apply(F function) const {
    return std::apply(function, tensors_);
  }
  std::array<Tensor, N> tensors_;
};
template <class... T>
TensorDataset(const T&...) -> TensorDataset<sizeof...(T)>;

/// The samples of another dataset at some indices.
template <DatasetLike D>
class Subset {
 public:
  Subset(std::shared_ptr<const D> data, std::vector<std::int64_t> indices)
      : data_(std::move(data)), indices_(std::move(indices)) {}
  /// Refers to an lvalue, owns an rvalue.
  template <class Given>
  requires std::same_as<std::remove_cvref_t<Given>, D> Subset(Given&& data, std::vector<std::int64_t> indices)
      : Subset(detail::share_dataset(std::forward<Given>(data)), std::move(indices)) {}

  std::int64_t size() const { return static_cast<std::int64_t>(indices_.size()); }
  /// Negative indices count from the end. Error(index) "list index out of range".
  auto get(std::int64_t index) const { return data_->get(indices_[detail::list_position(index, size())]); }
  auto get_batch(std::span<const std::int64_t> indices) const requires BatchedDataset<D> {
    std::vector<std::int64_t> mapped;
    for (std::int64_t index : indices) mapped.push_back(indices_[detail::list_position(index, size())]);
    return data_->get_batch(mapped);
  }
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  std::shared_ptr<const D> data_;
  std::vector<std::int64_t> indices_;
};
template <class Given>
Subset(Given&&, std::vector<std::int64_t>) -> Subset<std::remove_cvref_t<Given>>;

/// Non-overlapping random parts; `lengths` add up to the size, or are fractions that add up to 1.
/// Error(value) "Sum of input lengths does not equal the length of the input dataset!".
template <class Given>
auto random_split(Given&& data, const std::vector<double>& lengths, const std::optional<Generator>& generator = {}) {
  using D = std::remove_cvref_t<Given>;
  std::int64_t size = data.size();
  std::shared_ptr<const D> shared = detail::share_dataset(std::forward<Given>(data));
  std::vector<Subset<D>> parts;
  for (auto& indices : split_indices(size, lengths, generator)) parts.emplace_back(shared, std::move(indices));
  return parts;
}

}  // namespace core
