#pragma once
// Joining samples into a batch, as PyTorch's default_collate: tensors are stacked, numbers become tensors, containers
// are turned inside out, strings stay a list. Thread safety: pure functions. Use: core::Tensor batch =
// core::default_collate(std::vector{a, b});

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// Of what is none of the types below. Specialise it for a type of your own, or give the loader a collate function.
template <class Sample>
struct Collate {
  static Tensor join(const std::vector<Sample>&) {
    static_assert(sizeof(Sample) == 0,
                  "no batch can be made of these samples: give a collate function, as in core::DataLoader(data, "
                  "{.batch_size = 8}, [](const std::vector<Sample>& samples) { ... })");
    return {};
  }
};

/// What a batch of samples of this type is.
template <class Sample>
using BatchOf = decltype(Collate<Sample>::join(std::declval<const std::vector<Sample>&>()));

/// Errors: "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
/// "each element in list of batch should be of equal size".
/// Error(type) for None, which is an undefined tensor here; Error(index) "list index out of range" without samples;
/// Error(key) with the key that a map lacks.
template <class Sample>
BatchOf<Sample> default_collate(const std::vector<Sample>& samples) {
  if (samples.empty()) throw Error(ErrorCode::index, "list index out of range");
  return Collate<Sample>::join(samples);
}

namespace detail {
/// Part `part(sample)` of every sample, joined.
template <class Sample, class Part>
auto collate_part(const std::vector<Sample>& samples, Part part) {
  std::vector<std::decay_t<decltype(part(samples.front()))>> parts;
  parts.reserve(samples.size());
  for (const Sample& sample : samples) parts.push_back(part(sample));
  return default_collate(parts);
}
}  // namespace detail

template <std::derived_from<Tensor> T>
struct Collate<T> {
  static Tensor join(const std::vector<T>& samples) {
    for (const T& sample : samples) {
      if (sample.defined()) continue;
      throw Error(ErrorCode::type,
                  "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class "
                  "'NoneType'>");
    }
    if constexpr (std::same_as<T, Tensor>) {
      return stack(samples);
    } else {
      return stack({samples.begin(), samples.end()});
    }
  }
};

template <>
struct Collate<bool> {
  static Tensor join(const std::vector<bool>& samples) {
    std::vector<std::uint8_t> bytes(samples.begin(), samples.end());
    return from_values(bytes).to_bool();
  }
};

/// float64 or int64.
template <class T>
requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>) struct Collate<T> {
  static Tensor join(const std::vector<T>& samples) {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
    return from_values(std::vector<Wide>(samples.begin(), samples.end()));
  }
};

template <>
struct Collate<std::string> {
  static std::vector<std::string> join(const std::vector<std::string>& samples) { return samples; }
};

template <class... T>
struct Collate<std::tuple<T...>> {
  static auto join(const std::vector<std::tuple<T...>>& samples) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::make_tuple(detail::collate_part(samples, [](const auto& sample) { return std::get<I>(sample); })...);
    }
    (std::index_sequence_for<T...>());
  }
};

template <class A, class B>
struct Collate<std::pair<A, B>> {
  static auto join(const std::vector<std::pair<A, B>>& samples) {
    return std::make_pair(detail::collate_part(samples, [](const auto& sample) { return sample.first; }),
                          detail::collate_part(samples, [](const auto& sample) { return sample.second; }));
  }
};

template <class T>
struct Collate<std::vector<T>> {
  static auto join(const std::vector<std::vector<T>>& samples) {
    std::size_t length = samples.front().size();
    for (const auto& sample : samples) {
      if (sample.size() == length) continue;
      throw Error(ErrorCode::runtime, "each element in list of batch should be of equal size");
    }
    std::vector<BatchOf<T>> batch;
    for (std::size_t i = 0; i < length; ++i) {
      batch.push_back(detail::collate_part(samples, [i](const auto& sample) -> T { return sample[i]; }));
    }
    return batch;
  }
};

template <class T, std::size_t N>
struct Collate<std::array<T, N>> {
  static auto join(const std::vector<std::array<T, N>>& samples) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<BatchOf<T>, N>{
          detail::collate_part(samples, [](const auto& sample) -> T { return sample[I]; })...};
    }
    (std::make_index_sequence<N>());
  }
};

template <class K, class T>
struct Collate<std::map<K, T>> {
  static auto join(const std::vector<std::map<K, T>>& samples) {
    std::map<K, BatchOf<T>> batch;
    for (const auto& [key, value] : samples.front()) {
      batch.emplace(key, detail::collate_part(samples, [&key = key](const auto& sample) { return part(sample, key); }));
    }
    return batch;
  }

 private:
  static const T& part(const std::map<K, T>& sample, const K& key) {
    const auto found = sample.find(key);
    if (found != sample.end()) return found->second;
    std::ostringstream text;
    text << key;
    throw Error(ErrorCode::key, text.str());
  }
};

}  // namespace core
