#include "libckpt/onnx/export.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "libckpt/onnx/model_file.h"
#include "libckpt/onnx/step.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/forward_trace.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"

namespace ckpt::onnx {
namespace {

using core::Tensor;
using core::detail::OpTrace;
using core::detail::TracedOp;
using core::detail::TracedValue;
using core::detail::TraceSource;

[[noreturn]] void fail(core::ErrorCode code, const std::string& message) {
  throw core::Error(code, "ONNX export: " + message);
}

std::vector<std::string> names_of(const char* what, std::vector<std::string> given, std::size_t count) {
  if (given.empty() && count == 1) return {what};
  for (std::size_t i = 0; given.size() < count && given.size() == i; ++i) {
    given.push_back(std::string(what) + "_" + std::to_string(i));
  }
  if (given.size() == count) return given;
  fail(core::ErrorCode::usage,
       std::to_string(given.size()) + " names are given for " + std::to_string(count) + " " + what + "s");
}

void check_names(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::set<std::string> taken;
  for (const auto* names : {&inputs, &outputs}) {
    for (const std::string& name : *names) {
      if (name.empty()) fail(core::ErrorCode::usage, "an input or output has an empty name");
      if (!taken.insert(name).second) {
        fail(core::ErrorCode::usage, "two inputs or outputs are called " + core::quote(name));
      }
    }
  }
}

/// What a size is in the first pass and in its own. A batch of one behaves like no batch in places, so it is none of
/// them. A text gets shorter, as it may be as long as the model allows; all else gets larger. Twice or half as large:
/// a part of a size, rounded, is then no whole number times it, and is not taken for one.
NamedSize two_sizes(const std::string& name, const std::string& input, const Tensor& example, std::int64_t axis) {
  const std::int64_t size = axis == 0 ? std::max<std::int64_t>(example.size(0), 2) : example.size(axis);
  const std::int64_t step = axis == 0 || example.is_floating_point() ? size : -(size / 2);
  return {name, input, axis, size, size + step};
}

std::vector<NamedSize> named_sizes(const core::NamedTensors& inputs, const DynamicAxes& dynamic) {
  std::vector<NamedSize> sizes;
  for (const auto& [input, axes] : dynamic) {
    const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& one) { return one.first == input; });
    if (found == inputs.end()) {
      fail(core::ErrorCode::usage, "dynamic_axes names the input " + core::quote(input) + ", which is not there");
    }
    for (const auto& [axis, name] : axes) {
      if (axis < 0 || axis >= found->second.dim()) {
        fail(core::ErrorCode::usage, "input " + core::quote(input) + " has no axis " + std::to_string(axis));
      }
      const auto named = [n = name](const NamedSize& one) { return one.name == n; };
      if (std::any_of(sizes.begin(), sizes.end(), named)) continue;
      sizes.push_back(two_sizes(name, input, found->second, axis));
      if (sizes.back().second >= 2) continue;
      fail(core::ErrorCode::usage, "axis " + std::to_string(axis) + " of input " + core::quote(input) +
                                       " may differ: give an example of at least 3 there");
    }
  }
  return sizes;
}

/// The example with its dynamic axes as large as in one of the passes: its rows again and again.
Tensor sized(const Tensor& example, const std::map<std::int64_t, std::string>& axes,
             const std::vector<NamedSize>& sizes, std::size_t pass) {
  Tensor x = example;
  for (const auto& [axis, name] : axes) {
    const auto found = std::find_if(sizes.begin(), sizes.end(), [n = name](const auto& one) { return one.name == n; });
    const bool own = pass == static_cast<std::size_t>(found - sizes.begin()) + 1;
    const std::int64_t wanted = own ? found->second : found->first, there = example.size(axis);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < wanted; ++i) rows.push_back(i % there);
    x = core::index_select(x, axis, core::from_values(rows, {.device = x.device()}));
  }
  return x;
}

/// Of the first pass (0), or of that of a size.
core::NamedTensors inputs_of(const core::NamedTensors& examples, const DynamicAxes& dynamic,
                             const std::vector<NamedSize>& sizes, std::size_t pass) {
  core::NamedTensors inputs;
  for (const auto& [name, example] : examples) {
    const auto axes = dynamic.find(name);
    Tensor x = axes == dynamic.end() ? example : sized(example, axes->second, sizes, pass);
    // Other values, so that a number that was read out of them shows; of integers none that the example has not.
    if (pass > 0 && x.is_floating_point()) x = x * 0.5;
    if (pass > 0 && !x.is_floating_point() && x.dim() > 0) x = core::flip(x, {-1});
    inputs.emplace_back(name, x.is_same(example) ? x.clone() : x);
  }
  return inputs;
}

std::string module_text(const std::string& module) {
  return module.empty() ? "the model itself" : "module " + core::quote(module);
}

/// That everything which sees the inputs is in the trace.
void check_traced(const OpTrace& trace) {
  if (trace.has_hidden_casts()) {
    fail(core::ErrorCode::unsupported,
         "the model runs under autocast, whose casts a trace does not see: export it outside of the guard");
  }
  if (trace.untraced().empty()) return;
  const core::detail::UntracedOp& first = trace.untraced().front();
  const bool reads = first.name == "item" || first.name == "to_vector";
  fail(core::ErrorCode::unsupported, module_text(first.module) +
                                         (reads ? " decides by the values of its inputs ("
                                                : " calls an operation that has no operator in ONNX here (") +
                                         core::quote(first.name) + ")");
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  const Tensor x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  return std::memcmp(x.raw_data(), y.raw_data(), static_cast<std::size_t>(x.nbytes())) == 0;
}

bool same_ranks(const OpTrace& a, const OpTrace& b, const TracedOp& op) {
  return std::all_of(op.outputs.begin(), op.outputs.end(), [&](std::ptrdiff_t place) {
    const auto at = static_cast<std::size_t>(place);
    return place < 0 || a.values()[at].tensor.dim() == b.values()[at].tensor.dim();
  });
}

/// That two passes did the same.
void check_alike(const OpTrace& a, const OpTrace& b) {
  const std::size_t common = std::min(a.ops().size(), b.ops().size());
  for (std::size_t i = 0; i < common; ++i) {
    const TracedOp &x = a.ops()[i], &y = b.ops()[i];
    if (x.name == y.name && x.inputs == y.inputs && x.outputs == y.outputs && same_ranks(a, b, x)) continue;
    fail(core::ErrorCode::unsupported, module_text(x.module) + " does other things for other inputs (" +
                                           core::quote(x.name) + " or " + core::quote(y.name) + ")");
  }
  if (a.ops().size() == b.ops().size()) return;
  const OpTrace& longer = a.ops().size() > common ? a : b;
  fail(core::ErrorCode::unsupported, module_text(longer.ops()[common].module) +
                                         " does other things for other inputs (" +
                                         core::quote(longer.ops()[common].name) + " or nothing)");
}

/// That there are outputs, the same ones in all passes.
void check_outputs(const std::vector<core::ForwardTrace>& passes) {
  if (passes[0].outputs.empty()) fail(core::ErrorCode::usage, "the model gives no output");
  for (const core::ForwardTrace& pass : passes) {
    if (pass.outputs != passes[0].outputs) {
      fail(core::ErrorCode::unsupported, "the model itself gives other outputs for other inputs");
    }
  }
  for (std::size_t i = 0; i < passes[0].outputs.size(); ++i) {
    if (passes[0].outputs[i] < 0) {
      fail(core::ErrorCode::usage, "output " + std::to_string(i) + " of the model is an undefined tensor");
    }
  }
}

/// The passes of one module, and the graph that becomes of them.
class Exporter {
 public:
  Exporter(const std::vector<core::ForwardTrace>& passes, Graph& graph)
      : passes_{*passes[0].trace, {}}, outputs_(passes[0].outputs), graph_(graph) {
    for (std::size_t i = 1; i < passes.size(); ++i) passes_.others.push_back(passes[i].trace.get());
    passes_.names.resize(passes_.first.values().size());
  }

  void run(const std::vector<std::string>& output_names) {
    name_inputs();
    for (const std::string& name : output_names) graph_.unique(name);
    name_state();
    mark_needed();
    for (std::size_t i = 0; i < passes_.first.ops().size(); ++i) {
      if (needed_[i]) write(i);
    }
    write_outputs(output_names);
    for (std::size_t i = 0; i < passes_.first.values().size(); ++i) {
      const TracedValue& value = passes_.first.values()[i];
      if (value.source == TraceSource::state && value.op < 0 && used_[i])
        graph_.initializer(passes_.names[i], value.tensor);
    }
  }

 private:
  const TracedValue& value(std::ptrdiff_t place) const {
    return passes_.first.values()[static_cast<std::size_t>(place)];
  }

  void name_inputs() {
    for (std::size_t i = 0; i < passes_.first.values().size(); ++i) {
      const TracedValue& value = passes_.first.values()[i];
      if (value.op >= 0 || value.source != TraceSource::input) continue;
      passes_.names[i] = graph_.unique(value.name);
      graph_.model_inputs.push_back(described(value.name, static_cast<std::ptrdiff_t>(i)));
    }
  }

  void name_state() {
    for (std::size_t i = 0; i < passes_.first.values().size(); ++i) {
      const TracedValue& value = passes_.first.values()[i];
      if (value.op < 0 && value.source == TraceSource::state) passes_.names[i] = graph_.unique(value.name);
    }
  }

  ValueInfo described(const std::string& name, std::ptrdiff_t place) const {
    const Tensor& tensor = value(place).tensor;
    ValueInfo info{.name = name, .dtype = tensor.dtype(), .sizes = {}};
    for (std::size_t d = 0; d < tensor.sizes().size(); ++d) {
      const auto term = explain(passes_.sizes_of(place, d), graph_.sizes());
      if (term && term->is_constant()) {
        info.sizes.emplace_back(term->offset);
      } else {
        info.sizes.emplace_back(term ? text_of(*term, graph_.sizes()) : std::string("?"));
      }
    }
    return info;
  }

  /// Whether a value is the same in all passes and of nothing but constants.
  bool is_fixed(std::ptrdiff_t place) const {
    const TracedValue& one = value(place);
    if (one.source != TraceSource::constant || one.overwritten || one.follows_inputs) return false;
    return std::all_of(passes_.others.begin(), passes_.others.end(), [&](const OpTrace* pass) {
      return same_bytes(one.tensor, pass->values()[static_cast<std::size_t>(place)].tensor);
    });
  }

  /// From the outputs back: which operations are of use, and which values they read.
  void mark_needed() {
    needed_.resize(passes_.first.ops().size());
    used_.resize(passes_.first.values().size());
    std::vector<std::ptrdiff_t> open = outputs_;
    while (!open.empty()) {
      const std::ptrdiff_t place = open.back();
      open.pop_back();
      if (place < 0 || used_[static_cast<std::size_t>(place)]) continue;
      used_[static_cast<std::size_t>(place)] = true;
      const std::ptrdiff_t op = value(place).op;
      if (is_fixed(place)) continue;
      if (op < 0) {
        check_constant(place);
        continue;
      }
      needed_[static_cast<std::size_t>(op)] = true;
      const auto& inputs = passes_.first.ops()[static_cast<std::size_t>(op)].inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
  }

  /// What nothing in the trace made must be the same in all passes.
  void check_constant(std::ptrdiff_t place) const {
    if (value(place).source != TraceSource::constant) return;
    for (const TracedOp& op : passes_.first.ops()) {
      if (std::find(op.inputs.begin(), op.inputs.end(), place) == op.inputs.end()) continue;
      fail(core::ErrorCode::unsupported, module_text(op.module) + " gives " + core::quote(op.name) +
                                             " a tensor that follows the inputs in a way which cannot be seen");
    }
    fail(core::ErrorCode::unsupported, "an output does not come from the inputs");
  }

  void write(std::size_t i) {
    Step step(graph_, passes_, i);
    write_step(step);
  }

  void write_outputs(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const TracedValue& out = value(outputs_[i]);
      if (!out.changed_by.empty()) {
        fail(core::ErrorCode::unsupported, "output " + core::quote(names[i]) +
                                               " was changed in place through another tensor by " +
                                               core::quote(out.changed_by));
      }
      std::string from = passes_.names[static_cast<std::size_t>(outputs_[i])];
      if (from.empty()) from = graph_.constant(out.tensor);
      graph_.begin("", "output");
      graph_.node("Identity", {from}, {names[i]});
      graph_.model_outputs.push_back(described(names[i], outputs_[i]));
    }
  }

  Passes passes_;
  std::vector<std::ptrdiff_t> outputs_;
  Graph& graph_;
  std::vector<bool> needed_, used_;
};

/// "input (batch, 3, 224, 224)".
std::string text_of(const ValueInfo& value) {
  std::vector<std::string> sizes;
  for (const auto& size : value.sizes) {
    const auto* number = std::get_if<std::int64_t>(&size);
    sizes.push_back(number != nullptr ? std::to_string(*number) : std::get<std::string>(size));
  }
  return value.name + " (" + core::join(sizes, ", ") + ")";
}

/// Evaluation mode for a scope; each submodule has its own again afterwards.
class Evaluating {
 public:
  explicit Evaluating(core::Module& module) {
    for (core::Module* each : module.modules()) modes_.emplace_back(each, each->is_training());
    module.eval();
  }
  ~Evaluating() {
    for (const auto& [each, mode] : modes_) {
      if (mode != each->is_training()) each->train(mode);
    }
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<core::Module*, bool>> modes_;
};

}  // namespace

Exported export_model(core::Module& module, const std::vector<Tensor>& example_inputs,
                      const std::filesystem::path& path, const ExportOptions& options) {
  if (options.opset != 17 && options.opset != 18) {
    fail(core::ErrorCode::usage, "opset " + std::to_string(options.opset) + " is not written: 17 and 18 are");
  }
  const std::vector<std::string> input_names = names_of("input", options.input_names, example_inputs.size());
  core::NamedTensors examples;
  for (std::size_t i = 0; i < example_inputs.size(); ++i) examples.emplace_back(input_names[i], example_inputs[i]);
  const std::vector<NamedSize> sizes = named_sizes(examples, options.dynamic_axes);
  const Evaluating evaluating(module);
  std::vector<core::ForwardTrace> passes;
  for (std::size_t i = 0; i <= std::max<std::size_t>(sizes.size(), 1); ++i) {
    passes.push_back(core::trace_forward(module, inputs_of(examples, options.dynamic_axes, sizes, i), options.forward));
    check_traced(*passes[i].trace);
    check_alike(*passes[0].trace, *passes[i].trace);
  }
  check_outputs(passes);
  const std::vector<std::string> output_names = names_of("output", options.output_names, passes[0].outputs.size());
  check_names(input_names, output_names);
  Graph graph(options.opset, sizes);
  Exporter(passes, graph).run(output_names);
  const auto described = [](const std::vector<ValueInfo>& values) {
    std::vector<std::string> texts;
    for (const ValueInfo& one : values) texts.push_back(text_of(one));
    return texts;
  };
  return {.nodes = static_cast<std::int64_t>(graph.nodes().size()),
          .initializers = static_cast<std::int64_t>(graph.initializers().size()),
          .bytes = write_model(graph, path, {.external = options.external_data, .overwrite = options.overwrite}),
          .inputs = described(graph.model_inputs),
          .outputs = described(graph.model_outputs)};
}

}  // namespace ckpt::onnx
