#pragma once
// What one forward pass of a module did, as a GraphDef message. Internal to tensorboard. Thread safety: as the
// module's own calls. Use: std::string bytes = graph_of(net, trace_forward(net, {{"input", x}}, {}));

#include <string>

#include "libcore/module/forward_trace.h"

namespace core::tensorboard {

std::string graph_of(Module& module, const ForwardTrace& traced);

}  // namespace core::tensorboard
