#pragma once
// One traced operation on its way into the graph: names of its inputs and outputs, and its numbers, which may follow
// the sizes of the inputs. Internal to onnx. Thread safety: one owner. Use: step.set(step.value("Relu", {step.in(0)}));

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/onnx/graph.h"
#include "libcore/tensor/op_trace.h"

namespace ckpt::onnx {

/// All passes, operation by operation the same, and what the values of the first are called.
struct Passes {
  const core::detail::OpTrace& first;
  std::vector<const core::detail::OpTrace*> others;
  std::vector<std::string> names = {};  ///< of values(); empty: not in the graph yet

  /// A number as each pass has it, the first one in front.
  template <class Read>
  std::vector<std::int64_t> numbers(Read read) const {
    std::vector<std::int64_t> all = {read(first)};
    for (const core::detail::OpTrace* pass : others) all.push_back(read(*pass));
    return all;
  }
  std::vector<std::int64_t> sizes_of(std::ptrdiff_t place, std::size_t d) const {
    return numbers([&](const core::detail::OpTrace& pass) {
      return pass.values()[static_cast<std::size_t>(place)].tensor.sizes()[d];
    });
  }
};

class Step {
 public:
  Step(Graph& graph, Passes& passes, std::size_t op) : graph_(graph), passes_(passes), op_(op) {}

  Graph& graph() { return graph_; }
  const core::detail::TracedOp& op() const { return passes_.first.ops()[op_]; }
  /// "module layer1.0 calls roll"; to begin messages with.
  std::string subject() const;
  /// Error(unsupported): `what` is not in ONNX.
  [[noreturn]] void refuse(const std::string& what) const;

  std::size_t input_count() const { return op().inputs.size(); }
  std::size_t output_count() const { return op().outputs.size(); }
  bool has(std::size_t i) const { return i < input_count() && op().inputs[i] >= 0; }
  /// The name of an input; a constant becomes an initialiser. "" where it is undefined.
  std::string in(std::size_t i);
  /// The same in another dtype.
  std::string in(std::size_t i, core::DType dtype);
  const core::Tensor& input(std::size_t i) const { return value(op().inputs[i]).tensor; }
  const core::Tensor& output(std::size_t i = 0) const { return value(op().outputs[i]).tensor; }
  std::int64_t rank(std::size_t i = 0) const { return input(i).dim(); }
  core::DType dtype() const { return output().dtype(); }

  // Numbers. Error(unsupported) for one that differs between the passes, where it must not.

  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  core::Scalar scalar_of(std::string_view key) const;
  bool flag(std::string_view key) const { return integer(key) != 0; }
  std::string text(std::string_view key) const;
  Integers integers(std::string_view key) const;
  bool is_given(std::string_view key) const { return op().find(key) != nullptr; }
  /// One that may follow sizes.
  SizeTerm term(std::string_view key) const;
  std::vector<SizeTerm> input_sizes(std::size_t i) const;
  std::vector<SizeTerm> output_sizes(std::size_t i = 0) const;
  /// Sizes of an input that may not differ.
  Integers fixed_sizes(std::size_t i, std::int64_t from) const;
  /// `dim` counted from the front.
  std::int64_t wrapped(std::int64_t dim, std::int64_t rank) const { return dim < 0 ? dim + rank : dim; }

  // Nodes.

  std::string value(std::string_view op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
    return graph_.value(op, std::move(inputs), std::move(attributes));
  }
  std::string scalar(core::Scalar number) { return graph_.scalar(number, dtype()); }
  std::string cast(const std::string& name, core::DType from, core::DType to);
  /// The name of an output.
  void set(const std::string& name, std::size_t i = 0);

 private:
  const core::detail::TracedValue& value(std::ptrdiff_t place) const {
    return passes_.first.values()[static_cast<std::size_t>(place)];
  }
  SizeTerm explained(const std::vector<std::int64_t>& values) const;
  std::vector<SizeTerm> sizes_of(std::ptrdiff_t place) const;
  /// What `read` takes from an attribute. Error(unsupported) where a pass has another one.
  template <class Read>
  auto unchanged(std::string_view key, Read read) const;

  Graph& graph_;
  Passes& passes_;
  std::size_t op_;
};

/// The number of a dtype in TensorProto. Error(unsupported) for one that ONNX does not have.
std::int64_t type_number(core::DType dtype);

/// Writes the operators of one step. Error(unsupported) where there are none.
void write_step(Step& step);

/// Who has one of these: by the names in a trace.
using Writer = void (*)(Step& step);
struct NamedWriter {
  std::string_view name;
  Writer write;
};
std::vector<NamedWriter> elementwise_writers();
std::vector<NamedWriter> layer_writers();
std::vector<NamedWriter> shape_writers();
std::vector<NamedWriter> reduction_writers();
std::vector<NamedWriter> indexing_writers();
std::vector<NamedWriter> window_writers();
std::vector<NamedWriter> recurrent_writers();

}  // namespace ckpt::onnx
