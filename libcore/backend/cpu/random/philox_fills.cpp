#include "libcore/backend/cpu/random/philox_fills.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "libcore/backend/cpu/random/elements.h"
#include "libcore/backend/random_arithmetic.h"

namespace core::detail {
namespace {

namespace numbers = core::random_arithmetic;

/// What elements are computed in: double for f64, else float.
template <class T>
using Drawn = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
T rounded(Drawn<T> value) {
  return from_number<T>(value);
}

/// Calls store(i, words, part) for every element: element i takes one part of the words of its thread. A thread makes
/// `parts` elements from four words (4 with one word each, 2 with two).
template <class T, class Store>
void each_element(RandomStream& stream, std::int64_t count, int parts, Store store) {
  const std::scoped_lock lock(stream.mutex);
  const RandomLaunches launches = random_launches(count, sizeof(T), parts);
  for (const RandomLaunch& launch : launches.parts) {
    const std::int64_t threads = random_threads(launch.count), wave = threads * parts;
    for (std::int64_t i = 0; i < launch.count; ++i) {
      const std::int64_t in_wave = i % wave;
      const PhiloxWords words =
          philox({.key = stream.seed,
                  .offset = (stream.offset + launch.offset) / 4 + static_cast<std::uint64_t>(i / wave),
                  .thread = static_cast<std::uint64_t>(in_wave % threads)});
      store(launch.first + i, words, static_cast<int>(in_wave / threads));
    }
  }
  stream.offset += launches.used;
}

void fill_from_normal(RandomStream& stream, RandomOut out, NormalShape shape, RandomOp op) {
  for_floating(out.dtype, op == RandomOp::normal ? "normal" : "log_normal", [&]<class T>() {
    using C = Drawn<T>;
    const auto mean = static_cast<C>(shape.mean), std = static_cast<C>(shape.std);
    each_element<T>(stream, out.count, numbers::kParts<C>, [&](std::int64_t i, const PhiloxWords& words, int part) {
      elements<T>(out)[i] = rounded<T>(numbers::from_normal(op, numbers::normal_number<C>(words, part), mean, std));
    });
  });
}

template <class T>
void fill_integers_of(RandomStream& stream, RandomOut out, int parts, IntegerRange range) {
  each_element<T>(stream, out.count, parts, [&](std::int64_t i, const PhiloxWords& words, int part) {
    const std::uint64_t number = parts == 2 ? numbers::wide_number(words, part) : words.at[part];
    elements<T>(out)[i] =
        from_number<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(range.from) + number % range.size));
  });
}

/// How many bits the keys of a permutation have: enough that all differ nine times in ten.
int key_bits(double n) {
  const double bits = std::ceil(std::log2(n - (6 * n * n + 1) / (std::log(0.9) * 12)));
  return std::min(64, static_cast<int>(bits));
}

/// A key for each position, in the order in which they sort.
std::vector<std::uint64_t> permutation_keys(RandomStream& stream, std::int64_t count, int bits) {
  const auto n = static_cast<std::size_t>(count);
  const std::uint64_t mask = bits == 64 ? ~0ULL : (1ULL << bits) - 1;
  std::vector<std::uint64_t> keys(n);
  const auto make = [&]<class Key>() {
    constexpr auto kLowest = std::numeric_limits<Key>::min();
    std::vector<Key> drawn(n);
    const auto size = static_cast<std::uint64_t>(std::numeric_limits<Key>::max()) - static_cast<std::uint64_t>(kLowest);
    fill_integers_of<Key>(stream, {drawn.data(), bits <= 32 ? DType::i32 : DType::i64, count}, 2, {kLowest, size});
    // Signed numbers are compared by their bits, the highest turned round where the keys reach it.
    const std::uint64_t sign = 1ULL << (sizeof(Key) * 8 - 1);
    for (std::size_t i = 0; i < n; ++i) keys[i] = (static_cast<std::uint64_t>(drawn[i]) ^ sign) & mask;
  };
  if (bits <= 32) {
    make.operator()<std::int32_t>();
  } else {
    make.operator()<std::int64_t>();
  }
  return keys;
}

/// Shuffles order[first, first + size), whose keys are equal.
void shuffle_equal_keys(const RandomStream& stream, std::span<std::int64_t> order, std::size_t first,
                        std::size_t size) {
  std::uint64_t drawn = 0;
  for (std::size_t i = size - 1; i > 0; --i, ++drawn) {
    const PhiloxWords words = philox({.key = stream.seed, .offset = stream.offset / 4 + drawn / 4, .thread = first});
    std::swap(order[first + i], order[first + words.at[drawn % 4] % (i + 1)]);
  }
}

}  // namespace

void cuda_fill_uniform(RandomStream& stream, RandomOut out, UniformLimits limits) {
  for_floating(out.dtype, "uniform", [&]<class T>() {
    using C = Drawn<T>;
    const T lowest = rounded<T>(static_cast<C>(limits.from)), highest = rounded<T>(static_cast<C>(limits.to));
    const C from = widened(lowest), to = widened(highest), range = widened(rounded<T>(to - from));
    each_element<T>(stream, out.count, numbers::kParts<C>, [&](std::int64_t i, const PhiloxWords& words, int part) {
      const T value = rounded<T>(std::fma(numbers::unit_number<C>(words, part), range, from));
      elements<T>(out)[i] = widened(value) == to ? lowest : value;
    });
  });
}

void cuda_fill_transformed(RandomStream& stream, RandomOut out, RandomOp op, double a, double b) {
  for_dtype(out.dtype, "uniform_and_transform", [&]<class T>() {
    using C = Drawn<T>;
    const auto first = static_cast<C>(a), second = static_cast<C>(b);
    each_element<T>(stream, out.count, numbers::kParts<C>, [&](std::int64_t i, const PhiloxWords& words, int part) {
      elements<T>(out)[i] =
          from_number<T>(numbers::from_uniform(op, numbers::unit_number<C>(words, part), first, second));
    });
  });
}

void cuda_fill_normal(RandomStream& stream, RandomOut out, NormalShape shape) {
  fill_from_normal(stream, out, shape, RandomOp::normal);
}

void cuda_fill_log_normal(RandomStream& stream, RandomOut out, NormalShape shape) {
  fill_from_normal(stream, out, shape, RandomOp::log_normal);
}

void cuda_fill_integers(RandomStream& stream, RandomOut out, IntegerRange range) {
  for_dtype(out.dtype, "random_from_to", [&]<class T>() {
    fill_integers_of<T>(stream, out, random_parts(RandomOp::integers, out.dtype, range.size), range);
  });
}

void cuda_fill_any_integer(RandomStream& stream, RandomOut out) {
  for_dtype(out.dtype, "random", [&]<class T>() {
    fill_integers_of<T>(stream, out, random_parts(RandomOp::any_integer, out.dtype, 0), {0, max_integer<T>() + 1});
  });
}

void cuda_fill_bernoulli_each(RandomStream& stream, RandomOut out, const void* probabilities) {
  if (out.count == 0) return;
  const std::scoped_lock lock(stream.mutex);
  for_dtype(out.dtype, "bernoulli_tensor_cuda_self_", [&]<class T>() {
    const auto* p = static_cast<const Drawn<T>*>(probabilities);
    for (std::int64_t i = 0; i < out.count; ++i) {
      const PhiloxWords words =
          philox({.key = stream.seed, .offset = stream.offset / 4, .thread = static_cast<std::uint64_t>(i / 4)});
      elements<T>(out)[i] = from_number<T>(numbers::unit32(words.at[i % 4]) <= p[i] ? 1.0 : 0.0);
    }
  });
  stream.offset += kBernoulliEachStep;
}

void cuda_permutation(RandomStream& stream, std::span<std::int64_t> order) {
  if (order.empty()) return;
  const auto count = static_cast<std::int64_t>(order.size());
  const std::vector<std::uint64_t> keys =
      permutation_keys(stream, count, key_bits(static_cast<double>(count)));  // locks the stream itself
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::int64_t i) { return keys[static_cast<std::size_t>(i)]; };
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  const std::scoped_lock lock(stream.mutex);
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    const std::uint64_t shared = key(order[first]);
    for (end = first + 1; end < order.size() && key(order[end]) == shared;) ++end;
    if (end - first > 1) shuffle_equal_keys(stream, order, first, end - first);
  }
  stream.offset += (static_cast<std::uint64_t>(count) + 3) / 4 * 4;
}

void cuda_dropout(RandomStream& stream, RandomOut out, const CudaDropout& how) {
  if (out.count == 0) return;
  const std::scoped_lock lock(stream.mutex);
  for_floating(out.dtype, "fused_dropout", [&]<class T>() {
    using C = Drawn<T>;
    const auto keep = static_cast<C>(how.keep), scale = static_cast<C>(1.0 / static_cast<double>(keep));
    const T* in = static_cast<const T*>(how.in);
    const std::int64_t threads = random_threads(out.count);
    for (std::int64_t i = 0; i < out.count; ++i) {
      const auto place = numbers::dropout_place(i, threads, how.width);
      const PhiloxWords words =
          philox({.key = stream.seed, .offset = stream.offset / 4 + place.block, .thread = place.thread});
      how.kept[i] = numbers::unit32(words.at[place.part]) < keep;
      elements<T>(out)[i] = rounded<T>(widened(in[i]) * (how.kept[i] ? C(1) : C(0)) * scale);
    }
  });
  stream.offset += random_offset_step(out.count, 4);
}

std::vector<float> cuda_sample_numbers(RandomStream& stream, std::int64_t rows, std::int64_t samples) {
  constexpr std::int64_t kThreadsPerBlock = 128, kMostRows = 65535;
  const std::int64_t width = (samples + kThreadsPerBlock - 1) / kThreadsPerBlock * kThreadsPerBlock;
  const std::scoped_lock lock(stream.mutex);
  std::vector<float> drawn;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint64_t offset = stream.offset / 4 + static_cast<std::uint64_t>(row / kMostRows);
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto thread = static_cast<std::uint64_t>(row % kMostRows * width + i);
      drawn.push_back(numbers::unit32(philox({.key = stream.seed, .offset = offset, .thread = thread}).at[0]));
    }
  }
  stream.offset += 4 * static_cast<std::uint64_t>((rows - 1) / std::min(rows, kMostRows) + 1);
  return drawn;
}

}  // namespace core::detail
