#include "libckpt/onnx/step.h"

#include <algorithm>
#include <bit>
#include <map>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::onnx {

using core::DType;
using core::detail::TraceAttribute;

std::int64_t type_number(DType dtype) {
  static const std::map<DType, std::int64_t> numbers = {
      {DType::f32, 1},  {DType::u8, 2},   {DType::i8, 3},      {DType::u16, 4},  {DType::i16, 5},
      {DType::i32, 6},  {DType::i64, 7},  {DType::boolean, 9}, {DType::f16, 10}, {DType::f64, 11},
      {DType::u32, 12}, {DType::u64, 13}, {DType::bf16, 16}};
  const auto found = numbers.find(dtype);
  if (found != numbers.end()) return found->second;
  throw core::Error(core::ErrorCode::unsupported,
                    "ONNX export: values of dtype " + std::string(core::name(dtype)) + " are not exported");
}

std::string Step::subject() const {
  const std::string& module = op().module;
  return "ONNX export: " + (module.empty() ? std::string("the model itself") : "module " + core::quote(module));
}

void Step::refuse(const std::string& what) const {
  throw core::Error(core::ErrorCode::unsupported, subject() + " calls " + core::quote(op().name) + ": " + what);
}

std::string Step::in(std::size_t i) {
  if (!has(i)) return "";
  const auto place = static_cast<std::size_t>(op().inputs[i]);
  const core::detail::TracedValue& known = passes_.first.values()[place];
  if (!known.changed_by.empty()) {
    refuse("one of its inputs was changed in place through another tensor by " + core::quote(known.changed_by));
  }
  if (known.overwritten && known.op < 0 && known.source != core::detail::TraceSource::input) {
    refuse("one of its inputs is changed in place later");
  }
  std::string& name = passes_.names[place];
  if (name.empty()) name = graph_.constant(known.tensor);
  return name;
}

std::string Step::in(std::size_t i, DType dtype) {
  return cast(in(i), input(i).dtype(), dtype);
}

std::string Step::cast(const std::string& name, DType from, DType to) {
  return from == to ? name : value("Cast", {name}, {{"to", type_number(to)}});
}

void Step::set(const std::string& name, std::size_t i) {
  passes_.names[static_cast<std::size_t>(op().outputs[i])] = name;
}

namespace {

const TraceAttribute& needed(const core::detail::TracedOp& op, std::string_view key) {
  const TraceAttribute* found = op.find(key);
  if (found != nullptr) return *found;
  throw core::Error(core::ErrorCode::runtime, "ONNX export: " + op.name + " has no " + std::string(key));
}

std::int64_t integer_of(const TraceAttribute& attribute) {
  if (const auto* truth = std::get_if<bool>(&attribute.value)) return *truth ? 1 : 0;
  if (const auto* scalar = std::get_if<core::Scalar>(&attribute.value)) return scalar->to_int();
  return std::get<std::int64_t>(attribute.value);
}

double number_of(const TraceAttribute& attribute) {
  if (const auto* scalar = std::get_if<core::Scalar>(&attribute.value)) return scalar->to_double();
  if (const auto* real = std::get_if<double>(&attribute.value)) return *real;
  return static_cast<double>(integer_of(attribute));
}

}  // namespace

template <class Read>
auto Step::unchanged(std::string_view key, Read read) const {
  const auto first = read(needed(op(), key));
  for (const core::detail::OpTrace* pass : passes_.others) {
    if (read(needed(pass->ops()[op_], key)) != first) refuse("its " + std::string(key) + " follows the inputs");
  }
  return first;
}

std::int64_t Step::integer(std::string_view key) const {
  return unchanged(key, integer_of);
}

double Step::number(std::string_view key) const {
  // As bits, for NaN.
  return std::bit_cast<double>(
      unchanged(key, [](const TraceAttribute& one) { return std::bit_cast<std::uint64_t>(number_of(one)); }));
}

core::Scalar Step::scalar_of(std::string_view key) const {
  const core::Scalar first = std::get<core::Scalar>(needed(op(), key).value);
  if (first.is_float()) return number(key);
  return integer(key);
}

std::string Step::text(std::string_view key) const {
  return unchanged(key, [](const TraceAttribute& one) { return std::get<std::string>(one.value); });
}

Integers Step::integers(std::string_view key) const {
  return unchanged(key, [](const TraceAttribute& one) { return std::get<core::detail::TraceNumbers>(one.value); });
}

SizeTerm Step::explained(const std::vector<std::int64_t>& values) const {
  const auto found = explain(values, graph_.sizes());
  if (found) return *found;
  std::vector<std::string> texts;
  for (const std::int64_t value : values) texts.push_back(std::to_string(value));
  refuse("a number of it is " + core::join(texts, ", ") +
         " for several sizes of the inputs, which is no product of them and whole numbers");
}

SizeTerm Step::term(std::string_view key) const {
  return explained(
      passes_.numbers([&](const core::detail::OpTrace& pass) { return integer_of(needed(pass.ops()[op_], key)); }));
}

std::vector<SizeTerm> Step::sizes_of(std::ptrdiff_t place) const {
  std::vector<SizeTerm> terms;
  for (std::size_t d = 0; d < value(place).tensor.sizes().size(); ++d) {
    terms.push_back(explained(passes_.sizes_of(place, d)));
  }
  return terms;
}

std::vector<SizeTerm> Step::input_sizes(std::size_t i) const {
  return sizes_of(op().inputs[i]);
}

std::vector<SizeTerm> Step::output_sizes(std::size_t i) const {
  return sizes_of(op().outputs[i]);
}

Integers Step::fixed_sizes(std::size_t i, std::int64_t from) const {
  const std::vector<SizeTerm> terms = input_sizes(i);
  Integers sizes;
  for (std::size_t d = static_cast<std::size_t>(from); d < terms.size(); ++d) {
    if (!terms[d].is_constant())
      refuse("it needs a fixed size where " + core::quote(text_of(terms[d], graph_.sizes())) + " is");
    sizes.push_back(terms[d].offset);
  }
  return sizes;
}

void write_step(Step& step) {
  static const std::map<std::string_view, Writer> writers = [] {
    std::map<std::string_view, Writer> all;
    for (const auto& table : {elementwise_writers(), layer_writers(), window_writers(), shape_writers(),
                              indexing_writers(), reduction_writers(), recurrent_writers()}) {
      for (const NamedWriter& one : table) all[one.name] = one.write;
    }
    return all;
  }();
  const auto found = writers.find(step.op().name);
  if (found == writers.end()) step.refuse("it has no operator in ONNX here");
  step.graph().begin(step.op().module, step.op().name);
  found->second(step);
}

}  // namespace ckpt::onnx
