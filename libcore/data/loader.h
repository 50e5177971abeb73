#pragma once
// DataLoader: batches of a dataset, in PyTorch's orders and with PyTorch's use of random numbers.
// Thread safety: one thread iterates; worker threads only call the dataset's get().
// Use: for (auto& [x, y] : core::DataLoader(data, {.batch_size = 64, .shuffle = true})) ...

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/data/collate.h"
#include "libcore/data/dataset.h"
#include "libcore/data/loader_options.h"
#include "libcore/data/worker_pool.h"
#include "libcore/tensor/random_kernels.h"

namespace core {

/// Makes a batch of samples by default_collate, or asks the dataset for the whole batch where it can.
struct DefaultCollate {
  template <class Sample>
  BatchOf<Sample> operator()(const std::vector<Sample>& samples) const {
    return default_collate(samples);
  }
};

template <DatasetLike D, class CollateFn = DefaultCollate>
class DataLoader {
  static auto fetch(const D& data, const CollateFn& collate, const std::vector<std::int64_t>& indices) {
    if constexpr (BatchedDataset<D> && std::same_as<CollateFn, DefaultCollate>) {
      return data.get_batch(indices);
    } else {
      std::vector<SampleOf<D>> samples;
      samples.reserve(indices.size());
      for (std::int64_t index : indices) samples.push_back(data.get(index));
      return collate(samples);
    }
  }

 public:
  using Batch = decltype(fetch(std::declval<const D&>(), std::declval<const CollateFn&>(), {}));

  /// Refers to a dataset that is an lvalue, owns one that is an rvalue. `collate` takes a vector of samples; it runs in
  /// the workers. Errors: Error(value) with PyTorch's texts.
  template <class Given>
  requires std::same_as<std::remove_cvref_t<Given>, D>
  explicit DataLoader(Given&& data, DataLoaderOptions options = {}, CollateFn collate = {})
      : data_(detail::share_dataset(std::forward<Given>(data))),
        options_(std::move(options)),
        collate_(std::move(collate)) {
    detail::check_loader_options(options_);
    batch_sampler_ = detail::make_batch_sampler(options_, data_->size());
  }

  /// Batches an epoch has.
  std::int64_t size() const { return batch_sampler_->size(); }
  const D& dataset() const { return *data_; }
  const DataLoaderOptions& options() const { return options_; }

  /// An epoch under way. Single pass; copies share their position.
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;

    explicit Iterator(std::function<std::optional<Batch>()> next) : next_(std::move(next)) { ++*this; }
    Batch& operator*() const { return **current_; }
    Batch* operator->() const { return &**current_; }
    Iterator& operator++() {
      current_ = std::make_shared<std::optional<Batch>>(next_());
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.current_->has_value(); }

   private:
    std::function<std::optional<Batch>()> next_;
    std::shared_ptr<std::optional<Batch>> current_;
  };

  /// Starts an epoch: draws its seed, then its order, and makes the first batch (or lets the workers).
  Iterator begin() const {
    BatchStream batches = batch_sampler_->start();
    std::int64_t base_seed = detail::draw_seed(options_.generator ? *options_.generator : default_generator());
    auto make = [data = data_, collate = collate_](const std::vector<std::int64_t>& indices) {
      return fetch(*data, collate, indices);
    };
    if (options_.num_workers == 0) {
      return Iterator([batches = std::move(batches), make]() mutable -> std::optional<Batch> {
        auto indices = batches();
        if (!indices) return std::nullopt;
        return make(*indices);
      });
    }
    auto pool = std::make_shared<detail::WorkerPool<Batch>>(
        detail::WorkerSettings{.count = options_.num_workers,
                               .prefetch = options_.prefetch_factor.value_or(2),
                               .base_seed = base_seed,
                               .timeout = options_.timeout,
                               .init = options_.worker_init_fn},
        std::move(batches), make);
    return Iterator([pool] { return pool->next(); });
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<const D> data_;
  DataLoaderOptions options_;
  CollateFn collate_;
  std::shared_ptr<BatchSampler> batch_sampler_;
};

template <class Given>
DataLoader(Given&&, DataLoaderOptions = {}) -> DataLoader<std::remove_cvref_t<Given>>;
template <class Given, class CollateFn>
DataLoader(Given&&, DataLoaderOptions, CollateFn) -> DataLoader<std::remove_cvref_t<Given>, CollateFn>;

}  // namespace core
