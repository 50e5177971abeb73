// The numbers that a CUDA device draws, on host memory: what logical devices give, and plain buffers by generators of
// CUDA devices. One call is one launch: threads, words and offsets are laid out as a launch on a device of 132
// multiprocessors with 2048 threads each.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "libcore/backend/cpu/random/elements.h"
#include "libcore/backend/cpu/random/random_fills.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/random_arithmetic.h"
#include "libcore/backend/random_table.h"

namespace core::cpu {
namespace {

namespace numbers = core::random_arithmetic;

template <class T>
T rounded(Drawn<T> value) {
  return from_number<T>(value);
}

/// The words of a thread's block behind where the generator stands.
class Words {
 public:
  explicit Words(const RandomParams& p)
      : key_(p.state != nullptr ? p.state[0] : p.seed), first_(p.state != nullptr ? p.state[1] + p.offset : p.offset) {}

  PhiloxWords at(std::uint64_t block, std::uint64_t thread, std::uint64_t offset = 0) const {
    return philox({.key = key_, .offset = (first_ + offset) / 4 + block, .thread = thread});
  }

 private:
  std::uint64_t key_, first_;
};

/// Calls store(i, words, part) for every element: element i takes one part of the words of its thread. A thread makes
/// `parts` elements from four words (4 with one word each, 2 with two).
template <class Store>
void each_element(const Words& words, RandomLaunch launch, int parts, Store store) {
  if (launch.count == 0) return;
  const std::int64_t threads = random_threads(launch.count), wave = threads * parts;
  for (std::int64_t i = 0; i < launch.count; ++i) {
    const std::int64_t in_wave = i % wave;
    store(launch.first + i,
          words.at(static_cast<std::uint64_t>(i / wave), static_cast<std::uint64_t>(in_wave % threads), launch.offset),
          static_cast<int>(in_wave / threads));
  }
}
template <class Store>
void each_element(const RandomParams& p, int parts, Store store) {
  each_element(Words(p), {0, p.count, 0}, parts, store);
}

template <class T>
void uniform(const RandomParams& p) {
  using C = Drawn<T>;
  const T lowest = rounded<T>(static_cast<C>(p.a)), highest = rounded<T>(static_cast<C>(p.b));
  const C from = widened(lowest), to = widened(highest), range = widened(rounded<T>(to - from));
  each_element(p, numbers::kParts<C>, [&](std::int64_t i, const PhiloxWords& words, int part) {
    const T value = rounded<T>(std::fma(numbers::unit_number<C>(words, part), range, from));
    static_cast<T*>(p.out)[i] = widened(value) == to ? lowest : value;
  });
}

/// normal and log_normal.
template <class T, RandomOp kOp>
void from_normal(const RandomParams& p) {
  using C = Drawn<T>;
  const auto mean = static_cast<C>(p.a), std = static_cast<C>(p.b);
  each_element(p, numbers::kParts<C>, [&](std::int64_t i, const PhiloxWords& words, int part) {
    static_cast<T*>(p.out)[i] =
        rounded<T>(numbers::from_normal(kOp, numbers::normal_number<C>(words, part), mean, std));
  });
}

/// bernoulli, exponential, geometric and cauchy.
template <class T, RandomOp kOp>
void transformed(const RandomParams& p) {
  using C = Drawn<T>;
  const auto a = static_cast<C>(p.a), b = static_cast<C>(p.b);
  each_element(p, numbers::kParts<C>, [&](std::int64_t i, const PhiloxWords& words, int part) {
    static_cast<T*>(p.out)[i] = from_number<T>(numbers::from_uniform(kOp, numbers::unit_number<C>(words, part), a, b));
  });
}

struct IntegerRange {
  std::int64_t from;
  std::uint64_t size;

  template <class T>
  T element(const PhiloxWords& words, int parts, int part) const {
    const std::uint64_t number = parts == 2 ? numbers::wide_number(words, part) : words.at[part];
    return from_number<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(from) + number % size));
  }
};

/// integers and any_integer.
template <class T, RandomOp kOp>
void integers(const RandomParams& p) {
  const bool any = kOp == RandomOp::any_integer;
  const IntegerRange range{any ? 0 : p.from, any ? max_integer<T>() + 1 : p.size};
  const int parts = random_parts(kOp, dtype_of<T>, range.size);
  each_element(p, parts, [&](std::int64_t i, const PhiloxWords& words, int part) {
    static_cast<T*>(p.out)[i] = range.element<T>(words, parts, part);
  });
}

template <class T>
void bernoulli_each(const RandomParams& p) {
  const auto* probabilities = static_cast<const Drawn<T>*>(p.in);
  const Words words(p);
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float number = numbers::unit32(words.at(0, static_cast<std::uint64_t>(i / 4)).at[i % 4]);
    static_cast<T*>(p.out)[i] = from_number<T>(number <= probabilities[i] ? 1.0 : 0.0);
  }
}

template <class T>
void dropout(const RandomParams& p) {
  using C = Drawn<T>;
  const auto keep = static_cast<C>(p.a), scale = static_cast<C>(1.0 / static_cast<double>(keep));
  const T* in = static_cast<const T*>(p.in);
  const std::int64_t threads = p.count > 0 ? random_threads(p.count) : 1;
  const Words words(p);
  for (std::int64_t i = 0; i < p.count; ++i) {
    const auto place = numbers::dropout_place(i, threads, static_cast<int>(p.size));
    p.kept[i] = numbers::unit32(words.at(place.block, place.thread).at[place.part]) < keep;
    static_cast<T*>(p.out)[i] = rounded<T>(widened(in[i]) * (p.kept[i] ? C(1) : C(0)) * scale);
  }
}

/// A key for each position, in the order in which they sort: integers of the whole range of `Key`, of which the lowest
/// `bits` count.
template <class Key>
std::vector<std::uint64_t> permutation_keys(const RandomParams& p, int bits) {
  constexpr auto kLowest = std::numeric_limits<Key>::min();
  constexpr auto kSize =
      static_cast<std::uint64_t>(std::numeric_limits<Key>::max()) - static_cast<std::uint64_t>(kLowest);
  // Signed numbers are compared by their bits, the highest turned round where the keys reach it.
  const std::uint64_t sign = 1ULL << (sizeof(Key) * 8 - 1), mask = bits == 64 ? ~0ULL : (1ULL << bits) - 1;
  const IntegerRange range{kLowest, kSize};
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(p.count));
  for (const RandomLaunch& launch : random_launches(p.count, sizeof(Key), 2).parts) {
    each_element(Words(p), launch, 2, [&](std::int64_t i, const PhiloxWords& words, int part) {
      const Key drawn = range.element<Key>(words, 2, part);
      keys[static_cast<std::size_t>(i)] = (static_cast<std::uint64_t>(drawn) ^ sign) & mask;
    });
  }
  return keys;
}

/// Shuffles order[first, first + size), whose keys are equal, by numbers from `offset` on.
void shuffle_equal_keys(const Words& words, std::uint64_t offset, std::span<std::int64_t> order, std::size_t first,
                        std::size_t size) {
  std::uint64_t drawn = 0;
  for (std::size_t i = size - 1; i > 0; --i, ++drawn) {
    const PhiloxWords at = words.at(drawn / 4, first, offset);
    std::swap(order[first + i], order[first + at.at[drawn % 4] % (i + 1)]);
  }
}

/// By random keys, with those of equal keys shuffled after that.
void arrange(const RandomParams& p, std::span<std::int64_t> order) {
  const int bits = permutation_key_bits(p.count);
  const bool is_narrow = bits <= 32;
  const auto keys = is_narrow ? permutation_keys<std::int32_t>(p, bits) : permutation_keys<std::int64_t>(p, bits);
  const auto key = [&](std::int64_t i) { return keys[static_cast<std::size_t>(i)]; };
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  const std::uint64_t behind_keys = permutation_keys_step(p.count);
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    const std::uint64_t shared = key(order[first]);
    for (end = first + 1; end < order.size() && key(order[end]) == shared;) ++end;
    if (end - first > 1) shuffle_equal_keys(Words(p), behind_keys, order, first, end - first);
  }
}

template <class T>
void permutation(const RandomParams& p) {
  store_order<T>(p, [&](std::span<std::int64_t> order) { arrange(p, order); });
}

/// Row after row, each a block of threads wide.
void samples(const RandomParams& p) {
  constexpr std::int64_t kThreadsPerBlock = 128;
  const auto a_row = static_cast<std::int64_t>(p.size);
  const std::int64_t width = (a_row + kThreadsPerBlock - 1) / kThreadsPerBlock * kThreadsPerBlock;
  const Words words(p);
  for (std::int64_t i = 0; i < p.count; ++i) {
    const std::int64_t row = i / a_row, thread = row % kMostSampleRows * width + i % a_row;
    static_cast<float*>(p.out)[i] = numbers::unit32(
        words.at(static_cast<std::uint64_t>(row / kMostSampleRows), static_cast<std::uint64_t>(thread)).at[0]);
  }
}

template <class... Ts>
void fill_numbers(RandomTable& table) {
  using R = RandomOp;
  (table.fill.set(R::bernoulli, dtype_of<Ts>, transformed<Ts, R::bernoulli>), ...);
  (table.fill.set(R::geometric, dtype_of<Ts>, transformed<Ts, R::geometric>), ...);
  (table.fill.set(R::integers, dtype_of<Ts>, integers<Ts, R::integers>), ...);
  (table.fill.set(R::any_integer, dtype_of<Ts>, integers<Ts, R::any_integer>), ...);
  (table.fill.set(R::permutation, dtype_of<Ts>, permutation<Ts>), ...);
}
template <class... Ts>
void fill_floats(RandomTable& table) {
  using R = RandomOp;
  (table.fill.set(R::uniform, dtype_of<Ts>, uniform<Ts>), ...);
  (table.fill.set(R::normal, dtype_of<Ts>, from_normal<Ts, R::normal>), ...);
  (table.fill.set(R::log_normal, dtype_of<Ts>, from_normal<Ts, R::log_normal>), ...);
  (table.fill.set(R::exponential, dtype_of<Ts>, transformed<Ts, R::exponential>), ...);
  (table.fill.set(R::cauchy, dtype_of<Ts>, transformed<Ts, R::cauchy>), ...);
  (table.fill.set(R::bernoulli_each, dtype_of<Ts>, bernoulli_each<Ts>), ...);
  (table.fill.set(R::dropout, dtype_of<Ts>, dropout<Ts>), ...);
}

}  // namespace

void fill_philox(RandomTable& table) {
  fill_floats<Half, BFloat16, float, double>(table);
  fill_numbers<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint16_t, std::uint32_t,
               std::uint64_t, Half, BFloat16, float, double>(table);
  table.fill.set(RandomOp::samples, DType::f32, samples);
}

}  // namespace core::cpu
