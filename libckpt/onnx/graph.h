#pragma once
// An ONNX graph while it grows: nodes, initialisers, constants. Internal to onnx. Thread safety: one owner. Use:
// graph.node("Relu", {"x"}, {"y"}); graph.initializer("fc.weight", weight);

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "libckpt/onnx/sizes.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace ckpt::onnx {

using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;
using AttributeValue = std::variant<std::int64_t, double, std::string, Integers, Texts>;
struct Attribute {
  std::string name;
  AttributeValue value;
};

struct GraphNode {
  std::string op;
  std::string name;
  std::vector<std::string> inputs;  ///< "": left out
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes;
};

struct Initializer {
  std::string name;
  core::Tensor tensor;
};

/// An input, an output: a dimension is its size, or the name of it.
struct ValueInfo {
  std::string name;
  core::DType dtype;
  std::vector<std::variant<std::int64_t, std::string>> sizes;
};

class Graph {
 public:
  Graph(std::int64_t opset, std::vector<NamedSize> sizes) : opset_(opset), sizes_(std::move(sizes)) {}

  std::int64_t opset() const { return opset_; }
  const std::vector<NamedSize>& sizes() const { return sizes_; }
  /// What names of nodes and values begin with from now on: the module and the operation.
  void begin(const std::string& module, const std::string& op);

  /// A name that nothing has yet.
  std::string unique(const std::string& wanted);
  /// A node with the outputs given.
  void node(std::string_view op, std::vector<std::string> inputs, std::vector<std::string> outputs,
            std::vector<Attribute> attributes = {});
  /// A node whose only output gets a name of its own, which is returned.
  std::string value(std::string_view op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {});
  void initializer(const std::string& name, const core::Tensor& tensor) { initializers_.push_back({name, tensor}); }

  // Constants, each written once.

  std::string constant(const core::Tensor& tensor);
  std::string scalar(core::Scalar number, core::DType dtype);
  /// A list of int64.
  std::string list(const Integers& numbers);
  /// A number that follows sizes of the inputs, as a list of one.
  std::string one(const SizeTerm& term);
  std::string list(const std::vector<SizeTerm>& terms);

  const std::vector<GraphNode>& nodes() const { return nodes_; }
  const std::vector<Initializer>& initializers() const { return initializers_; }
  std::vector<ValueInfo> model_inputs, model_outputs;

 private:
  std::int64_t opset_;
  std::vector<NamedSize> sizes_;
  std::string prefix_, label_;
  std::set<std::string> taken_;
  std::map<std::string, std::int64_t> counts_;
  std::map<std::string, std::string> constants_;
  std::vector<GraphNode> nodes_;
  std::vector<Initializer> initializers_;
};

}  // namespace ckpt::onnx
