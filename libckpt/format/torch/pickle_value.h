#pragma once
// From a PickleGraph to the checkpoint model: containers become Values, rebuild calls become tensors, known classes
// become typed data, and everything else that a table knows is carried as an inert Object. Shared by all torch
// containers. Thread safety: pure. Use: Value root = to_value(graph, provider, options);

#include "libckpt/format/torch/pickle_graph.h"
#include "libckpt/format/torch/rebuild.h"
#include "libckpt/options.h"
#include "libckpt/value.h"

namespace ckpt {

/// Errors: Error(refused) naming every symbol that no table knows, unless options.foreign_objects keeps them (each is
/// then in the report); Error(corrupt | unsupported) with the path inside the data as context.
Value to_value(const PickleGraph& graph, StorageProvider& storages, const OpenOptions& options);

/// What to do about symbols that are not accepted.
enum class SymbolCheck : std::uint8_t {
  refuse,  ///< as the options say
  carry,   ///< for verification alone: every symbol is inert data, and somebody else reports it
};

/// The check that to_value() begins with. Errors: Error(refused) naming every symbol that is not accepted.
void require_known_symbols(const PickleGraph& graph, const OpenOptions& options);
Value to_value(const PickleGraph& graph, StorageProvider& storages, const OpenOptions& options, SymbolCheck check);

}  // namespace ckpt
