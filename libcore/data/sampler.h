#pragma once
// Samplers: in which order a dataset is read. The orders, and what they draw from which generator, are PyTorch's.
// Thread safety: none; a loader asks its sampler from one thread.
// Use: auto sampler = std::make_shared<core::WeightedRandomSampler>(std::vector{0.1, 0.9}, 100); core::DataLoader
// loader(data, {.sampler = sampler});

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/tensor/generator.h"

namespace core {

/// Gives the next item of one epoch, none at its end. Draws happen when a number is needed, not earlier. Made of any
/// function that gives one index a call, or of one that gives many.
class IndexStream {
 public:
  template <class Next>
  requires std::is_invocable_r_v<std::optional<std::int64_t>, Next&> IndexStream(Next next) : next_(std::move(next)) {}
  /// The indices that `refill` gives, until it gives none.
  static IndexStream of_chunks(std::function<std::vector<std::int64_t>()> refill) {
    return IndexStream(nullptr, std::move(refill));
  }

  std::optional<std::int64_t> operator()() {
    if (at_ != chunk_.size()) return chunk_[at_++];
    if (next_) return next_();
    chunk_ = refill_();
    at_ = 0;
    if (chunk_.empty()) return std::nullopt;
    return chunk_[at_++];
  }

 private:
  IndexStream(std::nullptr_t, std::function<std::vector<std::int64_t>()> refill) : refill_(std::move(refill)) {}

  std::function<std::optional<std::int64_t>()> next_;
  std::function<std::vector<std::int64_t>()> refill_;
  std::vector<std::int64_t> chunk_;
  std::size_t at_ = 0;
};
using BatchStream = std::function<std::optional<std::vector<std::int64_t>>()>;

class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Indices an epoch gives.
  virtual std::int64_t size() const = 0;
  /// Begins an epoch. The stream must not outlive the sampler.
  virtual IndexStream start() = 0;
  /// One whole epoch.
  std::vector<std::int64_t> epoch();
};

/// 0, 1, 2, ...
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  IndexStream start() override;

 private:
  std::int64_t size_;
};

struct RandomSamplerOptions {
  bool replacement = false;
  std::optional<std::int64_t> num_samples = {};  ///< the dataset's size
  std::optional<Generator> generator = {};       ///< none: a new one each epoch, seeded from the default generator
};

class RandomSampler : public Sampler {
 public:
  /// Error(value) "num_samples should be a positive integer value, but got num_samples=0".
  explicit RandomSampler(std::int64_t size, RandomSamplerOptions options = {});
  std::int64_t size() const override { return num_samples_; }
  IndexStream start() override;

 private:
  std::int64_t dataset_size_;
  std::int64_t num_samples_;
  RandomSamplerOptions options_;
};

/// The given indices in random order.
class SubsetRandomSampler : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<std::int64_t> indices, std::optional<Generator> generator = {});
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  IndexStream start() override;

 private:
  std::vector<std::int64_t> indices_;
  std::optional<Generator> generator_;
};

struct WeightedSamplerOptions {
  bool replacement = true;
  std::optional<Generator> generator = {};
};

/// Index i with a probability in proportion to weights[i].
class WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples, WeightedSamplerOptions options = {});
  std::int64_t size() const override { return num_samples_; }
  IndexStream start() override;

 private:
  std::vector<double> weights_;
  std::int64_t num_samples_;
  WeightedSamplerOptions options_;
};

struct DistributedSamplerOptions {
  std::optional<std::int64_t> num_replicas = {};  ///< how many processes share the dataset; those of the default group
  std::optional<std::int64_t> rank = {};          ///< which of them this is
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;
};

/// The share of one of several processes; all shares have one size. Call set_epoch() before each epoch, else the order
/// repeats.
class DistributedSampler : public Sampler {
 public:
  /// Error(value) "Invalid rank 2, rank should be in the interval [0, 1]"; "Default process group has not been
  /// initialized, ..." when one of the two is not given and there is no group to ask.
  explicit DistributedSampler(std::int64_t size, DistributedSamplerOptions options = {});
  std::int64_t size() const override { return num_samples_; }
  std::int64_t total_size() const { return num_samples_ * replicas_; }
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }
  IndexStream start() override;

 private:
  std::int64_t dataset_size_;
  std::int64_t replicas_;
  std::int64_t rank_;
  std::int64_t num_samples_;
  std::int64_t epoch_ = 0;
  DistributedSamplerOptions options_;
};

/// Whole batches of indices.
class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  /// Batches an epoch gives.
  virtual std::int64_t size() const = 0;
  virtual BatchStream start() = 0;
};

/// `batch_size` numbers of a sampler at a time.
class FixedBatchSampler : public BatchSampler {
 public:
  struct Options {
    std::int64_t batch_size = 1;
    bool drop_last = false;  ///< leaves out a last batch that is not full
  };
  /// Error(value) "batch_size should be a positive integer value, but got batch_size=0".
  FixedBatchSampler(std::shared_ptr<Sampler> sampler, Options options);
  std::int64_t size() const override;
  BatchStream start() override;

 private:
  std::shared_ptr<Sampler> sampler_;
  Options options_;
};

/// The parts that random_split makes of 0 .. size-1. Lengths add up to `size`, or are fractions that add up to 1.
/// Error(value) "Sum of input lengths does not equal the length of the input dataset!".
std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size, const std::vector<double>& lengths,
                                                     const std::optional<Generator>& generator = {});

}  // namespace core
