#pragma once
// From a PickleGraph to the checkpoint model: containers become Values, rebuild calls become tensors, known classes
// become typed data, and everything else that a table knows is carried as an inert Object. Shared by all torch
// containers. Thread safety: pure. Use: Value root = to_value(graph, provider, options);

#include "libckpt/format/torch/pickle_graph.h"
#include "libckpt/format/torch/rebuild.h"
#include "libckpt/open_save.h"

namespace ckpt {

/// Errors: Error(refused) naming every symbol that no table knows, unless options.foreign_objects keeps them (each is
/// then in the report); Error(corrupt | unsupported) with the path inside the data as context.
Value to_value(const PickleGraph& graph, StorageProvider& storages, const OpenOptions& options);

}  // namespace ckpt
