#include "libckpt/keras/attention.h"

#include <array>
#include <utility>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::array<std::string_view, 4> kParts = {"query", "key", "value", "output"};

constexpr std::int64_t kLargestSize = 1 << 24;  ///< a shape alone may say more than can be multiplied

const core::Shape& kernel_of(const KerasLayer& layer, std::string_view part) {
  return layer.find(std::string(part) + ".kernel")->shape;
}

std::string said(std::int64_t number) {
  return std::to_string(number);
}

/// Kernels of queries, keys and values are [features, heads, width], that of the output [heads, width, features].
bool has_shapes(const KerasLayer& layer) {
  for (std::string_view part : kParts) {
    const core::Shape& kernel = kernel_of(layer, part);
    if (kernel.size() != 3) return false;
    for (std::int64_t size : kernel) {
      if (size <= 0 || size > kLargestSize) return false;
    }
    const KerasWeight* bias = layer.find(std::string(part) + ".bias");
    if (bias == nullptr) continue;
    const bool same =
        part == "output" ? bias->shape == core::Shape{kernel[2]} : bias->shape == core::Shape{kernel[1], kernel[2]};
    if (!same) return false;
  }
  std::size_t weights = 0;
  for (std::string_view part : {"query", "key", "value", "output", "gate"}) {
    for (std::string_view end : {".kernel", ".bias"}) {
      weights += layer.find(std::string(part) + std::string(end)) == nullptr ? 0 : 1;
    }
  }
  const core::Shape& value = kernel_of(layer, "value");
  const core::Shape& output = kernel_of(layer, "output");
  return weights == layer.weights.size() && output[0] == kernel_of(layer, "query")[1] && output[1] == value[2];
}

/// A kernel of each, and a bias of each or of none.
std::string what_is_missing(const KerasLayer& layer) {
  std::size_t biases = 0;
  for (std::string_view part : kParts) biases += layer.find(std::string(part) + ".bias") == nullptr ? 0 : 1;
  for (std::string_view part : kParts) {
    for (std::string_view end : {".kernel", ".bias"}) {
      if (end == ".bias" && biases == 0) continue;
      const std::string role = std::string(part) + std::string(end);
      if (layer.find(role) == nullptr) return "is attention without its " + role;
    }
  }
  return "";
}

/// Beside weights: what the configuration says.
std::string what_is_computed_otherwise(const KerasLayer& layer) {
  if (layer.find("gate.kernel") != nullptr) return "has a gate (use_gate), which torch's attention has not";
  if (layer.node == nullptr) return "";
  const std::vector<std::int64_t> axes = layer.node->integers("attention_axes");
  const bool along_steps = axes.empty() || (axes.size() == 1 && axes[0] == 1);
  return along_steps ? "" : "attends along other axes (attention_axes) than torch's attention, which has one of steps";
}

}  // namespace

bool is_attention(std::string_view kind) {
  return kind == kAttention || kind == "GroupQueryAttention" || kind == "GroupedQueryAttention";
}

std::string attention_part(std::string_view step) {
  if (step.starts_with('_')) step.remove_prefix(1);
  if (step == "attention_output") return "output";
  if (step.ends_with("_dense")) step.remove_suffix(6);
  if (step == "output" || step == "gate") return std::string(step);
  for (std::string_view part : kParts) {
    if (step == part) return std::string(part);
  }
  return "";
}

AttentionSizes attention_sizes(const KerasLayer& layer) {
  const core::Shape& query = kernel_of(layer, "query");
  return {query[1], query[2], kernel_of(layer, "key")[0], kernel_of(layer, "value")[0]};
}

std::string why_no_attention(const KerasLayer& layer) {
  if (std::string missing = what_is_missing(layer); !missing.empty()) return missing;
  if (!has_shapes(layer)) return "has weights whose shapes are not those of attention";
  if (std::string other = what_is_computed_otherwise(layer); !other.empty()) return other;
  const core::Shape& query = kernel_of(layer, "query");
  const core::Shape& key = kernel_of(layer, "key");
  const core::Shape& value = kernel_of(layer, "value");
  const std::int64_t heads = query[1], width = query[2], out = kernel_of(layer, "output")[2];
  if (key[1] != heads || value[1] != heads) {
    return "has " + said(heads) + " heads for queries and " + said(key[1]) +
           " for keys, where torch's attention has as many for both";
  }
  if (key[2] != width) return "has weights whose shapes are not those of attention";
  if (value[2] != width) {
    return "has heads of " + said(width) + " for keys (key_dim) and of " + said(value[2]) +
           " for values (value_dim), which are one size in torch's attention";
  }
  if (query[0] != heads * width) {
    return "makes " + said(heads) + " heads of " + said(width) + " out of " + said(query[0]) +
           " features, where torch's attention cuts those into heads";
  }
  if (out != query[0]) {
    return "gives " + said(out) + " features (output_shape) where queries have " + said(query[0]) +
           ", which are one size in torch's attention";
  }
  return "";
}

}  // namespace ckpt::detail
