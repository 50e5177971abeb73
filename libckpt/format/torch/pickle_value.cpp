#include "libckpt/format/torch/pickle_value.h"

#include <algorithm>

#include "libckpt/checkpoint.h"
#include "libckpt/format/torch/dict_builder.h"
#include "libckpt/format/torch/loops.h"
#include "libckpt/format/torch/module_tensors.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/value_builder.h"
#include "libckpt/objects.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {

using core::Error;
using core::ErrorCode;

Object make_object(std::string_view symbol, Object::Form form) {
  Object object;
  object.symbol = symbol;
  object.form = form;
  return object;
}

const ValueBuilder::Known ValueBuilder::kKnown[] = {
    {"collections.OrderedDict", &ValueBuilder::dict_class},
    {"collections.Counter", &ValueBuilder::dict_class},
    {"collections.defaultdict", &ValueBuilder::dict_class},
    {"builtins.set", &ValueBuilder::set_of},
    {"builtins.frozenset", &ValueBuilder::set_of},
    {"builtins.bytearray", &ValueBuilder::byte_array},
    {"builtins.bytes", &ValueBuilder::empty_bytes},
    {"builtins.complex", &ValueBuilder::complex},
    {"builtins.getattr", &ValueBuilder::enum_member},
    {"_codecs.encode", &ValueBuilder::encoded},
    {"torch._utils._rebuild_tensor", &ValueBuilder::tensor_v1},
    {"torch._utils._rebuild_tensor_v2", &ValueBuilder::tensor_v2},
    {"torch._utils._rebuild_tensor_v3", &ValueBuilder::tensor_v3},
    {"torch._utils._rebuild_meta_tensor_no_storage", &ValueBuilder::meta},
    {"torch._utils._rebuild_parameter", &ValueBuilder::parameter},
    {"torch._utils._rebuild_parameter_with_state", &ValueBuilder::parameter_with_state},
    {"torch._utils._rebuild_qtensor", &ValueBuilder::quantized},
    {"torch._utils._rebuild_sparse_tensor", &ValueBuilder::sparse},
    {"torch._tensor._rebuild_from_type", &ValueBuilder::from_type},
    {"torch._tensor._rebuild_from_type_v2", &ValueBuilder::from_type},
    {"torch.nn.parameter.Parameter", &ValueBuilder::parameter_object},
    {"torch.storage._load_from_bytes", &ValueBuilder::legacy_bytes},
};

Value ValueBuilder::run() {
  try {
    return build(graph_.root());
  } catch (Error& error) {
    if (!path_.empty()) error.add_context(path());
    throw;
  }
}

std::string ValueBuilder::path() const {
  std::string out;
  for (const Step& step : path_) {
    std::string part = std::to_string(step.index);
    if (step.key != kNoNode && graph_.kind(step.key) == NodeKind::text) part = graph_.text(step.key);
    if (step.key != kNoNode && graph_.kind(step.key) == NodeKind::integer) {
      part = std::to_string(graph_.node(step.key).integer);
    }
    out += (out.empty() ? "" : ".") + part;
  }
  return core::quote(out);
}

Value ValueBuilder::build(NodeId id) {
  bool looped = audit_.is_looped(id);
  if (!looped && !audit_.is_shared(id)) return make(id);
  if (auto known = shared_.find(id); known != shared_.end()) return known->second;
  Value value = looped ? build_looped(id) : make(id);
  if (looped && value.is(Value::Kind::object) && reference_number(value.as_object())) return value;
  shared_.emplace(id, value);
  return value;
}

/// A label around the object; a reference to it when it is only being built.
Value ValueBuilder::build_looped(NodeId id) {
  auto [label, fresh] = labels_.try_emplace(id, static_cast<std::int64_t>(labels_.size()));
  std::int64_t number = label->second;
  if (!fresh && constructed_.contains(&graph_.call(id))) return make_reference(number);
  Value value = fresh ? make(id) : Value();
  if (value.is(Value::Kind::object)) return make_label(number, std::move(value));
  throw Error(ErrorCode::unsupported,
              "the pickle holds " + describe_node(graph_, id) + " that contains itself; such data cannot be read");
}

Value ValueBuilder::make(NodeId id) {
  auto bytes = [&] { return core::ByteVector(graph_.bytes(id).begin(), graph_.bytes(id).end()); };
  const PickleNode& node = graph_.node(id);
  switch (node.kind) {
    case NodeKind::none:
      return {};
    case NodeKind::boolean:
      return Value::boolean(node.integer != 0);
    case NodeKind::integer:
      return Value::integer(node.integer);
    case NodeKind::big_integer:
      return Value::big_integer(bytes());
    case NodeKind::real:
      return Value::real(node.real);
    case NodeKind::text:
      return Value::text(std::string(graph_.text(id)));
    case NodeKind::bytes:
      return Value::bytes(bytes());
    case NodeKind::bytearray:
      return Value::bytearray(bytes());
    case NodeKind::list:
    case NodeKind::tuple:
    case NodeKind::set:
    case NodeKind::frozenset:
      return sequence_of(node.kind, id);
    case NodeKind::dict:
      return Value::dict(build_dict("dict", graph_.children(id)));
    case NodeKind::global:
      return Value::object(make_object(graph_.symbol(id).full, Object::Form::global));
    case NodeKind::call:
      return build_call(id);
    case NodeKind::persistent:
      return bare_storage(id);
      break;  // who folds reads no values
  }
  return {};
}

Value ValueBuilder::child(NodeId step, NodeId id) {
  path_.push_back({step, 0});
  Value value = build(id);
  path_.pop_back();
  return value;
}

Value::List ValueBuilder::sequence(std::span<const NodeId> ids) {
  Value::List out;
  out.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    path_.push_back({kNoNode, i});
    out.push_back(build(ids[i]));
    path_.pop_back();
  }
  return out;
}

Value ValueBuilder::sequence_of(NodeKind kind, NodeId id) {
  Value::List items = sequence(graph_.children(id));
  if (kind == NodeKind::list) return Value::list(std::move(items));
  if (kind == NodeKind::tuple) return Value::tuple(std::move(items));
  for (const Value& item : items) check_hashable(item);
  return kind == NodeKind::set ? Value::set(std::move(items)) : Value::frozenset(std::move(items));
}

Dict ValueBuilder::build_dict(std::string type, std::span<const NodeId> items) {
  DictBuilder builder(items.size() / 2);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    Value key = build(items[i]);
    check_name(key);
    std::string name = step_text(key);
    bool replaced = builder.set(std::move(key), child(items[i], items[i + 1]));
    if (replaced) warn("the key " + core::quote(name) + " is there twice; the later value counts, as in Python");
  }
  Dict dict;
  dict.type = std::move(type);
  dict.items = builder.take();
  return dict;
}

void ValueBuilder::check_name(const Value& key) const {
  if (!key.is(Value::Kind::text) || key.as_text().size() <= limits_.max_name) return;
  throw Error(ErrorCode::refused, "a key is " + core::format_size(key.as_text().size()) + " long where at most " +
                                      core::format_size(limits_.max_name) + " are accepted");
}

Value ValueBuilder::build_call(NodeId id) {
  const PickleCall& call = graph_.call(id);
  const std::string& symbol = graph_.symbol(call.callable).full;
  return build_use({CallArgs(graph_, symbol, graph_.children(call.args)), &call});
}

Value ValueBuilder::build_use(const Use& use) {
  std::string_view symbol = use.args.symbol();
  for (const Known& known : kKnown) {
    if (known.symbol == symbol) return (this->*known.build)(use);
  }
  bool has_state = use.call != nullptr && use.call->state != kNoNode;
  if (has_state && tensor_class_dtype(symbol)) return old_tensor(use);
  if (symbol.starts_with("torch._utils._rebuild_")) {
    warn(path() + " is a tensor that " + core::quote(symbol) + " would make: its parts are kept as they are");
  }
  return object(use);
}

Value ValueBuilder::object(const Use& use) {
  Object out = make_object(use.args.symbol(), Object::Form::call);
  out.args = Value::tuple(sequence(use.args.ids()));
  if (use.call == nullptr) return Value::object(std::move(out));
  const PickleCall& call = *use.call;
  constructed_.insert(&call);
  if (call.instance) out.form = Object::Form::instance;
  if (call.kwargs != kNoNode) out.kwargs = build(call.kwargs);
  out.appended = sequence(graph_.call_items(call.appended));
  std::span<const NodeId> items = graph_.call_items(call.items);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    Value key = build(items[i]);
    out.items.emplace_back(std::move(key), child(items[i], items[i + 1]));
  }
  out.has_state = call.state != kNoNode;
  if (out.has_state) out.state = build(call.state);
  return Value::object(std::move(out));
}

/// OrderedDict(), OrderedDict([[k, v], ...]), Counter({...}), defaultdict(factory), then items and attributes.
Value ValueBuilder::dict_class(const Use& use) {
  const CallArgs& args = use.args;
  bool factory = args.symbol() == "collections.defaultdict";
  args.expect(0, factory ? 2 : 1);
  std::vector<NodeId> items;
  if (std::size_t at = factory ? 1 : 0; args.size() > at) {
    if (args.kind(at) == NodeKind::dict) {
      std::span<const NodeId> pairs = graph_.children(args.id(at));
      items.assign(pairs.begin(), pairs.end());
    } else if (args.kind(at) == NodeKind::list) {
      for (NodeId pair : graph_.children(args.id(at))) {
        bool is_pair = graph_.kind(pair) == NodeKind::list || graph_.kind(pair) == NodeKind::tuple;
        if (!is_pair || graph_.children(pair).size() != 2) args.fail(at, "a list of pairs");
        items.insert(items.end(), graph_.children(pair).begin(), graph_.children(pair).end());
      }
    } else {
      args.fail(at, "a dict or a list of pairs");
    }
  }
  if (use.call != nullptr) {
    std::span<const NodeId> more = graph_.call_items(use.call->items);
    items.insert(items.end(), more.begin(), more.end());
  }
  Dict dict = build_dict(std::string(args.symbol()), items);
  if (factory && args.size() > 0) dict.constructor_args = Value::tuple({build(args.id(0))});
  if (use.call != nullptr && use.call->state != kNoNode) {
    dict.attributes = build(use.call->state);
    if (!dict.attributes.is(Value::Kind::dict)) {
      throw Error(ErrorCode::unsupported, "a dict has attributes that are not a dict");
    }
  }
  return Value::dict(std::move(dict));
}

Value ValueBuilder::set_of(const Use& use) {
  use.args.expect(0, 1);
  Value::List items;
  if (use.args.size() == 1) {
    NodeKind kind = use.args.kind(0);
    if (kind != NodeKind::list && kind != NodeKind::tuple) use.args.fail(0, "a list");
    items = sequence(graph_.children(use.args.id(0)));
  }
  for (const Value& item : items) check_hashable(item);
  return use.args.symbol() == "builtins.set" ? Value::set(std::move(items)) : Value::frozenset(std::move(items));
}

Value ValueBuilder::encoded(const Use& use) {
  use.args.expect(2, 2);
  std::string_view codec = use.args.text(1);
  if (codec != "latin1" && codec != "latin-1") use.args.fail(1, "the text 'latin1'");
  std::optional<core::ByteVector> bytes = latin1_bytes(use.args.text(0));
  if (!bytes) use.args.fail(0, "text of single bytes");
  return Value::bytes(std::move(*bytes));
}

Value ValueBuilder::byte_array(const Use& use) {
  use.args.expect(0, 2);
  if (use.args.size() == 0) return Value::bytearray({});
  if (use.args.size() == 2) return Value::bytearray(encoded(use).as_bytes());
  Value bytes = build(use.args.id(0));
  if (!bytes.is(Value::Kind::bytes)) use.args.fail(0, "bytes");
  return Value::bytearray(bytes.as_bytes());
}

Value ValueBuilder::empty_bytes(const Use& use) {
  use.args.expect(0, 0);
  return Value::bytes({});
}

Value ValueBuilder::complex(const Use& use) {
  use.args.expect(2, 2);
  return Value::complex(use.args.real(0), use.args.real(1));
}

/// Python writes enum members as getattr(class, 'NAME'). Anything else that asks for an attribute is refused.
Value ValueBuilder::enum_member(const Use& use) {
  bool plain = use.args.size() == 2 && use.args.kind(0) == NodeKind::global && use.args.kind(1) == NodeKind::text;
  if (!plain) {
    throw Error(ErrorCode::refused,
                "the pickle calls 'builtins.getattr' on something that is not a class; only members of "
                "known enumerations are accepted");
  }
  return object(use);
}

namespace {

/// Says what was kept although nobody knows it, and what PyTorch's own careful reader would refuse.
void report_symbols(const PickleGraph& graph, Report& report) {
  for (const PickleSymbol& symbol : graph.symbols()) {
    if (symbol.role < SymbolRole::foreign) continue;
    report.foreign.push_back(symbol.full);
    report.warnings.push_back(unknown_class_text(symbol.full));
  }
  std::size_t first = report.globals.size();
  for (const PickleSymbol& symbol : graph.symbols()) {
    if (weights_only_knows(symbol.full)) continue;
    report.globals.push_back(symbol.full);
  }
  if (first == report.globals.size()) return;
  auto begin = report.globals.begin() + static_cast<std::ptrdiff_t>(first);
  report.warnings.push_back(weights_only_text({begin, report.globals.end()}));
}

[[noreturn]] void refuse_symbols(const std::vector<std::string>& names, bool keepable) {
  std::string message = "the pickle names " + core::join(names, ", ") +
                        ", which is not plain data; nothing was loaded and nothing was run";
  if (keepable) message += "; --foreign-objects keeps such objects as inert data";
  throw Error(ErrorCode::refused, message);
}

/// FSDP1 with LOCAL_STATE_DICT or SHARDED_STATE_DICT, saved by torch.save: parts of one rank, around a process group.
void refuse_shards(const PickleGraph& graph) {
  const bool found = std::ranges::any_of(graph.symbols(), [](const PickleSymbol& symbol) {
    return symbol.full == "torch.distributed._shard.sharded_tensor.api.ShardedTensor";
  });
  if (!found) return;
  throw Error(
      ErrorCode::unsupported,
      "the file holds one rank's parts of an FSDP model (ShardedTensor); with the files of all ranks in one "
      "folder, name that folder to read them joined; else, where the model runs, "
      "torch.distributed.checkpoint.save() writes a folder of all ranks, and StateDictType.FULL_STATE_DICT gives "
      "rank 0 a state dict of whole tensors");
}

bool root_is_foreign(const PickleGraph& graph) {
  NodeId root = graph.root();
  return graph.kind(root) == NodeKind::call && graph.symbol(graph.call(root).callable).role >= SymbolRole::foreign;
}

}  // namespace

void require_known_symbols(const PickleGraph& graph, const OpenOptions& options) {
  refuse_shards(graph);
  std::vector<std::string> unknown = unknown_symbols(graph, SymbolRole::foreign);
  std::vector<std::string> forbidden = unknown_symbols(graph, SymbolRole::forbidden);
  if (unknown.empty()) return;
  bool looks = options.look_past_foreign && !root_is_foreign(graph);
  bool keeps = options.foreign_objects || looks;
  if (keeps && forbidden.empty()) return;
  refuse_symbols(options.foreign_objects ? forbidden : unknown, forbidden.empty());
}

Value to_value(const PickleGraph& graph, StorageProvider& storages, const OpenOptions& options, SymbolCheck check) {
  if (check == SymbolCheck::refuse) {
    require_known_symbols(graph, options);
    if (options.report != nullptr) report_symbols(graph, *options.report);
  }
  Value root = ValueBuilder(graph, storages, options).run();
  bool looks_only = check == SymbolCheck::carry;
  return options.foreign_objects && !looks_only ? with_module_tensors(std::move(root), options.report) : root;
}

Value to_value(const PickleGraph& graph, StorageProvider& storages, const OpenOptions& options) {
  return to_value(graph, storages, options, SymbolCheck::refuse);
}

}  // namespace ckpt
