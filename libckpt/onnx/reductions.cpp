// Sums, means, extremes and softmax as ONNX operators.
#include <string>

#include "libckpt/onnx/step.h"

namespace ckpt::onnx {
namespace {

using core::DType;

/// `axes_from`: the opset from which the dimensions are an input.
void reduce(Step& s, const char* op, std::int64_t axes_from) {
  Integers dims = s.integers("dims");
  for (std::int64_t& d : dims) d = s.wrapped(d, s.rank());
  std::vector<std::string> inputs = {s.in(0, s.dtype())};
  std::vector<Attribute> attributes = {{"keepdims", s.integer("keepdim")}};
  if (!dims.empty() && s.graph().opset() >= axes_from) inputs.push_back(s.graph().list(dims));
  if (!dims.empty() && s.graph().opset() < axes_from) attributes.push_back({"axes", dims});
  s.set(s.value(op, std::move(inputs), std::move(attributes)));
}
void sum(Step& s) {
  reduce(s, "ReduceSum", 13);
}
void mean(Step& s) {
  reduce(s, "ReduceMean", 18);
}
void amax(Step& s) {
  reduce(s, "ReduceMax", 18);
}

void argmax(Step& s) {
  if (s.flag("whole")) s.refuse("only argmax along a dimension has an operator");
  s.set(s.value("ArgMax", {s.in(0)},
                {{"axis", s.wrapped(s.integer("dim"), s.rank())}, {"keepdims", s.integer("keepdim")}}));
}

void softmax(Step& s) {
  s.set(s.value("Softmax", {s.in(0, s.dtype())}, {{"axis", s.wrapped(s.integer("dim"), s.rank())}}));
}
void log_softmax(Step& s) {
  s.set(s.value("LogSoftmax", {s.in(0, s.dtype())}, {{"axis", s.wrapped(s.integer("dim"), s.rank())}}));
}

void cumsum(Step& s) {
  const std::string axis = s.graph().scalar(static_cast<double>(s.wrapped(s.integer("dim"), s.rank())), DType::i64);
  s.set(s.value("CumSum", {s.in(0, s.dtype()), axis}));
}

}  // namespace

std::vector<NamedWriter> reduction_writers() {
  return {{"sum", sum},       {"mean", mean},       {"amax", amax},
          {"argmax", argmax}, {"softmax", softmax}, {"log_softmax", log_softmax},
          {"cumsum", cumsum}};
}

}  // namespace ckpt::onnx
