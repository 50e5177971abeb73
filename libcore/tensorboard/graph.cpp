#include "libcore/tensorboard/graph.h"

#include <map>
#include <set>

#include "libcore/tensorboard/wire.h"

namespace core::tensorboard {
namespace {

using detail::OpTrace;
using detail::TracedOp;
using detail::TracedValue;
using detail::TraceSource;

std::string shape_bytes(const Shape& sizes) {
  std::string out;
  for (const std::int64_t size : sizes) {
    std::string dim;
    wire::integer(dim, 1, size);
    wire::bytes(out, 2, dim);
  }
  return out;
}

/// Names are scopes: classes of modules with their own names, as PyTorch has them.
class GraphWriter {
 public:
  GraphWriter(Module& module, const OpTrace& trace) : trace_(trace), names_(trace.values().size()) {
    for (const auto& [path, each] : module.named_modules()) classes_[path] = each->class_name();
  }

  std::string write(const std::vector<std::ptrdiff_t>& outputs) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const TracedValue& value = trace_.values()[i];
      if (value.op < 0 && value.source == TraceSource::input) {
        names_[i] = unique("input/" + value.name);
        node(names_[i], "IO Node", {}, {value.tensor.sizes()});
      }
    }
    for (const TracedOp& op : trace_.ops()) operation(op);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] < 0) continue;
      const std::string from = name_of(outputs[i], "");
      node(unique("output/output." + std::to_string(i + 1)), "IO Node", {from}, {value(outputs[i]).tensor.sizes()});
    }
    std::string versions;
    wire::integer(versions, 1, 22);
    wire::bytes(graph_, 4, versions);
    return graph_;
  }

 private:
  const TracedValue& value(std::ptrdiff_t place) const { return trace_.values()[static_cast<std::size_t>(place)]; }

  std::string unique(const std::string& wanted) {
    for (std::int64_t count = 0;; ++count) {
      std::string name = count == 0 ? wanted : wanted + "_" + std::to_string(count);
      if (taken_.insert(name).second) return name;
    }
  }

  /// "Net/Sequential[layers]/Linear[0]/" of "layers.0".
  std::string scope_of(const std::string& path) const {
    std::string scope = classes_.at("") + "/";
    for (std::size_t at = 0; at < path.size();) {
      const std::size_t end = std::min(path.find('.', at), path.size());
      const auto known = classes_.find(path.substr(0, end));
      const std::string own = path.substr(at, end - at);
      scope += (known == classes_.end() ? own : known->second + "[" + own + "]") + "/";
      at = end + 1;
    }
    return scope;
  }

  /// A parameter, buffer or constant gets its node where it is read first.
  std::string name_of(std::ptrdiff_t place, const std::string& module) {
    std::string& name = names_[static_cast<std::size_t>(place)];
    if (!name.empty()) return name;
    const TracedValue& one = value(place);
    const bool is_state = one.source == TraceSource::state && !one.name.empty();
    const std::size_t dot = one.name.rfind('.');
    const std::string owner = dot == std::string::npos ? "" : one.name.substr(0, dot);
    name = unique(is_state ? scope_of(owner) + one.name.substr(dot == std::string::npos ? 0 : dot + 1)
                           : scope_of(module) + "constant");
    node(name, is_state ? "prim::GetAttr" : "prim::Constant", {}, {one.tensor.sizes()});
    return name;
  }

  void operation(const TracedOp& op) {
    std::vector<std::string> inputs;
    for (const std::ptrdiff_t place : op.inputs) {
      if (place >= 0) inputs.push_back(name_of(place, op.module));
    }
    const std::string name = unique(scope_of(op.module) + op.name);
    std::vector<Shape> sizes;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i] < 0) continue;
      names_[static_cast<std::size_t>(op.outputs[i])] = i == 0 ? name : name + ":" + std::to_string(i);
      sizes.push_back(value(op.outputs[i]).tensor.sizes());
    }
    node(name, "aten::" + op.name, inputs, sizes);
  }

  void node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
            const std::vector<Shape>& sizes) {
    std::string shapes, list, entry, out;
    for (const Shape& each : sizes) wire::bytes(shapes, 7, shape_bytes(each));
    wire::bytes(list, 1, shapes);
    wire::bytes(entry, 1, "_output_shapes");
    wire::bytes(entry, 2, list);
    wire::bytes(out, 1, name);
    wire::bytes(out, 2, op);
    for (const std::string& input : inputs) wire::bytes(out, 3, input);
    wire::bytes(out, 5, entry);
    wire::bytes(graph_, 1, out);
  }

  const OpTrace& trace_;
  std::vector<std::string> names_;  ///< of values
  std::map<std::string, std::string> classes_;
  std::set<std::string> taken_;
  std::string graph_;
};

}  // namespace

std::string graph_of(Module& module, const ForwardTrace& traced) {
  return GraphWriter(module, *traced.trace).write(traced.outputs);
}

}  // namespace core::tensorboard
