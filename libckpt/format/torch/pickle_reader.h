#pragma once
// Reads one pickle (protocols 0 to 5) into a PickleGraph. It is a stack machine that only builds data: no name is
// looked up and no call is made, whatever the pickle says. Iterative; every number is checked against the bytes that
// are there and against the limits. Thread safety: pure. Use: PickleGraph graph = read_pickle(read_all(*record),
// limits);

#include "libckpt/format/torch/pickle_graph.h"
#include "libckpt/limits.h"

namespace ckpt {

/// What a pickle's persistent ids may mean besides storages.
enum class PickleIds : std::uint8_t {
  storages,  ///< ('storage', ...) alone: zip files
  legacy,    ///< also ('module', class, file, source): stands for the class; the source text is never looked at
  tar,       ///< numbers of tensors and storages; (class, file, source) stands for the class
};

/// Reads up to STOP; graph.consumed() says where that was.
/// Errors: Error(corrupt) for a stream that contradicts itself, Error(refused) for what is never accepted (extension
/// codes, out-of-band buffers, computed callables) and for limits. When symbols outside the tables were seen before the
/// error, the message names them.
PickleGraph read_pickle(core::ByteVector pickle, const Limits& limits, PickleIds ids = PickleIds::storages);

/// Quoted names of the symbols whose role is `role` or worse (SymbolRole::foreign: all that no table knows).
std::vector<std::string> unknown_symbols(const PickleGraph& graph, SymbolRole role);

}  // namespace ckpt
