#pragma once
// What of the names that no table allows is an attack, and not merely the class of somebody's project: functions that
// run code, start programs, reach the network, write files, or fetch such functions under another name.
// Thread safety: pure functions. Use: if (is_dangerous("posix.system")) ...

#include <string>
#include <string_view>

#include "libckpt/format/torch/pickle_graph.h"

namespace ckpt {

/// `symbol` is "module.name", Python 2 names normalised. False says only that the name is not known as an attack.
bool is_dangerous(std::string_view symbol);

/// "posix.system('curl ...')": a call with its arguments, as Python would write it, escaped and shortened. Bounded
/// work.
std::string call_text(const PickleGraph& graph, NodeId call);

}  // namespace ckpt
