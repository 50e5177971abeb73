#pragma once
// Iterable datasets: data that comes as a stream, without a length or an order to choose. Any type with
// `SampleStream<T> start() const` is one. Each worker of a loader reads a stream of its own: share the work by
// worker_info(). Thread safety: start() is called from worker threads at once, so it must only read.
// Use: struct Lines { core::SampleStream<std::string> start() const; }; core::DataLoader loader(Lines{}, {.batch_size =
// 8});

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/data/dataset.h"

namespace core {

/// Gives the next sample, none at the end.
template <class Sample>
using SampleStream = std::function<std::optional<Sample>()>;

template <class D>
concept IterableDatasetLike = !DatasetLike<D> && requires(const D& data) {
  {*data.start()()};
};

template <IterableDatasetLike D>
using StreamedOf = std::decay_t<decltype(*std::declval<const D&>().start()())>;

/// Base of an iterable dataset that is chosen at run time.
template <class Sample>
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  virtual SampleStream<Sample> start() const = 0;
};

namespace detail {
template <IterableDatasetLike D>
class ErasedIterable final : public IterableDataset<StreamedOf<D>> {
 public:
  explicit ErasedIterable(std::shared_ptr<const D> data) : data_(std::move(data)) {}
  SampleStream<StreamedOf<D>> start() const override { return data_->start(); }

 private:
  std::shared_ptr<const D> data_;
};
template <class Given>
auto erase_iterable(Given&& data) {
  return std::make_shared<const ErasedIterable<std::remove_cvref_t<Given>>>(share_dataset(std::forward<Given>(data)));
}
}  // namespace detail

/// Several streams, one after the other; each is started when the one before has ended.
template <class Sample>
class ChainDataset {
 public:
  using Part = std::shared_ptr<const IterableDataset<Sample>>;

  explicit ChainDataset(std::vector<Part> parts) : parts_(std::move(parts)) {}
  /// Refers to datasets that are lvalues, owns those that are rvalues.
  template <class First, class... Rest>
  requires(IterableDatasetLike<std::remove_cvref_t<First>>) explicit ChainDataset(First&& first, Rest&&... rest)
      : parts_{detail::erase_iterable(std::forward<First>(first)),
               detail::erase_iterable(std::forward<Rest>(rest))...} {}

  SampleStream<Sample> start() const {
    return [parts = parts_, at = std::size_t{0}, stream = SampleStream<Sample>()]() mutable -> std::optional<Sample> {
      while (stream || at < parts.size()) {
        if (!stream) stream = parts[at++]->start();
        if (auto sample = stream()) return sample;
        stream = nullptr;
      }
      return std::nullopt;
    };
  }

 private:
  std::vector<Part> parts_;
};
template <class First, class... Rest>
ChainDataset(First&&, Rest&&...) -> ChainDataset<StreamedOf<std::remove_cvref_t<First>>>;

}  // namespace core
