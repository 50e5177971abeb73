#include "libcore/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "libcore/backend/random_table.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/data/process_share.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/random_fill.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

std::vector<std::int64_t> permutation(const Generator& generator, std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  detail::fill_buffer(generator, {order.data(), DType::i64, n}, {RandomOp::permutation});
  return order;
}

/// A stream whose values are made at the first call.
template <class Make>
IndexStream lazy(Make make) {
  return IndexStream::of_chunks(
      [make, done = false]() mutable { return std::exchange(done, true) ? std::vector<std::int64_t>() : make(); });
}

/// An epoch's own generator unless the sampler was given one.
Generator epoch_generator(const std::optional<Generator>& given) {
  if (given) return *given;
  Generator generator;
  generator.manual_seed(detail::draw_seed(default_generator()));
  return generator;
}

/// Random permutations of 0 .. n-1 until `wanted` numbers are out. The last one is drawn even when nothing of it is
/// needed.
struct Permutations {
  std::int64_t n;
  std::int64_t wanted;
  std::optional<Generator> given;
  std::optional<Generator> generator = {};
  bool done = false;

  std::vector<std::int64_t> operator()() {
    if (done) return {};
    if (!generator) generator = epoch_generator(given);
    std::vector<std::int64_t> order = permutation(*generator, n);
    done = wanted < n;
    if (done) order.resize(static_cast<std::size_t>(wanted));
    wanted -= n;
    return order;
  }
};

/// Independent numbers below n, drawn 32 at a time.
struct Replacements {
  std::int64_t n;
  std::int64_t wanted;
  std::optional<Generator> given;
  std::optional<Generator> generator = {};

  std::vector<std::int64_t> operator()() {
    if (wanted == 0) return {};
    if (!generator) generator = epoch_generator(given);
    std::int64_t count = std::min<std::int64_t>(wanted, 32);
    std::vector<std::int64_t> drawn(static_cast<std::size_t>(count));
    detail::fill_buffer(*generator, {drawn.data(), DType::i64, count},
                        {.op = RandomOp::integers, .from = 0, .size = static_cast<std::uint64_t>(n)});
    wanted -= count;
    return drawn;
  }
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::vector<std::int64_t> Sampler::epoch() {
  std::vector<std::int64_t> all;
  IndexStream next = start();
  while (auto index = next()) all.push_back(*index);
  return all;
}

IndexStream SequentialSampler::start() {
  return IndexStream::of_chunks([size = size_, at = std::int64_t{0}]() mutable {
    std::vector<std::int64_t> some(static_cast<std::size_t>(std::min<std::int64_t>(size - at, 1024)));
    std::iota(some.begin(), some.end(), at);
    at += static_cast<std::int64_t>(some.size());
    return some;
  });
}

RandomSampler::RandomSampler(std::int64_t size, RandomSamplerOptions options)
    : dataset_size_(size), num_samples_(options.num_samples.value_or(size)), options_(std::move(options)) {
  if (num_samples_ > 0) return;
  throw Error(ErrorCode::value,
              "num_samples should be a positive integer value, but got num_samples=" + std::to_string(num_samples_));
}

IndexStream RandomSampler::start() {
  if (options_.replacement)
    return IndexStream::of_chunks(Replacements{dataset_size_, num_samples_, options_.generator});
  return IndexStream::of_chunks(Permutations{dataset_size_, num_samples_, options_.generator});
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<std::int64_t> indices, std::optional<Generator> generator)
    : indices_(std::move(indices)), generator_(std::move(generator)) {}

IndexStream SubsetRandomSampler::start() {
  return lazy([this] {
    std::vector<std::int64_t> order = permutation(generator_.value_or(default_generator()), size());
    for (std::int64_t& index : order) index = indices_[static_cast<std::size_t>(index)];
    return order;
  });
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                                             WeightedSamplerOptions options)
    : weights_(std::move(weights)), num_samples_(num_samples), options_(std::move(options)) {
  if (num_samples_ > 0) return;
  throw Error(ErrorCode::value,
              "num_samples should be a positive integer value, but got num_samples=" + std::to_string(num_samples_));
}

IndexStream WeightedRandomSampler::start() {
  return lazy([this] {
    return multinomial(
               from_values(weights_),
               {.num_samples = num_samples_, .replacement = options_.replacement, .generator = options_.generator})
        .to_vector<std::int64_t>();
  });
}

namespace {
std::optional<detail::ProcessShare>& share_of_process() {
  static std::optional<detail::ProcessShare> share;
  return share;
}

/// What the option says, else the group of processes.
std::int64_t said(const std::optional<std::int64_t>& option, std::int64_t detail::ProcessShare::*part) {
  if (option) return *option;
  if (const auto& share = share_of_process()) return (*share).*part;
  throw Error(ErrorCode::value,
              "Default process group has not been initialized, please make sure to call init_process_group.");
}
}  // namespace

const std::optional<detail::ProcessShare>& detail::process_share() {
  return share_of_process();
}
void detail::set_process_share(const std::optional<ProcessShare>& share) {
  share_of_process() = share;
}

DistributedSampler::DistributedSampler(std::int64_t size, DistributedSamplerOptions options)
    : dataset_size_(size),
      replicas_(said(options.num_replicas, &detail::ProcessShare::processes)),
      rank_(said(options.rank, &detail::ProcessShare::rank)),
      options_(options) {
  if (rank_ < 0 || rank_ >= replicas_) {
    throw Error(ErrorCode::value, "Invalid rank " + std::to_string(rank_) + ", rank should be in the interval [0, " +
                                      std::to_string(replicas_ - 1) + "]");
  }
  num_samples_ = options.drop_last ? size / replicas_ : ceil_div(size, replicas_);
}

IndexStream DistributedSampler::start() {
  std::vector<std::int64_t> order(static_cast<std::size_t>(dataset_size_));
  std::iota(order.begin(), order.end(), 0);
  if (options_.shuffle) {
    Generator generator;
    order = permutation(generator.manual_seed(options_.seed + static_cast<std::uint64_t>(epoch_)), dataset_size_);
  }
  std::vector<std::int64_t> mine;
  for (std::int64_t at = rank_; at < total_size(); at += replicas_) {
    mine.push_back(order[static_cast<std::size_t>(at % dataset_size_)]);
  }
  return lazy([mine = std::move(mine)] { return mine; });
}

FixedBatchSampler::FixedBatchSampler(std::shared_ptr<Sampler> sampler, Options options)
    : sampler_(std::move(sampler)), options_(options) {
  if (options_.batch_size > 0) return;
  throw Error(ErrorCode::value, "batch_size should be a positive integer value, but got batch_size=" +
                                    std::to_string(options_.batch_size));
}

std::int64_t FixedBatchSampler::size() const {
  std::int64_t count = sampler_->size();
  return options_.drop_last ? count / options_.batch_size : ceil_div(count, options_.batch_size);
}

BatchStream FixedBatchSampler::start() {
  const auto most = static_cast<std::size_t>(std::min(options_.batch_size, sampler_->size()));
  return [next = sampler_->start(), options = options_, most]() mutable -> std::optional<std::vector<std::int64_t>> {
    std::vector<std::int64_t> batch;
    batch.reserve(most);
    while (static_cast<std::int64_t>(batch.size()) < options.batch_size) {
      auto index = next();
      if (!index) break;
      batch.push_back(*index);
    }
    bool is_full = static_cast<std::int64_t>(batch.size()) == options.batch_size;
    if (batch.empty() || (options.drop_last && !is_full)) return std::nullopt;
    return batch;
  };
}

namespace {

std::vector<std::int64_t> lengths_from_fractions(std::int64_t size, const std::vector<double>& fractions) {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < fractions.size(); ++i) {
    if (fractions[i] < 0 || fractions[i] > 1) {
      throw Error(ErrorCode::value, "Fraction at index " + std::to_string(i) + " is not between 0 and 1");
    }
    lengths.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fractions[i])));
  }
  std::int64_t rest = size - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < rest; ++i) ++lengths[static_cast<std::size_t>(i) % lengths.size()];
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] != 0) continue;
    warn("Length of split at index " + std::to_string(i) + " is 0. This might result in an empty dataset.");
  }
  return lengths;
}

}  // namespace

std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size, const std::vector<double>& lengths,
                                                     const std::optional<Generator>& generator) {
  double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  bool are_fractions = std::abs(sum - 1) <= 1e-9 && sum <= 1;
  std::vector<std::int64_t> counts;
  if (are_fractions) {
    counts = lengths_from_fractions(size, lengths);
  } else {
    for (double length : lengths) counts.push_back(static_cast<std::int64_t>(length));
  }
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != size) {
    throw Error(ErrorCode::value, "Sum of input lengths does not equal the length of the input dataset!");
  }
  std::vector<std::int64_t> order = permutation(generator.value_or(default_generator()), size);
  std::vector<std::vector<std::int64_t>> parts;
  auto from = order.begin();
  for (std::int64_t count : counts) {
    parts.emplace_back(from, from + count);
    from += count;
  }
  return parts;
}

}  // namespace core
