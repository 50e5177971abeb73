#include "libckpt/format/torch/pickle_reader.h"

#include <algorithm>

#include "libckpt/format/torch/first_few.h"
#include "libckpt/format/torch/pickle_machine.h"
#include "libckpt/hint.h"
#include "libcore/base/text.h"

namespace ckpt {

namespace {

/// FSDP1 with LOCAL_STATE_DICT or SHARDED_STATE_DICT, saved by torch.save: parts of one rank, around a process group.
bool names_shards(const PickleGraph& graph) {
  return std::ranges::any_of(graph.symbols(), [](const PickleSymbol& symbol) {
    return symbol.full == "torch.distributed._shard.sharded_tensor.api.ShardedTensor";
  });
}

}  // namespace

PickleGraph read_pickle(core::ByteVector pickle, const Limits& limits, PickleIds ids) {
  PickleMachine machine(std::move(pickle), limits, ids);
  try {
    return machine.run();
  } catch (const core::Error& error) {
    std::vector<std::string> unknown = unknown_symbols(machine.graph(), SymbolRole::foreign);
    if (unknown.empty()) throw;
    if (error.code() == core::ErrorCode::refused && names_shards(machine.graph())) {
      throw core::Error(core::ErrorCode::unsupported,
                        "the file holds one rank's parts of an FSDP model (ShardedTensor), which are not read; where "
                        "the model runs, torch.distributed.checkpoint.save() writes a folder of all ranks that is, and "
                        "StateDictType.FULL_STATE_DICT gives rank 0 a state dict of whole tensors");
    }
    throw HintedError(error.code(), error.message() + "; before that it names " + first_few(unknown), hint_of(error));
  }
}

std::vector<std::string> unknown_symbols(const PickleGraph& graph, SymbolRole role) {
  std::vector<std::string> names;
  for (const PickleSymbol& symbol : graph.symbols()) {
    if (symbol.role >= role) names.push_back(core::quote(symbol.full));
  }
  return names;
}

}  // namespace ckpt
