#include "libckpt/format/torch/loops.h"

namespace ckpt {
namespace {

// No pickle can name these: the module is a forbidden one.
constexpr const char* kLabel = "ckpt.label";
constexpr const char* kReference = "ckpt.reference";

Value make(const char* symbol, Value::List args) {
  Object object;
  object.symbol = symbol;
  object.form = Object::Form::call;
  object.args = Value::tuple(std::move(args));
  return Value::object(std::move(object));
}

}  // namespace

Value make_label(std::int64_t number, Value inner) {
  return make(kLabel, {Value::integer(number), std::move(inner)});
}

Value make_reference(std::int64_t number) {
  return make(kReference, {Value::integer(number)});
}

std::optional<Label> as_label(const Object& object) {
  if (object.symbol != kLabel || !object.args.is(Value::Kind::tuple)) return std::nullopt;
  const Value::List& args = object.args.as_list();
  // A scanner carries whatever a pickle names, also these.
  if (args.size() != 2 || !args[0].is(Value::Kind::integer) || !args[1].is(Value::Kind::object)) return std::nullopt;
  return Label{args[0].as_integer(), &args[1].as_object()};
}

std::optional<std::int64_t> reference_number(const Object& object) {
  if (object.symbol != kReference || !object.args.is(Value::Kind::tuple)) return std::nullopt;
  const Value::List& args = object.args.as_list();
  if (args.size() != 1 || !args[0].is(Value::Kind::integer)) return std::nullopt;
  return object.args.as_list()[0].as_integer();
}

}  // namespace ckpt
