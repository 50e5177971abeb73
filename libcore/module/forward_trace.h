#pragma once
// One forward pass of a module as a list of operations, with the names of inputs, parameters, buffers and of the
// submodule that each operation is in. For what draws or exports a model. Thread safety: as the module's own calls;
// nothing else may call it meanwhile. Use: core::ForwardTrace t = core::trace_forward(net, {{"x", x}}, {});
// t.trace->ops()

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/module/module_base.h"
#include "libcore/tensor/op_trace.h"

namespace core {

/// How a module is run on its inputs, and which outputs count.
using TracedForward = std::function<std::vector<Tensor>(Module& module, const std::vector<Tensor>& inputs)>;

struct ForwardTrace {
  std::unique_ptr<detail::OpTrace> trace;
  std::vector<std::ptrdiff_t> outputs;  ///< places in trace->values()
};

/// Runs `forward` without history, in the mode that the module has; without one, Module::call on the only input.
/// Error(usage) while this thread traces already; those of the call.
ForwardTrace trace_forward(Module& module, const NamedTensors& inputs, const TracedForward& forward);

}  // namespace core
