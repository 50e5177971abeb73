#pragma once
// ValueBuilder: the work behind to_value(). Thread safety: one owner.
// Use: ValueBuilder(graph, storages, options).run()

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libckpt/format/torch/call_args.h"
#include "libckpt/format/torch/graph_audit.h"
#include "libckpt/format/torch/rebuild.h"
#include "libckpt/options.h"
#include "libckpt/value.h"

namespace ckpt {

/// Builds one Value tree. Recursion is bounded: the audit has checked the depth and that there is no cycle.
class ValueBuilder {
 public:
  ValueBuilder(const PickleGraph& graph, StorageProvider& storages, const OpenOptions& options)
      : graph_(graph),
        audit_(graph, options.limits),
        rebuilder_(graph, storages, options.limits),
        limits_(options.limits),
        report_(options.report) {}

  Value run();

 private:
  /// A call to be understood: of the stream, or one that another call wraps (then `call` is null).
  struct Use {
    CallArgs args;
    const PickleCall* call = nullptr;
  };
  using Handler = Value (ValueBuilder::*)(const Use&);
  struct Known {
    std::string_view symbol;
    Handler build;
  };
  static const Known kKnown[];

  Value build(NodeId id);
  Value build_looped(NodeId id);
  Value make(NodeId id);
  Value child(NodeId step, NodeId id);
  Value::List sequence(std::span<const NodeId> ids);
  Value sequence_of(NodeKind kind, NodeId id);
  Dict build_dict(std::string type, std::span<const NodeId> items);
  void check_name(const Value& key) const;
  Value build_call(NodeId id);
  Value build_use(const Use& use);
  Value object(const Use& use);
  Value bare_storage(NodeId id);

  Value dict_class(const Use& use);
  Value set_of(const Use& use);
  Value encoded(const Use& use);
  Value byte_array(const Use& use);
  Value empty_bytes(const Use& use);
  Value complex(const Use& use);
  Value tensor_v1(const Use& use);
  Value tensor_v2(const Use& use);
  Value tensor_v3(const Use& use);
  Value meta(const Use& use);
  Value parameter(const Use& use);
  Value parameter_with_state(const Use& use);
  Value parameter_object(const Use& use);
  Value from_type(const Use& use);
  Value quantized(const Use& use);
  Value sparse(const Use& use);
  Value legacy_bytes(const Use& use);
  Value enum_member(const Use& use);
  Value old_tensor(const Use& use);

  Value to_tensor(Entry entry) { return Value::tensor(std::make_shared<const Entry>(std::move(entry))); }
  /// The tensor that argument `i` is. Errors: Error(corrupt).
  Entry tensor_argument(const CallArgs& args, std::size_t i);
  std::string path() const;
  void warn(const std::string& text) {
    if (report_ != nullptr) report_->warnings.push_back(text);
  }

  struct Step {
    NodeId key = kNoNode;
    std::size_t index = 0;
  };
  const PickleGraph& graph_;
  GraphAudit audit_;
  TensorRebuilder rebuilder_;
  const Limits& limits_;
  Report* report_;
  std::unordered_map<NodeId, Value> shared_;
  std::unordered_map<NodeId, std::int64_t> labels_;    ///< objects that contain themselves, by number
  std::unordered_set<const PickleCall*> constructed_;  ///< calls whose arguments are built
  std::vector<Step> path_;
};

Object make_object(std::string_view symbol, Object::Form form);

}  // namespace ckpt
