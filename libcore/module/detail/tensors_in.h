#pragma once
// The tensors in the result of a forward that gives several: pairs, tuples, lists, maps, optionals, structs that list
// them (tensor_parts()) or have two or three parts and nothing else. For hooks. Thread safety: pure functions. For
// libcore/module alone. Use: core::detail::each_tensor(result, [](core::Tensor& t) { t = t * 2; });

#include <concepts>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "libcore/tensor/tensor.h"

namespace core::detail {

template <class T>
concept HasTensorParts = requires(T& value) {
  value.tensor_parts();
};
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

/// Whose parts can be changed where they are; not a string, nor std::vector<bool>.
template <class T>
concept ListLike = requires(T& value) {
  value.end();
  { *value.begin() } -> std::same_as<typename T::value_type&>;
};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// Inner braces keep a part that is a struct itself one part; {} makes one more part, whatever it is.
template <class T, class... Parts>
concept HoldsParts = requires {
  T{{std::declval<Parts>()}...};
};
template <class T, class... Parts>
concept HoldsMore = requires {
  T{{std::declval<Parts>()}..., {}};
};
/// A struct of as many parts as are given, each a tensor or made of tensors, such as ValuesIndices.
template <class T, class... Parts>
concept StructOf = std::is_aggregate_v<T> && !std::is_array_v<T> && HoldsParts<T, Parts...> && !HoldsMore<T, Parts...>;
struct OnlyTensor {
  template <std::same_as<Tensor> T>
  operator T() const;  // NOLINT(google-explicit-constructor): asks a struct what its parts are
};

template <class T, class Visit>
void each_tensor(T& value, const Visit& visit) {
  if constexpr (std::derived_from<T, Tensor>) {
    visit(static_cast<Tensor&>(value));
  } else if constexpr (HasTensorParts<T>) {
    std::apply([&](auto&... part) { (each_tensor(part, visit), ...); }, value.tensor_parts());
  } else if constexpr (kIsOptional<T>) {
    if (value) each_tensor(*value, visit);
  } else if constexpr (TupleLike<T>) {
    std::apply([&](auto&... part) { (each_tensor(part, visit), ...); }, value);
  } else if constexpr (requires { typename T::mapped_type; }) {
    for (auto& [key, part] : value) each_tensor(part, visit);
  } else if constexpr (ListLike<T>) {
    for (auto& part : value) each_tensor(part, visit);
  } else if constexpr (StructOf<T, OnlyTensor, OnlyTensor, OnlyTensor>) {
    auto& [a, b, c] = value;
    each_tensor(a, visit), each_tensor(b, visit), each_tensor(c, visit);
  } else if constexpr (StructOf<T, OnlyTensor, OnlyTensor>) {
    auto& [a, b] = value;
    each_tensor(a, visit), each_tensor(b, visit);
  }
}

}  // namespace core::detail
