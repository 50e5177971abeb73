#pragma once
// Datasets made of others: ConcatDataset (one after the other), StackDataset (side by side). As torch.utils.data's.
// Thread safety: as the parts. Use: core::ConcatDataset all(train, extra); core::StackDataset pairs(train, extra);

#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/data/dataset.h"

namespace core {

namespace detail {
/// The part that holds sample `index`, where part i ends before ends[i].
std::size_t concat_part(const std::vector<std::int64_t>& ends, std::int64_t index);
/// Error(value) "absolute value of index should not exceed dataset length".
std::int64_t concat_position(std::int64_t index, std::int64_t size);
/// Error(assertion) "datasets should not be an empty iterable".
std::vector<std::int64_t> running_sums(const std::vector<std::int64_t>& sizes);

/// A dataset of any type behind the interface of those chosen at run time.
template <DatasetLike D>
class ErasedDataset final : public Dataset<SampleOf<D>> {
 public:
  explicit ErasedDataset(std::shared_ptr<const D> data) : data_(std::move(data)) {}
  std::int64_t size() const override { return data_->size(); }
  SampleOf<D> get(std::int64_t index) const override { return data_->get(index); }

 private:
  std::shared_ptr<const D> data_;
};

/// Refers to an lvalue, owns an rvalue.
template <class Given>
auto erase_dataset(Given&& data) {
  using D = std::remove_cvref_t<Given>;
  return std::make_shared<const ErasedDataset<D>>(share_dataset(std::forward<Given>(data)));
}
}  // namespace detail

/// The samples of several datasets, one after the other.
template <class Sample>
class ConcatDataset {
 public:
  using Part = std::shared_ptr<const Dataset<Sample>>;

  /// Error(assertion) "datasets should not be an empty iterable".
  explicit ConcatDataset(std::vector<Part> parts) : parts_(std::move(parts)), ends_(sums(parts_)) {}
  /// Refers to datasets that are lvalues, owns those that are rvalues.
  template <class First, class... Rest>
  requires(DatasetLike<std::remove_cvref_t<First>>) explicit ConcatDataset(First&& first, Rest&&... rest)
      : ConcatDataset(std::vector<Part>{detail::erase_dataset(std::forward<First>(first)),
                                        detail::erase_dataset(std::forward<Rest>(rest))...}) {}

  std::int64_t size() const { return ends_.back(); }
  /// Negative indices count from the end. Error(value) "absolute value of index should not exceed dataset length";
  /// Error(index) "list index out of range".
  Sample get(std::int64_t index) const {
    const std::int64_t at = detail::concat_position(index, size());
    const std::size_t part = detail::concat_part(ends_, at);
    if (part == parts_.size()) throw Error(ErrorCode::index, "list index out of range");
    return parts_[part]->get(part == 0 ? at : at - ends_[part - 1]);
  }
  const std::vector<std::int64_t>& cumulative_sizes() const { return ends_; }

 private:
  static std::vector<std::int64_t> sums(const std::vector<Part>& parts) {
    std::vector<std::int64_t> sizes;
    for (const Part& part : parts) sizes.push_back(part->size());
    return detail::running_sums(sizes);
  }

  std::vector<Part> parts_;
  std::vector<std::int64_t> ends_;
};
template <class First, class... Rest>
ConcatDataset(First&&, Rest&&...) -> ConcatDataset<SampleOf<std::remove_cvref_t<First>>>;

/// Sample i is a tuple of sample i of every dataset.
template <DatasetLike... D>
class StackDataset {
 public:
  /// Refers to lvalues, owns rvalues. Error(value) "Size mismatch between datasets". Not a requires-clause: clang 14
  /// takes no notice of one where it deduces D, and would find no D at all in this constructor.
  template <class... Given, std::enable_if_t<sizeof...(Given) == sizeof...(D) && (sizeof...(D) > 0), int> = 0>
  explicit StackDataset(Given&&... data) : parts_(detail::share_dataset(std::forward<Given>(data))...) {
    const bool fits = std::apply([&](const auto&... part) { return ((part->size() == size()) && ...); }, parts_);
    if (!fits) throw Error(ErrorCode::value, "Size mismatch between datasets");
  }
  std::int64_t size() const { return std::get<0>(parts_)->size(); }
  auto get(std::int64_t index) const {
    return std::apply([&](const auto&... part) { return std::make_tuple(part->get(index)...); }, parts_);
  }

 private:
  std::tuple<std::shared_ptr<const D>...> parts_;
};
template <class... Given>
StackDataset(Given&&...) -> StackDataset<std::remove_cvref_t<Given>...>;

}  // namespace core
