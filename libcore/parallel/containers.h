#pragma once
// How DataParallel finds the tensors inside arguments and results: tuples, pairs, vectors, arrays, maps, optionals and
// variants of tensors, nested, and structs that list what may hold tensors:
//
//   struct Options {                                                   // the keyword arguments of a forward
//     core::Tensor mask;
//     std::optional<core::Tensor> weights;
//     double scale = 1;
//     auto tensor_parts() { return std::tie(mask, weights); }
//   };
//
// Everything else is handed to every replica as it is. Specialise TensorParts for a type that is not yours.
// Thread safety: pure functions. Use: core::map_tensors(args, [](const core::Tensor& t) { return t.cpu(); });

#include <array>
#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// map(value, f): a copy of `value` with every tensor t replaced by f(t), in a fixed order.
/// join(values, f): one value out of one per replica; tensors in the same place are joined by f(std::vector<Tensor>).
template <class T>
struct TensorParts {
  template <class F>
  static T map(const T& value, F&&) {
    return value;
  }
  template <class F>
  static T join(const std::vector<T>& values, F&&) {
    if constexpr (std::equality_comparable<T>) {
      for (const T& value : values) {
        if (value == values.front()) continue;
        throw Error(ErrorCode::type, "replicas returned different values that are no tensors and cannot be gathered");
      }
    }
    return values.front();
  }
};

template <class T, class F>
T map_tensors(const T& value, F&& f) {
  return TensorParts<T>::map(value, f);
}
template <class T, class F>
T join_tensors(const std::vector<T>& values, F&& f) {
  return TensorParts<T>::join(values, f);
}

namespace detail {
/// part(value) of every value.
template <class T, class Part>
auto parts_of(const std::vector<T>& values, Part part) {
  std::vector<std::decay_t<decltype(part(values.front()))>> parts;
  for (const T& value : values) parts.push_back(part(value));
  return parts;
}
}  // namespace detail

/// An undefined tensor stands for None.
template <std::derived_from<Tensor> T>
struct TensorParts<T> {
  template <class F>
  static T map(const T& value, F&& f) {
    return value.defined() ? T(f(value)) : value;
  }
  /// None where all are None. Error(type) when only some are.
  template <class F>
  static T join(const std::vector<T>& values, F&& f) {
    for (const T& value : values) {
      if (value.defined() == values.front().defined()) continue;
      throw Error(ErrorCode::type, "some replicas returned a tensor and others None in the same place");
    }
    if (!values.front().defined()) return values.front();
    return T(f(std::vector<Tensor>(values.begin(), values.end())));
  }
};

/// A struct that lists its parts with tensors as a tuple of references.
template <class T>
concept ListsTensorParts = requires(T& value) {
  value.tensor_parts();
};

template <ListsTensorParts T>
struct TensorParts<T> {
  template <class F>
  static T map(const T& value, F&& f) {
    T result = value;
    std::apply([&](auto&... part) { ((part = map_tensors(part, f)), ...); }, result.tensor_parts());
    return result;
  }
  /// What is listed is joined; the rest is the first replica's.
  template <class F>
  static T join(const std::vector<T>& values, F&& f) {
    T result = values.front();
    auto parts = result.tensor_parts();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((std::get<I>(parts) = join_tensors(detail::parts_of(values, part<I>), f)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(parts)>>());
    return result;
  }

 private:
  template <std::size_t I>
  static auto part(const T& value) {
    T copy = value;
    return std::decay_t<decltype(std::get<I>(copy.tensor_parts()))>(std::get<I>(copy.tensor_parts()));
  }
};

template <class... T>
struct TensorParts<std::tuple<T...>> {
  using Tuple = std::tuple<T...>;
  template <class F>
  static Tuple map(const Tuple& value, F&& f) {
    return std::apply([&](const T&... part) { return Tuple{map_tensors(part, f)...}; }, value);
  }
  template <class F>
  static Tuple join(const std::vector<Tuple>& values, F&& f) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Tuple{join_tensors(detail::parts_of(values, [](const Tuple& v) { return std::get<I>(v); }), f)...};
    }
    (std::index_sequence_for<T...>());
  }
};

template <class A, class B>
struct TensorParts<std::pair<A, B>> {
  using Pair = std::pair<A, B>;
  template <class F>
  static Pair map(const Pair& value, F&& f) {
    A first = map_tensors(value.first, f);
    return {std::move(first), map_tensors(value.second, f)};
  }
  template <class F>
  static Pair join(const std::vector<Pair>& values, F&& f) {
    A first = join_tensors(detail::parts_of(values, [](const Pair& v) { return v.first; }), f);
    return {std::move(first), join_tensors(detail::parts_of(values, [](const Pair& v) { return v.second; }), f)};
  }
};

template <class T>
struct TensorParts<std::vector<T>> {
  template <class F>
  static std::vector<T> map(const std::vector<T>& value, F&& f) {
    std::vector<T> result;
    for (const T& part : value) result.push_back(map_tensors(part, f));
    return result;
  }
  template <class F>
  static std::vector<T> join(const std::vector<std::vector<T>>& values, F&& f) {
    std::vector<T> result;
    for (const auto& value : values) {
      if (value.size() == values.front().size()) continue;
      throw Error(ErrorCode::value, "All lists must have the same number of elements");
    }
    for (std::size_t i = 0; i < values.front().size(); ++i) {
      result.push_back(join_tensors(detail::parts_of(values, [i](const auto& v) -> T { return v[i]; }), f));
    }
    return result;
  }
};

template <class T, std::size_t N>
struct TensorParts<std::array<T, N>> {
  template <class F>
  static std::array<T, N> map(const std::array<T, N>& value, F&& f) {
    std::array<T, N> result = value;
    for (T& part : result) part = map_tensors(part, f);
    return result;
  }
  template <class F>
  static std::array<T, N> join(const std::vector<std::array<T, N>>& values, F&& f) {
    std::array<T, N> result = values.front();
    for (std::size_t i = 0; i < N; ++i) {
      result[i] = join_tensors(detail::parts_of(values, [i](const auto& v) { return v[i]; }), f);
    }
    return result;
  }
};

namespace detail {
/// Ordered and unordered maps.
template <class Map>
struct MapParts {
  template <class F>
  static Map map(const Map& value, F&& f) {
    Map result;
    for (const auto& [key, part] : value) result.emplace(key, map_tensors(part, f));
    return result;
  }
  /// The keys of the first. Errors: Error(value) "All dicts must have the same number of keys", Error(key).
  template <class F>
  static Map join(const std::vector<Map>& values, F&& f) {
    for (const Map& value : values) {
      if (value.size() == values.front().size()) continue;
      throw Error(ErrorCode::value, "All dicts must have the same number of keys");
    }
    Map result;
    for (const auto& [key, part] : values.front()) {
      result.emplace(key, join_tensors(parts_of(values, [&key = key](const Map& v) { return at(v, key); }), f));
    }
    return result;
  }

 private:
  static const typename Map::mapped_type& at(const Map& value, const typename Map::key_type& key) {
    auto found = value.find(key);
    if (found != value.end()) return found->second;
    if constexpr (std::convertible_to<typename Map::key_type, std::string>) throw Error(ErrorCode::key, key);
    throw Error(ErrorCode::key, "a replica's dict lacks a key");
  }
};
}  // namespace detail

template <class K, class T, class... More>
struct TensorParts<std::map<K, T, More...>> : detail::MapParts<std::map<K, T, More...>> {};
template <class K, class T, class... More>
struct TensorParts<std::unordered_map<K, T, More...>> : detail::MapParts<std::unordered_map<K, T, More...>> {};

template <class... T>
struct TensorParts<std::variant<T...>> {
  using Variant = std::variant<T...>;
  template <class F>
  static Variant map(const Variant& value, F&& f) {
    return std::visit([&](const auto& held) { return Variant(map_tensors(held, f)); }, value);
  }
  /// Error(type) when the replicas hold different alternatives.
  template <class F>
  static Variant join(const std::vector<Variant>& values, F&& f) {
    for (const Variant& value : values) {
      if (value.index() == values.front().index()) continue;
      throw Error(ErrorCode::type, "replicas returned values of different types in the same place");
    }
    return std::visit(
        [&]<class Held>(const Held&) {
          return Variant(join_tensors(detail::parts_of(values, [](const Variant& v) { return std::get<Held>(v); }), f));
        },
        values.front());
  }
};

template <class T>
struct TensorParts<std::optional<T>> {
  template <class F>
  static std::optional<T> map(const std::optional<T>& value, F&& f) {
    return value ? std::optional<T>(map_tensors(*value, f)) : std::nullopt;
  }
  template <class F>
  static std::optional<T> join(const std::vector<std::optional<T>>& values, F&& f) {
    for (const auto& value : values) {
      if (value.has_value() == values.front().has_value()) continue;
      throw Error(ErrorCode::type, "some replicas returned a value and others None in the same place");
    }
    if (!values.front()) return std::nullopt;
    return join_tensors(detail::parts_of(values, [](const auto& v) -> T { return *v; }), f);
  }
};

}  // namespace core
