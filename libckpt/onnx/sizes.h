#pragma once
// Numbers that follow the sizes of the inputs. Each named size has a pass of its own, in which it alone is another one;
// a number that differs there is `factor` times these sizes, plus `offset`. Internal to onnx. Thread safety: pure
// functions. Use: auto rows = explain({24, 36}, sizes); rows->factor == 12;

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ckpt::onnx {

/// A size that may differ: its name, where it is found, and what it was: in its own pass `second`.
struct NamedSize {
  std::string name;
  std::string input;
  std::int64_t axis = 0;
  std::int64_t first = 0, second = 0;
};

/// factor * sizes[i] * ... + offset.
struct SizeTerm {
  std::int64_t factor = 0;
  std::vector<std::size_t> sizes = {};
  std::int64_t offset = 0;

  bool is_constant() const { return sizes.empty(); }
};

/// What explains a number that was values[0] in the first pass and values[i + 1] in the one of sizes[i]; none: nothing
/// does.
std::optional<SizeTerm> explain(const std::vector<std::int64_t>& values, const std::vector<NamedSize>& sizes);
/// "batch", "4*batch*length", "length+1".
std::string text_of(const SizeTerm& term, const std::vector<NamedSize>& sizes);

}  // namespace ckpt::onnx
