#include "libcore/tensor/random_cuda.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "libcore/tensor/philox.h"
#include "libcore/tensor/random_dtype.h"

namespace core::detail {
namespace {

using Words = std::array<std::uint32_t, 4>;

constexpr std::int64_t kThreadsPerBlock = 256;
constexpr std::int64_t kMaxBlocks = 132 * 2048 / kThreadsPerBlock;

/// Calls store(i, words, c) for every element: element i takes part c of the words of its thread. A thread makes
/// `parts` elements from four words (4 with one word each, 2 with two).
template <class Store>
void each_element(RandomStream& stream, std::int64_t count, int parts, Store store) {
  if (count == 0) return;
  std::scoped_lock lock(stream.mutex);
  std::int64_t blocks = std::min((count + kThreadsPerBlock - 1) / kThreadsPerBlock, kMaxBlocks);
  std::int64_t threads = blocks * kThreadsPerBlock;
  std::int64_t wave = threads * parts;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t in_wave = i % wave;
    Words words = philox({.key = stream.seed,
                          .offset = stream.offset / 4 + static_cast<std::uint64_t>(i / wave),
                          .thread = static_cast<std::uint64_t>(in_wave % threads)});
    store(i, words, static_cast<int>(in_wave / threads));
  }
  stream.offset += 4 * static_cast<std::uint64_t>((count - 1) / wave + 1);
}

/// (0, 1]
float unit32(std::uint32_t word) {
  return static_cast<float>(word) * 2.3283064e-10F + 1.1641532e-10F;
}

/// (0, 1] from two words.
double unit64(std::uint32_t low, std::uint32_t high) {
  std::uint64_t bits = low ^ (static_cast<std::uint64_t>(high) << 21);
  return static_cast<double>(bits) * 0x1p-53 + 0x1p-54;
}

float normal32(const Words& words, int component) {
  std::uint32_t a = words[component & ~1];
  std::uint32_t b = words[component | 1];
  constexpr float kStep = 2.3283064e-10F * 6.2831855F;
  float radius = std::sqrt(-2.0F * std::log(unit32(a)));
  float angle = static_cast<float>(b) * kStep + kStep / 2;
  return radius * ((component & 1) == 0 ? std::sin(angle) : std::cos(angle));
}

double normal64(const Words& words, int component) {
  double radius = std::sqrt(-2.0 * std::log(unit64(words[0], words[1])));
  double angle = 2.0 * std::numbers::pi * unit64(words[2], words[3]);
  return radius * (component == 0 ? std::sin(angle) : std::cos(angle));
}

/// Standard normal values, in f64 for f64 and in f32 for the rest, through `transform`.
template <class T, class Transform>
void fill_from_normal(RandomStream& stream, RandomOut out, Transform transform) {
  constexpr bool kDouble = std::is_same_v<T, double>;
  each_element(stream, out.count, kDouble ? 2 : 4, [&](std::int64_t i, const Words& words, int part) {
    if constexpr (kDouble) elements<T>(out)[i] = transform(normal64(words, part));
    if constexpr (!kDouble) elements<T>(out)[i] = from_number<T>(transform(normal32(words, part)));
  });
}

std::uint64_t wide(const Words& words, int part) {
  return static_cast<std::uint64_t>(words[2 * part]) << 32 | words[2 * part + 1];
}

}  // namespace

void cuda_fill_uniform(RandomStream& stream, RandomOut out, UniformLimits limits) {
  if (out.dtype == DType::f64) {
    return each_element(stream, out.count, 2, [&](std::int64_t i, const Words& words, int part) {
      double u = unit64(words[2 * part], words[2 * part + 1]);
      elements<double>(out)[i] = std::fma(u == 1.0 ? 0.0 : u, limits.to - limits.from, limits.from);
    });
  }
  auto from = static_cast<float>(limits.from);
  auto to = static_cast<float>(limits.to);
  for_floating(out.dtype, "uniform", [&]<class T>() {
    each_element(stream, out.count, 4, [&](std::int64_t i, const Words& words, int part) {
      float u = unit32(words[part]);
      elements<T>(out)[i] = from_float<T>(std::fma(u == 1.0F ? 0.0F : u, to - from, from));
    });
  });
}

void cuda_fill_from_uniform(RandomStream& stream, RandomOut out, const std::function<double(double)>& transform) {
  for_dtype(out.dtype, "uniform_and_transform", [&]<class T>() {
    each_element(stream, out.count, 4, [&](std::int64_t i, const Words& words, int part) {
      elements<T>(out)[i] = from_number<T>(transform(unit32(words[part])));
    });
  });
}

void cuda_fill_normal(RandomStream& stream, RandomOut out, NormalShape shape) {
  for_floating(out.dtype, "normal", [&]<class T>() {
    fill_from_normal<T>(stream, out, [&](auto value) {
      using V = decltype(value);
      return std::fma(value, static_cast<V>(shape.std), static_cast<V>(shape.mean));
    });
  });
}

void cuda_fill_log_normal(RandomStream& stream, RandomOut out, NormalShape shape) {
  for_floating(out.dtype, "log_normal", [&]<class T>() {
    fill_from_normal<T>(stream, out, [&](auto value) {
      using V = decltype(value);
      return std::exp(std::fma(value, static_cast<V>(shape.std), static_cast<V>(shape.mean)));
    });
  });
}

void cuda_fill_integers(RandomStream& stream, RandomOut out, IntegerRange range) {
  bool is_wide = range.size >= 1ULL << 28;
  for_dtype(out.dtype, "random_from_to", [&]<class T>() {
    each_element(stream, out.count, is_wide ? 2 : 4, [&](std::int64_t i, const Words& words, int part) {
      std::uint64_t number = is_wide ? wide(words, part) : words[part];
      auto value = static_cast<std::int64_t>(static_cast<std::uint64_t>(range.from) + number % range.size);
      elements<T>(out)[i] = from_number<T>(value);
    });
  });
}

void cuda_fill_any_integer(RandomStream& stream, RandomOut out) {
  for_dtype(out.dtype, "random", [&]<class T>() {
    bool is_wide = sizeof(T) == 8;
    each_element(stream, out.count, is_wide ? 2 : 4, [&](std::int64_t i, const Words& words, int part) {
      std::uint64_t number = is_wide ? wide(words, part) : words[part];
      elements<T>(out)[i] = from_number<T>(static_cast<std::int64_t>(number % (max_integer<T>() + 1)));
    });
  });
}

void cuda_shuffle(RandomStream& stream, std::span<std::int64_t> order) {
  std::vector<std::uint32_t> words(order.size());
  each_element(stream, static_cast<std::int64_t>(order.size()), 4,
               [&](std::int64_t i, const Words& drawn, int part) { words[i] = drawn[part]; });
  for (std::size_t i = 0; i + 1 < order.size(); ++i) std::swap(order[i], order[i + words[i] % (order.size() - i)]);
}

}  // namespace core::detail
