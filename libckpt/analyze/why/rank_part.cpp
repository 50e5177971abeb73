#include "libckpt/analyze/why/rank_part.h"

#include <string_view>
#include <unordered_set>

#include "libckpt/entry.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

bool is_in_module(std::string_view symbol, std::string_view name) {
  return symbol.starts_with("torch.distributed.") && symbol.ends_with(name);
}

/// Processes in the mesh: a list of ranks, or, before PyTorch had that, a tensor of them.
std::optional<std::uint64_t> mesh_size(const Value& state) {
  const Value* ranks = state.find("_flatten_rank_map");
  if (ranks != nullptr && ranks->is_sequence()) return ranks->as_list().size();
  const Value* mesh = state.find("mesh");
  if (mesh == nullptr || !mesh->is(Value::Kind::tensor)) return std::nullopt;
  return core::try_numel(mesh->as_entry().shape.span());
}

class Search {
 public:
  void run(const Value& root) {
    push(root);
    while (!todo_.empty()) {
      const Value* here = todo_.back();
      todo_.pop_back();
      if (here->is(Value::Kind::dict)) push_items(here->as_dict().items);
      if (here->is_sequence()) push_all(here->as_list());
      if (here->is(Value::Kind::object)) look_at(here->as_object());
    }
  }
  bool split() const { return tensor_ && shard_; }
  const RankPart& part() const { return part_; }

 private:
  void push(const Value& value) {
    if (value.identity() != nullptr && seen_.insert(value.identity()).second) todo_.push_back(&value);
  }
  void push_all(const Value::List& values) {
    for (const Value& value : values) push(value);
  }
  void push_items(const std::vector<std::pair<Value, Value>>& items) {
    for (const auto& [key, value] : items) push(value);
  }

  void look_at(const Object& object) {
    tensor_ |= is_in_module(object.symbol, ".DTensor");
    shard_ |= is_in_module(object.symbol, "Shard");  // _StridedShard too
    if (is_in_module(object.symbol, ".DeviceMesh") && object.has_state) note_mesh(object.state);
    for (const Value* child : {&object.args, &object.kwargs, &object.state}) push(*child);
    push_all(object.appended);
    push_items(object.items);
  }

  void note_mesh(const Value& state) {
    const Value* rank = state.find("_rank");
    if (!part_.rank && rank != nullptr && rank->is(Value::Kind::integer)) part_.rank = rank->as_integer();
    if (!part_.of) part_.of = mesh_size(state);
  }

  std::vector<const Value*> todo_;
  std::unordered_set<const void*> seen_;
  RankPart part_;
  bool tensor_ = false;
  bool shard_ = false;
};

}  // namespace

std::optional<RankPart> rank_part(const Value& root) {
  Search search;
  search.run(root);
  return search.split() ? std::optional<RankPart>(search.part()) : std::nullopt;
}

Cause rank_cause(const RankPart& part) {
  std::string who = part.rank ? "rank " + std::to_string(*part.rank) : "one rank";
  if (part.of) who += " of " + core::format_count(*part.of);
  Cause cause{CauseKind::rank_part, "the file holds only the part of the model that " + who +
                                        " had: its tensors are DTensors, split between processes"};
  cause.advice =
      "with the files of all ranks in one folder, and the rank at the end of their names, name that folder: its files "
      "are read joined; else save the whole model: in every process state = "
      "torch.distributed.checkpoint.state_dict.get_model_state_dict("
      "model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)), then torch.save(state, ...) on rank 0";
  return cause;
}

}  // namespace ckpt::detail
