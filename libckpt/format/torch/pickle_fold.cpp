#include "libckpt/format/torch/pickle_fold.h"

#include "libckpt/format/torch/pickle_machine.h"
#include "libckpt/format/torch/pickle_reader.h"

namespace ckpt {

void PickleMachine::watch(NodeId call, const PickleGraph::Extent& before) {
  watched_ = {call, before, stack_.size(), memo_.size(), opcodes_};
}

void PickleMachine::empty_tuple() {
  NodeId id = fold_ != nullptr && no_arguments_ != kNoNode ? no_arguments_ : graph_.add_tuple({});
  no_arguments_ = id;
  push(id);
}

/// Texts and symbols that the memo has stay: first uses of words that all later objects share.
void PickleMachine::fold_watched() {
  Watched watched = std::exchange(watched_, {});
  if (stack_.size() != watched.height) return;
  std::optional<std::uint64_t> taken = fold_->take(graph_, watched.object);
  if (!taken) return;
  std::vector<std::pair<std::size_t, PickleNode>> kept;
  for (std::size_t i = watched.memo; i < memo_.size(); ++i) {
    NodeId id = memo_[i];
    if (id == kNoNode || id <= watched.object) continue;
    NodeKind kind = graph_.kind(id);
    memo_[i] = kNoNode;
    if (kind == NodeKind::text || kind == NodeKind::global) kept.emplace_back(i, graph_.node(id));
  }
  if (no_arguments_ > watched.object) no_arguments_ = kNoNode;
  graph_.fold(watched.object, watched.before, *taken);
  for (const auto& [i, node] : kept) memo_[i] = graph_.add(node);
  opcodes_ = watched.opcodes;
}

std::optional<PickleGraph> read_pickle(core::ByteVector pickle, const Limits& limits, PickleFold& fold) {
  PickleMachine machine(std::move(pickle), limits);
  machine.fold_with(fold);
  try {
    return machine.run();
  } catch (const FoldedAway&) {
    return std::nullopt;
  }
}

}  // namespace ckpt
