#pragma once
// Arguments and results that hold tensors: a Tensor, a vector of such, a tuple of such, a pair of a name and such (so
// also NamedTensors of a module). Anything else stands for itself. Thread safety: pure functions.
// Use: std::vector<core::Tensor> leaves = core::func::leaves_of(std::tuple(x, w));

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core::func {

template <class T>
struct Tree {
  template <class Change>
  static T map(const T& value, Change&) {
    return value;
  }
};
template <>
struct Tree<Tensor> {
  template <class Change>
  static Tensor map(const Tensor& tensor, Change& change) {
    return change(tensor);
  }
};
template <class T>
struct Tree<std::vector<T>> {
  template <class Change>
  static std::vector<T> map(const std::vector<T>& values, Change& change) {
    std::vector<T> result;
    for (const T& value : values) result.push_back(Tree<T>::map(value, change));
    return result;
  }
};
template <class T>
struct Tree<std::pair<std::string, T>> {
  template <class Change>
  static std::pair<std::string, T> map(const std::pair<std::string, T>& named, Change& change) {
    return {named.first, Tree<T>::map(named.second, change)};
  }
};
template <class... Ts>
struct Tree<std::tuple<Ts...>> {
  template <class Change>
  static std::tuple<Ts...> map(const std::tuple<Ts...>& values, Change& change) {
    return std::apply([&](const Ts&... each) { return std::tuple<Ts...>{Tree<Ts>::map(each, change)...}; }, values);
  }
};

/// The same form with `change(tensor)` in the place of every tensor, from left to right.
template <class T, class Change>
T mapped(const T& tree, Change change) {
  return Tree<T>::map(tree, change);
}

/// All tensors, from left to right.
template <class T>
std::vector<Tensor> leaves_of(const T& tree) {
  std::vector<Tensor> leaves;
  mapped(tree, [&](const Tensor& tensor) {
    leaves.push_back(tensor);
    return tensor;
  });
  return leaves;
}

/// The form of `tree` with these tensors, of which `at` says where to go on.
template <class T>
T with_leaves(const T& tree, const std::vector<Tensor>& leaves, std::size_t& at) {
  return mapped(tree, [&](const Tensor&) { return leaves.at(at++); });
}

}  // namespace core::func
