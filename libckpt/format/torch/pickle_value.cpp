#include "libckpt/format/torch/pickle_value.h"

#include <algorithm>

#include "libckpt/checkpoint.h"
#include "libckpt/format/torch/dict_builder.h"
#include "libckpt/format/torch/graph_audit.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

Object make_object(std::string_view symbol, Object::Form form) {
  Object object;
  object.symbol = symbol;
  object.form = form;
  return object;
}

/// The value of torch.serialization._get_layout(name).
Value layout_value(std::string name) {
  Object layout = make_object("torch.serialization._get_layout", Object::Form::call);
  layout.args = Value::tuple({Value::text(std::move(name))});
  return Value::object(std::move(layout));
}

/// Builds one Value tree. Recursion is bounded: the audit has checked the depth and that there is no cycle.
class ValueBuilder {
 public:
  ValueBuilder(const PickleGraph& graph, StorageProvider& storages, const OpenOptions& options)
      : graph_(graph),
        audit_(graph, options.limits),
        rebuilder_(graph, storages, options.limits),
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
  Value make(NodeId id);
  Value child(NodeId step, NodeId id);
  Value::List sequence(std::span<const NodeId> ids);
  Value sequence_of(NodeKind kind, NodeId id);
  Value build_dict(std::string type, std::span<const NodeId> items);
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
  Report* report_;
  std::unordered_map<NodeId, Value> shared_;
  std::vector<Step> path_;
};

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
  if (!audit_.is_shared(id)) return make(id);
  if (auto known = shared_.find(id); known != shared_.end()) return known->second;
  Value value = make(id);
  shared_.emplace(id, value);
  return value;
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
      return build_dict("dict", graph_.children(id));
    case NodeKind::global:
      return Value::object(make_object(graph_.symbol(id).full, Object::Form::global));
    case NodeKind::call:
      return build_call(id);
    case NodeKind::persistent:
      return bare_storage(id);
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

Value ValueBuilder::build_dict(std::string type, std::span<const NodeId> items) {
  DictBuilder builder(items.size() / 2);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    Value key = build(items[i]);
    std::string name = step_text(key);
    bool replaced = builder.set(std::move(key), child(items[i], items[i + 1]));
    if (replaced) warn("the key " + core::quote(name) + " is there twice; the later value counts, as in Python");
  }
  Dict dict;
  dict.type = std::move(type);
  dict.items = builder.take();
  return Value::dict(std::move(dict));
}

Value ValueBuilder::bare_storage(NodeId id) {
  Object object = make_object(rebuilder_.storage_class(id).full, Object::Form::call);
  object.args = Value::tuple({to_tensor(rebuilder_.whole_storage(id))});
  return Value::object(std::move(object));
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
  if (call.instance) out.form = Object::Form::instance;
  if (call.kwargs != kNoNode) out.kwargs = build(call.kwargs);
  out.has_state = call.state != kNoNode;
  if (out.has_state) out.state = build(call.state);
  out.appended = sequence(graph_.call_items(call.appended));
  std::span<const NodeId> items = graph_.call_items(call.items);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    Value key = build(items[i]);
    out.items.emplace_back(std::move(key), child(items[i], items[i + 1]));
  }
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
  Dict dict = build_dict(std::string(args.symbol()), items).as_dict();
  if (factory && args.size() > 0) dict.constructor_args = Value::tuple({build(args.id(0))});
  if (use.call != nullptr && use.call->state != kNoNode) {
    dict.attributes = build(use.call->state);
    if (!dict.attributes.is(Value::Kind::dict)) {
      throw Error(ErrorCode::unsupported, "a dict has attributes that are no dict");
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

Value ValueBuilder::tensor_v1(const Use& use) {
  return to_tensor(rebuilder_.tensor_v1(use.args));
}
Value ValueBuilder::tensor_v2(const Use& use) {
  return to_tensor(rebuilder_.tensor_v2(use.args));
}
Value ValueBuilder::tensor_v3(const Use& use) {
  return to_tensor(rebuilder_.tensor_v3(use.args));
}

Value ValueBuilder::meta(const Use& use) {
  Value value = to_tensor(rebuilder_.meta(use.args));
  warn(path() + " is a meta tensor: it has a shape and no data");
  return value;
}

Entry ValueBuilder::tensor_argument(const CallArgs& args, std::size_t i) {
  Value value = build(args.id(i));
  if (!value.is(Value::Kind::tensor)) args.fail(i, "a tensor");
  return value.as_entry();
}

Value ValueBuilder::parameter(const Use& use) {
  use.args.expect(2, 3);
  Entry entry = tensor_argument(use.args, 0);
  entry.parameter = true;
  entry.requires_grad = use.args.boolean(1);
  return to_tensor(std::move(entry));
}

Value ValueBuilder::parameter_with_state(const Use& use) {
  use.args.expect(4, 4);
  Value state = build(use.args.id(3));
  if (!state.is(Value::Kind::dict) && !state.is_null()) return object(use);
  Entry entry = tensor_argument(use.args, 0);
  entry.parameter = true;
  entry.requires_grad = use.args.boolean(1);
  entry.attributes = std::move(state);
  return to_tensor(std::move(entry));
}

/// Files of PyTorch before 0.4: Parameter(data, requires_grad), or an instance whose state is (data, requires_grad,
/// ...).
Value ValueBuilder::parameter_object(const Use& use) {
  bool has_state = use.call != nullptr && use.call->state != kNoNode;
  if (!has_state && use.args.size() == 0) return object(use);
  if (has_state && graph_.kind(use.call->state) != NodeKind::tuple) return object(use);
  CallArgs args(graph_, use.args.symbol(), has_state ? graph_.children(use.call->state) : use.args.ids());
  args.expect(2, 8);
  return parameter({CallArgs(graph_, args.symbol(), args.ids().first(2)), nullptr});
}

/// (function, class, arguments, state): the tensor that the function would make, of another class or with attributes.
Value ValueBuilder::from_type(const Use& use) {
  use.args.expect(4, 4);
  const PickleSymbol& function = use.args.symbol_at(0);
  const PickleSymbol& type = use.args.symbol_at(1);
  if (use.args.kind(2) != NodeKind::tuple) use.args.fail(2, "a tuple");
  Value state = build(use.args.id(3));
  bool plain_state = state.is(Value::Kind::dict) || state.is_null();
  bool tensor_call = function.full.starts_with("torch._utils._rebuild_");
  if (!tensor_call || !plain_state) return object(use);
  Value inner = build_use({CallArgs(graph_, function.full, graph_.children(use.args.id(2))), nullptr});
  if (!inner.is(Value::Kind::tensor)) return object(use);
  Entry entry = inner.as_entry();
  if (type.full != "torch.Tensor" && type.full != "torch.nn.parameter.Parameter") entry.python_class = type.full;
  entry.attributes = std::move(state);
  return to_tensor(std::move(entry));
}

/// (storage, offset, size, stride, qparams, requires_grad, hooks) is carried as (integers, qparams, requires_grad).
Value ValueBuilder::quantized(const Use& use) {
  use.args.expect(6, 7);
  Entry entry = rebuilder_.tensor_v1(CallArgs(graph_, use.args.symbol(), use.args.ids().first(4)));
  if (!core::is_quantized(entry.dtype)) use.args.fail(0, "a storage of a quantized type");
  if (use.args.kind(4) != NodeKind::tuple) use.args.fail(4, "a tuple");
  Object out = make_object(use.args.symbol(), Object::Form::call);
  out.args = Value::tuple({to_tensor(std::move(entry)), build(use.args.id(4)), Value::boolean(use.args.boolean(5))});
  warn(path() + " is a quantized tensor: its integers are read, scale and zero point stay beside them");
  return Value::object(std::move(out));
}

/// (layout, (indices, values, size[, is_coalesced])): coordinates are checked as far as that needs no tensor bytes.
Value ValueBuilder::sparse(const Use& use) {
  use.args.expect(2, 2);
  if (use.args.kind(1) != NodeKind::tuple) use.args.fail(1, "a tuple");
  CallArgs parts(graph_, use.args.symbol(), graph_.children(use.args.id(1)));
  parts.expect(3, 4);
  Value out = object(use);
  const Value::List& layout = out.as_object().args.as_list();
  if (layout[0] == layout_value("torch.sparse_coo")) {
    core::Shape indices = tensor_argument(parts, 0).shape;
    core::Shape values = tensor_argument(parts, 1).shape;
    bool fits = indices.size() == 2 && !values.empty() && values[0] == indices[1] &&
                static_cast<std::size_t>(indices[0]) + values.size() - 1 == parts.sizes(2).size();
    if (!fits) throw Error(ErrorCode::corrupt, "a sparse tensor's indices, values and size do not fit each other");
  }
  warn(path() + " is a sparse tensor: its parts are kept as they are");
  return out;
}

Value ValueBuilder::legacy_bytes(const Use&) {
  throw Error(
      ErrorCode::unsupported,
      "a tensor was pickled without torch.save (torch.storage._load_from_bytes), which this version does not read");
}

/// Python writes enum members as getattr(class, 'NAME'). Anything else that asks for an attribute is refused.
Value ValueBuilder::enum_member(const Use& use) {
  bool plain = use.args.size() == 2 && use.args.kind(0) == NodeKind::global && use.args.kind(1) == NodeKind::text;
  if (!plain) {
    throw Error(ErrorCode::refused,
                "the pickle calls 'builtins.getattr' on something that is no class; only members of "
                "known enumerations are accepted");
  }
  return object(use);
}

Value ValueBuilder::old_tensor(const Use& use) {
  NodeId state = use.call->state;
  if (graph_.kind(state) != NodeKind::tuple) return object(use);
  return to_tensor(rebuilder_.tensor_v1(CallArgs(graph_, use.args.symbol(), graph_.children(state))));
}

/// Refuses what no table knows, or reports it when the caller wants it kept.
void check_symbols(const PickleGraph& graph, const OpenOptions& options) {
  std::vector<std::string> unknown = unknown_symbols(graph, SymbolRole::foreign);
  std::vector<std::string> forbidden = unknown_symbols(graph, SymbolRole::forbidden);
  if (!unknown.empty() && (!options.foreign_objects || !forbidden.empty())) {
    std::string message = "the pickle names " + core::join(options.foreign_objects ? forbidden : unknown, ", ") +
                          ", which is no plain data; nothing was loaded and nothing was run";
    if (forbidden.empty()) message += "; foreign objects can be kept as inert data on request";
    throw Error(ErrorCode::refused, message);
  }
  if (options.report == nullptr) return;
  for (const std::string& name : unknown) {
    options.report->warnings.push_back(name + " is not known; its objects are kept as inert data");
  }
  std::vector<std::string> narrow;
  for (const PickleSymbol& symbol : graph.symbols()) {
    if (!weights_only_knows(symbol.full)) narrow.push_back(core::quote(symbol.full));
  }
  if (!narrow.empty()) {
    options.report->warnings.push_back("torch.load(weights_only=True) refuses this file, because it names " +
                                       core::join(narrow, ", "));
  }
}

}  // namespace

Value to_value(const PickleGraph& graph, StorageProvider& storages, const OpenOptions& options) {
  check_symbols(graph, options);
  return ValueBuilder(graph, storages, options).run();
}

}  // namespace ckpt
