#pragma once
// Pinned memory: where a GPU copies a batch from at full speed while the program goes on. The seam between the loader,
// which has a batch of any structure, and a backend, which knows how such memory is made. Logical devices read any host
// memory, so nothing is copied for them. Thread safety: pinned() is called from worker threads at once;
// set_pin_function before the first loader. Use: core::DataLoader loader(data, {.pin_memory = true});

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

using PinFunction = std::function<Tensor(const Tensor&)>;

/// Replaces what pinned() does with one host tensor and returns what it did before. The backend of a real GPU sets
/// this.
PinFunction set_pin_function(PinFunction function);

/// A copy of a host tensor in pinned memory; the tensor itself where no device needs that, or where it is not on the
/// host.
Tensor pinned(const Tensor& tensor);

/// The same for everything in a batch: pairs, tuples, vectors, maps; a type with a pin_memory() of its own is asked for
/// it; the rest stays.
template <class T>
requires(!std::is_base_of_v<Tensor, T>) T pinned(const T& value);
template <class A, class B>
std::pair<A, B> pinned(const std::pair<A, B>& value);
template <class... T>
std::tuple<T...> pinned(const std::tuple<T...>& value);
template <class T>
std::vector<T> pinned(const std::vector<T>& value);
template <class K, class T>
std::map<K, T> pinned(const std::map<K, T>& value);

template <class T>
requires(!std::is_base_of_v<Tensor, T>) T pinned(const T& value) {
  if constexpr (requires {
                  { value.pin_memory() } -> std::convertible_to<T>;
                }) {
    return value.pin_memory();
  } else {
    return value;
  }
}

template <class A, class B>
std::pair<A, B> pinned(const std::pair<A, B>& value) {
  return {pinned(value.first), pinned(value.second)};
}

template <class... T>
std::tuple<T...> pinned(const std::tuple<T...>& value) {
  return std::apply([](const auto&... part) { return std::tuple<T...>(pinned(part)...); }, value);
}

template <class T>
std::vector<T> pinned(const std::vector<T>& value) {
  std::vector<T> result;
  result.reserve(value.size());
  for (const auto& item : value) result.push_back(pinned(item));
  return result;
}

template <class K, class T>
std::map<K, T> pinned(const std::map<K, T>& value) {
  std::map<K, T> result;
  for (const auto& [key, item] : value) result.emplace(key, pinned(item));
  return result;
}

}  // namespace core
