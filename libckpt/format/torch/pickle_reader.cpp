#include "libckpt/format/torch/pickle_reader.h"

#include "libckpt/format/torch/first_few.h"
#include "libckpt/format/torch/pickle_machine.h"
#include "libckpt/hint.h"
#include "libcore/base/text.h"

namespace ckpt {

PickleGraph read_pickle(core::ByteVector pickle, const Limits& limits, PickleIds ids) {
  PickleMachine machine(std::move(pickle), limits, ids);
  try {
    return machine.run();
  } catch (const core::Error& error) {
    std::vector<std::string> unknown = unknown_symbols(machine.graph(), SymbolRole::foreign);
    if (unknown.empty()) throw;
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
