// Pickles: one, several back to back, a legacy stream, and text that might be one.

#include <algorithm>
#include <map>

#include "libckpt/format/pickle_arrays/joblib_runs.h"
#include "libckpt/format/scan_walk.h"
#include "libckpt/format/torch/dangerous_symbols.h"
#include "libckpt/format/torch/legacy_stream.h"
#include "libckpt/format/torch/pickle_extent.h"
#include "libckpt/format/torch/pickle_machine.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kLegacyPickles = 5;
constexpr std::string_view kLoadBytes = "torch.storage._load_from_bytes";

constexpr std::size_t kCallsShown = 3;  // of one symbol

SymbolVerdict verdict_of(const PickleSymbol& symbol) {
  if (symbol.role < SymbolRole::inert) return SymbolVerdict::allowed;
  if (symbol.role == SymbolRole::inert) return SymbolVerdict::inert;
  return is_dangerous(symbol.full) ? SymbolVerdict::dangerous : SymbolVerdict::foreign;
}

/// Unpickles bytes that it is given, so what they say counts as said by this pickle.
bool loads_bytes(std::string_view symbol) {
  return symbol == kLoadBytes || symbol == "pickle.loads" || symbol == "_pickle.loads" || symbol == "cPickle.loads" ||
         symbol == "dill.loads" || symbol == "dill._dill.loads" || symbol == "cloudpickle.loads";
}

core::ByteVector read_range(const ByteSource& source, std::uint64_t offset, std::uint64_t length) {
  core::ByteVector bytes(length);
  source.read(offset, bytes);
  return bytes;
}

}  // namespace

void ScanWalk::note_symbols(const PickleGraph& graph, ScannedPickle& out) {
  std::map<std::string_view, std::vector<NodeId>> calls;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) == NodeKind::call) calls[graph.symbol(graph.call(id).callable).full].push_back(id);
  }
  for (const PickleSymbol& symbol : graph.symbols()) {
    const std::vector<NodeId>& made = calls[symbol.full];
    ScannedSymbol seen{symbol.full, verdict_of(symbol), made.size()};
    if (seen.verdict == SymbolVerdict::foreign) {
      std::string how = made.empty() ? "it names " : "it calls ";
      finding(out.where, how + core::quote(symbol.full) + ", which is not known to be safe", FindingKind::foreign);
    } else if (seen.verdict == SymbolVerdict::dangerous) {
      for (std::size_t i = 0; i < std::min(made.size(), kCallsShown); ++i) {
        seen.call_texts.push_back(call_text(graph, made[i]));
        finding(out.where, "it calls " + seen.call_texts.back(), FindingKind::danger);
      }
      if (made.empty()) finding(out.where, "it names " + core::quote(symbol.full), FindingKind::danger);
    }
    out.symbols.push_back(std::move(seen));
  }
}

/// getattr(class, 'NAME') is how Python writes a member of an enumeration; anything else reaches for code.
void ScanWalk::check_getattr(const PickleGraph& graph, const std::string& where) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) != NodeKind::call) continue;
    if (graph.symbol(graph.call(id).callable).full != "builtins.getattr") continue;
    std::span<const NodeId> args = graph.children(graph.call(id).args);
    bool plain = args.size() == 2 && graph.kind(args[0]) == NodeKind::global && graph.kind(args[1]) == NodeKind::text &&
                 !graph.text(args[1]).starts_with("__");
    if (!plain) finding(where, "it calls " + call_text(graph, id), FindingKind::danger);
  }
}

ScanWalk::PickleYield ScanWalk::yield_of(const PickleGraph& graph) {
  PickleYield yield;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.kind(id) == NodeKind::persistent) {
      NodeId tuple = graph.persistent_id(id);
      bool keyed = graph.kind(tuple) == NodeKind::tuple && graph.children(tuple).size() > 2;
      NodeId key = keyed ? graph.children(tuple)[2] : kNoNode;
      if (keyed && graph.kind(key) == NodeKind::text) yield.storages.emplace_back(graph.text(key));
    }
    bool loads = graph.kind(id) == NodeKind::call && loads_bytes(graph.symbol(graph.call(id).callable).full);
    if (!loads) continue;
    for (NodeId arg : graph.children(graph.call(id).args)) {
      if (graph.kind(arg) != NodeKind::bytes) continue;
      yield.inner.emplace_back(graph.bytes(arg).begin(), graph.bytes(arg).end());
    }
  }
  return yield;
}

/// What was seen up to an error counts as well as the error.
ScanWalk::PickleYield ScanWalk::pickle(core::ByteVector bytes, const std::string& where, PickleIds ids, bool complete) {
  ++result_.parts;
  ScannedPickle out{where, bytes.size(), false, {}};
  PickleMachine machine(std::move(bytes), limits_, ids);
  PickleYield yield;
  core::ByteVector rest;
  auto look = [&](const PickleGraph& graph) {
    note_symbols(graph, out);
    check_getattr(graph, where);
    yield = yield_of(graph);
  };
  try {
    PickleGraph graph = machine.run();
    out.complete = complete && graph.consumed() == out.bytes;
    look(graph);
    if (graph.consumed() < out.bytes) {
      unread(where, core::format_size(out.bytes - graph.consumed()) + " after the end of the pickle");
      core::Bytes behind = graph.pickle().subspan(graph.consumed());
      rest.assign(behind.begin(), behind.end());
    }
  } catch (const Error& error) {
    look(machine.graph());
    // No program that saves data writes such a pickle: what it calls is computed while it is read.
    if (machine.hides_calls()) finding(where, error.message(), FindingKind::danger);
    unread(where, error.what(), hint_of(error));
  }
  yield.complete = out.complete;
  result_.pickles.push_back(std::move(out));
  if (!rest.empty()) pickle_sequence(memory_source(std::move(rest)), join(where, "after its end"), ids, UINT64_MAX);
  return yield;
}

void ScanWalk::inner_pickles(const PickleYield& yield, const std::string& where) {
  for (const core::ByteVector& bytes : yield.inner) {
    content(memory_source(bytes), join(where, "pickled bytes"));
  }
}

std::uint64_t ScanWalk::pickle_sequence(const SourcePtr& source, const std::string& where, PickleIds ids,
                                        std::uint64_t count) {
  std::uint64_t position = 0;
  for (std::uint64_t number = 1; number <= count && position < source->size(); ++number) {
    PickleExtent extent = find_pickle_end(*source, position, limits_);
    if (number > 1 && extent.length < 2) return position;  // data, not a pickle
    std::string part = number == 1 && extent.length == source->size()
                           ? where
                           : join(where, "pickle " + std::to_string(number) + " at byte " + std::to_string(position));
    std::uint64_t length = std::min(extent.length, limits_.max_pickle_bytes);
    PickleYield yield =
        pickle(read_range(*source, position, length), part.empty() ? "pickle" : part, ids, extent.complete);
    inner_pickles(yield, part);
    if (!yield.complete) return position + length;
    position += length;
  }
  return position;
}

/// Without the values of arrays that lie between the opcodes. False for a file that has none, or in which they might
/// be run by a program that takes it for a plain pickle.
bool ScanWalk::joblib_pickle(const SourcePtr& source, const std::string& where) {
  constexpr std::uint64_t kLooked = 64 << 10;
  if (!names_joblib(core::as_text(read_range(*source, 0, std::min(kLooked, source->size()))))) return false;
  JoblibRuns runs(*source, limits_);
  PickleOutline outline;
  try {
    outline = outline_pickle(*source, limits_, &runs);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    return false;
  }
  if (!runs.end_plain_readers() || outline.length != source->size()) return false;
  inner_pickles(pickle(std::move(outline.pickle), where.empty() ? "pickle" : where, PickleIds::storages), where);
  return true;
}

void ScanWalk::bare_pickles(const SourcePtr& source, const std::string& where) {
  if (joblib_pickle(source, where)) return;
  std::size_t before = result_.pickles.size();
  std::uint64_t end = pickle_sequence(source, where, PickleIds::storages, UINT64_MAX);
  if (end < source->size()) {
    unread(where, core::format_size(source->size() - end) + " after the last pickle were not analysed");
  }
  if (result_.pickles.size() > before + 1) {
    finding(where, "several pickles follow one another, and they are not a PyTorch stream");
  }
}

/// The five pickles, then the storages, which must end with the file.
void ScanWalk::legacy_stream(const SourcePtr& source, const std::string& where) {
  std::size_t before = result_.unread.size();
  pickle_sequence(source, where, PickleIds::legacy, kLegacyPickles);
  if (result_.unread.size() > before) return;
  guarded(where, [&] {
    OpenOptions options;
    options.limits = limits_;
    LegacyStorages(source, read_legacy_pickles(source, options, SymbolCheck::carry), options);
  });
}

/// The oldest pickles are text. Returns true when this one names symbols, or is a whole pickle.
bool ScanWalk::text_with_symbols(const SourcePtr& source, const std::string& where) {
  PickleExtent extent = find_pickle_end(*source, 0, limits_);
  std::uint64_t length = std::min({extent.length, limits_.max_pickle_bytes, kMaxScannedUnknown});
  core::ByteVector bytes = read_range(*source, 0, length);
  bool whole = extent.complete && extent.length > 1;
  PickleMachine machine(bytes, limits_);
  bool names = false;
  try {
    names = !machine.run().symbols().empty();
  } catch (const Error&) {
    names = !machine.graph().symbols().empty();
    whole = false;
  }
  if (!names && !whole) return false;
  bare_pickles(source, where);
  return true;
}

}  // namespace ckpt::detail
