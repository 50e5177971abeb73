#pragma once
// DataLoader: batches of a dataset, in PyTorch's orders and with PyTorch's use of random numbers.
// Thread safety: one thread iterates; worker threads only call the dataset's get() or start().
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
#include "libcore/data/detail/worker_pool.h"
#include "libcore/data/iterable.h"
#include "libcore/data/loader_options.h"
#include "libcore/data/pin_memory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/random_fill.h"
#include "libcore/tensor/untracked_views.h"

namespace core {

/// Makes a batch of samples by default_collate, or asks the dataset for the whole batch where it can.
struct DefaultCollate {
  template <class Sample>
  BatchOf<Sample> operator()(const std::vector<Sample>& samples) const {
    return default_collate(samples);
  }
};

/// In place of a collate function: no batches, the samples as they are (PyTorch's batch_size=None).
struct NoBatching {
  template <class Sample>
  Sample operator()(const std::vector<Sample>& samples) const {
    return samples.front();
  }
};

namespace detail {

/// The samples of a batch, and from batch to batch those whose views serve again.
template <class D>
struct SampleList {
  using Sample = SampleOf<D>;
  std::vector<Sample> samples;
  SpareViews spare;

  void read(const D& data, const std::vector<std::int64_t>& indices) {
    samples.reserve(indices.size());
    if (samples.size() > indices.size()) samples.erase(samples.begin() + indices.size(), samples.end());
    const std::size_t old = samples.size();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if constexpr (kHasViews<Sample>) {
        if (i < old) {
          spare.offer(samples[i]);
          samples[i] = data.get(indices[i]);
          continue;
        }
        spare.offer_nothing();
      }
      samples.push_back(data.get(indices[i]));
    }
    spare.offer_nothing();
  }
  void let_go() {
    if constexpr (kHasViews<Sample>) {
      SpareViews::let_go(samples);
    } else {
      samples.clear();
    }
  }
};

/// How a dataset with indices makes a batch. `list` goes from batch to batch.
template <class D, class CollateFn>
struct Fetcher {
  static auto fetch(const D& data, const CollateFn& collate, const std::vector<std::int64_t>& indices,
                    SampleList<D>& list) {
    if constexpr (std::same_as<CollateFn, NoBatching>) {
      return data.get(indices.front());
    } else if constexpr (!std::same_as<CollateFn, DefaultCollate>) {
      std::vector<SampleOf<D>> samples;
      samples.reserve(indices.size());
      for (std::int64_t index : indices) samples.push_back(data.get(index));
      return collate(samples);
    } else if constexpr (BatchedDataset<D>) {
      return data.get_batch(indices);
    } else {
      {
        // Samples that are only copied into the batch need no history of their own.
        const UntrackedViews scope(&list.spare);
        list.read(data, indices);
      }
      auto batch = collate(list.samples);
      list.let_go();
      return batch;
    }
  }
  using Batch =
      decltype(fetch(std::declval<const D&>(), std::declval<const CollateFn&>(), {}, std::declval<SampleList<D>&>()));

  static auto make(std::shared_ptr<const D> data, CollateFn collate, const DataLoaderOptions&) {
    return [data, collate, list = SampleList<D>()](const std::vector<std::int64_t>& indices) mutable {
      return std::optional<Batch>(fetch(*data, collate, indices, list));
    };
  }
};

/// How a stream makes a batch: as many samples as there are places.
template <IterableDatasetLike D, class CollateFn>
struct Fetcher<D, CollateFn> {
  using Batch = decltype(std::declval<const CollateFn&>()(std::declval<const std::vector<StreamedOf<D>>&>()));

  static auto make(std::shared_ptr<const D> data, CollateFn collate, const DataLoaderOptions& options) {
    return [data, collate, stream = data->start(), drop_last = options.drop_last,
            ended = false](const std::vector<std::int64_t>& places) mutable -> std::optional<Batch> {
      std::vector<StreamedOf<D>> samples;
      while (!ended && samples.size() < places.size()) {
        auto sample = stream();
        if (sample) samples.push_back(std::move(*sample));
        ended = !sample;
      }
      if (samples.empty() || (drop_last && samples.size() < places.size())) return std::nullopt;
      return collate(samples);
    };
  }
};

/// The workers that stay from epoch to epoch. Not copied with the loader: each has its own.
template <class Pool>
struct KeptWorkers {
  std::shared_ptr<Pool> pool;
  KeptWorkers() = default;
  KeptWorkers(const KeptWorkers&) {}
  KeptWorkers& operator=(const KeptWorkers&) { return *this; }
  KeptWorkers(KeptWorkers&&) noexcept = default;
  KeptWorkers& operator=(KeptWorkers&&) noexcept = default;
  ~KeptWorkers() = default;
};

}  // namespace detail

template <class D, class CollateFn = DefaultCollate>
requires(DatasetLike<D> || IterableDatasetLike<D>) class DataLoader {
  using Fetcher = detail::Fetcher<D, CollateFn>;
  static constexpr bool kIterable = IterableDatasetLike<D>;
  static constexpr bool kBatches = !std::same_as<CollateFn, NoBatching>;

 public:
  using Batch = typename Fetcher::Batch;

  /// Refers to a dataset that is an lvalue, owns one that is an rvalue. `collate` takes a vector of samples; it runs in
  /// the workers. Errors: Error(value) with PyTorch's texts.
  template <class Given>
  requires std::same_as<std::remove_cvref_t<Given>, D>
  explicit DataLoader(Given&& data, DataLoaderOptions options = {}, CollateFn collate = {})
      : data_(detail::share_dataset(std::forward<Given>(data))),
        options_(std::move(options)),
        collate_(std::move(collate)) {
    if constexpr (!kBatches) options_.batch_size = 1;
    detail::check_loader_options(options_, {.is_stream = kIterable, .in_batches = kBatches});
    if constexpr (kIterable) {
      detail::endless_batches(options_.batch_size);
    } else {
      batch_sampler_ = detail::make_batch_sampler(options_, data_->size());
    }
  }

  /// Batches an epoch has.
  std::int64_t size() const requires(!kIterable) { return batch_sampler_->size(); }
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

  /// Starts an epoch: draws its seed, then its order, and makes the first batch (or lets the workers). With persistent
  /// workers the seed is drawn once, and an epoch that is still under way ends.
  Iterator begin() const {
    BatchStream batches = start_batches();
    if (options_.num_workers == 0) {
      draw_base_seed();
      return Iterator([batches = std::move(batches), fetch = make_fetch()()]() mutable -> std::optional<Batch> {
        const detail::AnnotationScope event(
            [] { return "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"; });
        auto indices = batches();
        return indices ? fetch(*indices) : std::nullopt;
      });
    }
    std::shared_ptr<Pool> pool = kept_.pool ? kept_.pool : make_pool();
    if (options_.persistent_workers) kept_.pool = pool;
    pool->start(std::move(batches));
    return Iterator([pool] {
      const detail::AnnotationScope event(
          [] { return "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"; });
      return pool->next();
    });
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  using Pool = detail::WorkerPool<Batch>;

  BatchStream start_batches() const {
    if constexpr (kIterable) return detail::endless_batches(options_.batch_size);
    if constexpr (!kIterable) return batch_sampler_->start();
  }

  std::int64_t draw_base_seed() const {
    return detail::draw_seed(options_.generator ? *options_.generator : default_generator());
  }

  typename Pool::MakeFetch make_fetch() const {
    return [data = data_, collate = collate_, options = options_]() -> typename Pool::Fetch {
      auto fetch = Fetcher::make(data, collate, options);
      if (!options.pin_memory) return fetch;
      return [fetch](const std::vector<std::int64_t>& indices) mutable -> std::optional<Batch> {
        auto batch = fetch(indices);
        return batch ? std::optional<Batch>(pinned(*batch)) : std::nullopt;
      };
    };
  }

  std::shared_ptr<Pool> make_pool() const {
    return std::make_shared<Pool>(detail::WorkerSettings{.count = options_.num_workers,
                                                         .prefetch = options_.prefetch_factor.value_or(2),
                                                         .base_seed = draw_base_seed(),
                                                         .timeout = options_.timeout,
                                                         .init = options_.worker_init_fn},
                                  make_fetch());
  }

  std::shared_ptr<const D> data_;
  DataLoaderOptions options_;
  CollateFn collate_;
  std::shared_ptr<BatchSampler> batch_sampler_;
  mutable detail::KeptWorkers<Pool> kept_;
};

template <class Given>
DataLoader(Given&&, DataLoaderOptions = {}) -> DataLoader<std::remove_cvref_t<Given>>;
template <class Given, class CollateFn>
DataLoader(Given&&, DataLoaderOptions, CollateFn) -> DataLoader<std::remove_cvref_t<Given>, CollateFn>;

}  // namespace core
