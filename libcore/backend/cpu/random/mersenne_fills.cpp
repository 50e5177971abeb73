// The random fills of the CPU: PyTorch's bits, from the Mersenne Twister of a generator's stream.
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <type_traits>
#include <utility>

#include "libcore/backend/cpu/random/elements.h"
#include "libcore/backend/cpu/random/normal_blocks.h"
#include "libcore/backend/cpu/random/random_fills.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/random_stream.h"
#include "libcore/backend/random_table.h"

namespace core::cpu {
namespace {

using detail::RandomStream;

constexpr std::int64_t kBlock = 16;
/// Ranges from here on take 64 random bits a number.
constexpr std::uint64_t kWideRange = 1ULL << 28;

struct UniformLimits {
  double from = 0;
  double to = 1;
};

/// Stores next(stream) into every element.
template <class T, class Next>
void generate(const RandomParams& p, Next next) {
  RandomStream& stream = *p.stream;
  T* to = static_cast<T*>(p.out);
  const std::int64_t count = p.count;
  for (std::int64_t i = 0; i < count; ++i) to[i] = next(stream);
}

template <class T>
T uniform_value(Mt19937& engine, UniformLimits limits) {
  if constexpr (std::is_same_v<T, double>) {
    return std::fma(detail::uniform64(engine), limits.to - limits.from, limits.from);
  } else {
    auto from = static_cast<float>(limits.from);
    auto to = static_cast<float>(limits.to);
    float value = std::fma(detail::uniform32(engine), to - from, from);
    if constexpr (std::is_same_v<T, float>) return value;
    T rounded = from_float<T>(value);
    bool at_limit = widened(rounded) >= widened(from_float<T>(to));  // the upper limit itself is never drawn
    return at_limit ? from_float<T>(from) : rounded;
  }
}

template <class T>
void uniform(const RandomParams& p) {
  const UniformLimits limits{p.a, p.b};
  generate<T>(p, [limits](RandomStream& stream) { return uniform_value<T>(stream.engine, limits); });
}

template <class T>
void normal_serial(const RandomParams& p) {
  generate<T>(p, [mean = p.a, std = p.b](RandomStream& stream) {
    return from_number<T>(std::fma(detail::normal64(stream), std, mean));
  });
}

/// Blocks of 16 in T (float or double); the last 16 are drawn again when 16 does not divide the count.
template <class T>
void normal_dense(const RandomParams& p) {
  T* data = static_cast<T*>(p.out);
  const NormalShape shape{p.a, p.b};
  Mt19937& engine = p.stream->engine;
  for (std::int64_t i = 0; i < p.count; ++i) data[i] = uniform_value<T>(engine, {});
  std::int64_t whole = p.count / kBlock * kBlock;
  normal_blocks(data, whole, shape);
  if (whole == p.count) return;
  T* last = data + p.count - kBlock;
  for (std::int64_t i = 0; i < kBlock; ++i) last[i] = uniform_value<T>(engine, {});
  normal_blocks(last, kBlock, shape);
}

/// Half types: block after block in f32, and no draws for a remainder before the last 16 are drawn again.
template <class T>
void normal_dense_half(const RandomParams& p) {
  T* data = static_cast<T*>(p.out);
  auto block = [&](T* to) {
    float values[kBlock];
    for (float& value : values) value = detail::uniform32(p.stream->engine);
    normal_blocks(values, kBlock, {p.a, p.b});
    for (std::int64_t i = 0; i < kBlock; ++i) to[i] = from_float<T>(values[i]);
  };
  for (std::int64_t at = 0; at + kBlock <= p.count; at += kBlock) block(data + at);
  if (p.count % kBlock != 0) block(data + p.count - kBlock);
}

template <class T>
void normal(const RandomParams& p) {
  if (p.count < kBlock) return normal_serial<T>(p);
  if constexpr (kIsHalfType<T>) {
    normal_dense_half<T>(p);
  } else {
    normal_dense<T>(p);
  }
}

template <class T>
void log_normal(const RandomParams& p) {
  generate<T>(p, [mean = p.a, std = p.b](RandomStream& stream) {
    return from_number<T>(std::exp(std::fma(detail::normal64(stream), std, mean)));
  });
}

template <class T>
void integers(const RandomParams& p) {
  generate<T>(p, [from = p.from, size = p.size](RandomStream& stream) {
    std::uint64_t number = size >= kWideRange ? stream.engine.next64() : stream.engine.next();
    return from_number<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(from) + number % size));
  });
}

/// 64 random bits for the types of 64 bits.
template <class T>
void any_integer(const RandomParams& p) {
  generate<T>(p, [](RandomStream& stream) {
    std::uint64_t number = sizeof(T) == 8 ? stream.engine.next64() : stream.engine.next();
    return from_number<T>(static_cast<std::int64_t>(number % (max_integer<T>() + 1)));
  });
}

/// What is made from one uniform double an element.
template <class T, class Transform>
void transformed(const RandomParams& p, Transform transform) {
  generate<T>(
      p, [transform](RandomStream& stream) { return from_number<T>(transform(detail::uniform64(stream.engine))); });
}

template <class T>
void bernoulli(const RandomParams& p) {
  transformed<T>(p, [probability = p.a](double u) { return u < probability ? 1.0 : 0.0; });
}

template <class T>
void exponential(const RandomParams& p) {
  transformed<T>(p, [rate = p.a](double u) { return -1.0 / rate * std::log1p(-u); });
}

template <class T>
void geometric(const RandomParams& p) {
  transformed<T>(p, [probability = p.a](double u) { return std::ceil(std::log(u) / std::log1p(-probability)); });
}

template <class T>
void cauchy(const RandomParams& p) {
  transformed<T>(
      p, [median = p.a, sigma = p.b](double u) { return median + sigma * std::tan(std::numbers::pi * (u - 0.5)); });
}

/// Probabilities of half types meet f32 numbers that were not rounded to them.
template <class T>
void bernoulli_each(const RandomParams& p) {
  const auto* probability = static_cast<const Drawn<T>*>(p.in);
  generate<T>(p, [probability](RandomStream& stream) mutable {
    return from_number<T>(uniform_value<Drawn<T>>(stream.engine, {}) < *probability++ ? 1.0 : 0.0);
  });
}

/// PyTorch's shuffle: a number below what is left for each place.
void shuffle(Mt19937& engine, std::span<std::int64_t> order) {
  const auto count = static_cast<std::int64_t>(order.size());
  std::int64_t* places = order.data();
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    const std::int64_t left = count - i;
    const std::uint32_t drawn = engine.next();
    // A division of 32 bits takes half the time of one of 64.
    const std::int64_t step =
        left <= 0x7fffffff ? static_cast<std::int64_t>(drawn % static_cast<std::uint32_t>(left)) : drawn % left;
    std::swap(places[i], places[i + step]);
  }
}

template <class T>
void permutation(const RandomParams& p) {
  store_order<T>(p, [&](std::span<std::int64_t> order) { shuffle(p.stream->engine, order); });
}

template <class... Ts>
void fill_numbers(RandomTable& table) {
  using R = RandomOp;
  (table.fill.set(R::bernoulli, dtype_of<Ts>, bernoulli<Ts>), ...);
  (table.fill.set(R::geometric, dtype_of<Ts>, geometric<Ts>), ...);
  (table.fill.set(R::integers, dtype_of<Ts>, integers<Ts>), ...);
  (table.fill.set(R::any_integer, dtype_of<Ts>, any_integer<Ts>), ...);
  (table.fill.set(R::permutation, dtype_of<Ts>, permutation<Ts>), ...);
}
template <class... Ts>
void fill_floats(RandomTable& table) {
  using R = RandomOp;
  (table.fill.set(R::uniform, dtype_of<Ts>, uniform<Ts>), ...);
  (table.fill.set(R::normal, dtype_of<Ts>, normal<Ts>), ...);
  (table.fill.set(R::normal_serial, dtype_of<Ts>, normal_serial<Ts>), ...);
  (table.fill.set(R::log_normal, dtype_of<Ts>, log_normal<Ts>), ...);
  (table.fill.set(R::exponential, dtype_of<Ts>, exponential<Ts>), ...);
  (table.fill.set(R::cauchy, dtype_of<Ts>, cauchy<Ts>), ...);
  (table.fill.set(R::bernoulli_each, dtype_of<Ts>, bernoulli_each<Ts>), ...);
}

}  // namespace

void fill_mersenne(RandomTable& table) {
  fill_floats<Half, BFloat16, float, double>(table);
  fill_numbers<bool, std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint16_t, std::uint32_t,
               std::uint64_t, Half, BFloat16, float, double>(table);
}

}  // namespace core::cpu
