// Calls that make tensors: each becomes an Entry, or an Object around its parts where it is no plain tensor.

#include "libckpt/format/torch/value_builder.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {

using core::Error;
using core::ErrorCode;

namespace {

/// The value of torch.serialization._get_layout(name).
Value layout_value(std::string name) {
  Object layout = make_object("torch.serialization._get_layout", Object::Form::call);
  layout.args = Value::tuple({Value::text(std::move(name))});
  return Value::object(std::move(layout));
}

}  // namespace

Value ValueBuilder::bare_storage(NodeId id) {
  if (EntryPtr tensor = rebuilder_.numbered(id)) return Value::tensor(std::move(tensor));
  Object object = make_object(storage_class_of(graph_, id).full, Object::Form::call);
  object.args = Value::tuple({to_tensor(rebuilder_.whole_storage(id))});
  return Value::object(std::move(object));
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

Value ValueBuilder::old_tensor(const Use& use) {
  NodeId state = use.call->state;
  if (graph_.kind(state) != NodeKind::tuple) return object(use);
  return to_tensor(rebuilder_.tensor_v1(CallArgs(graph_, use.args.symbol(), graph_.children(state))));
}

}  // namespace ckpt
