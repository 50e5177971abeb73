// Sums, means, extremes, norms, variances, sorting and softmax as ONNX operators.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "libckpt/onnx/step.h"

namespace ckpt::onnx {
namespace {

using core::DType;

Integers dims_of(Step& s) {
  Integers dims = s.integers("dims");
  for (std::int64_t& d : dims) d = s.wrapped(d, s.rank());
  return dims;
}

/// `axes_from`: the opset from which the dimensions are an input.
std::string reduced(Step& s, const char* op, const std::string& x, bool keepdim, std::int64_t axes_from = 18) {
  const Integers dims = dims_of(s);
  std::vector<std::string> inputs = {x};
  std::vector<Attribute> attributes = {{"keepdims", std::int64_t{keepdim}}};
  if (!dims.empty() && s.graph().opset() >= axes_from) inputs.push_back(s.graph().list(dims));
  if (!dims.empty() && s.graph().opset() < axes_from) attributes.push_back({"axes", dims});
  return s.value(op, std::move(inputs), std::move(attributes));
}
void reduce(Step& s, const char* op, std::int64_t axes_from = 18) {
  s.set(reduced(s, op, s.in(0, s.dtype()), s.flag("keepdim"), axes_from));
}
void sum(Step& s) {
  reduce(s, "ReduceSum", 13);
}
void mean(Step& s) {
  reduce(s, "ReduceMean");
}
void prod(Step& s) {
  reduce(s, "ReduceProd");
}
void logsumexp(Step& s) {
  reduce(s, "ReduceLogSumExp");
}

/// Truths as numbers of 0 and 1.
void of_truths(Step& s, const char* op) {
  const std::string x = s.in(0, DType::boolean);
  const std::string y = reduced(s, op, s.cast(x, DType::boolean, DType::i32), s.flag("keepdim"));
  s.set(s.cast(s.cast(y, DType::i32, DType::boolean), DType::boolean, s.dtype()));
}
void all(Step& s) {
  of_truths(s, "ReduceMin");
}
void any(Step& s) {
  of_truths(s, "ReduceMax");
}
void amax(Step& s) {
  if (s.dtype() == DType::boolean) return any(s);
  reduce(s, "ReduceMax");
}
void amin(Step& s) {
  if (s.dtype() == DType::boolean) return all(s);
  reduce(s, "ReduceMin");
}

/// How many numbers one result is made of, less `correction`.
std::string count_of(Step& s, double correction) {
  Integers dims = dims_of(s);
  if (dims.empty()) {
    for (std::int64_t d = 0; d < s.rank(); ++d) dims.push_back(d);
  }
  std::int64_t fixed = 1;
  std::string count;
  for (const std::int64_t d : dims) {
    const SizeTerm size = s.input_sizes(0)[static_cast<std::size_t>(d)];
    if (size.is_constant()) {
      fixed *= size.offset;
    } else {
      count = count.empty() ? s.graph().one(size) : s.value("Mul", {count, s.graph().one(size)});
    }
  }
  if (count.empty()) return s.scalar(static_cast<double>(fixed) - correction);
  count = s.cast(s.value("Squeeze", {count}), DType::i64, s.dtype());
  if (fixed != 1) count = s.value("Mul", {count, s.scalar(static_cast<double>(fixed))});
  return correction == 0 ? count : s.value("Sub", {count, s.scalar(correction)});
}

std::string variance(Step& s) {
  const std::string x = s.in(0, s.dtype());
  const std::string apart = s.value("Sub", {x, reduced(s, "ReduceMean", x, true)});
  const std::string total = reduced(s, "ReduceSumSquare", apart, s.flag("keepdim"));
  return s.value("Div", {total, count_of(s, s.number("correction"))});
}
void var(Step& s) {
  s.set(variance(s));
}
void std_(Step& s) {
  s.set(s.value("Sqrt", {variance(s)}));
}

/// The p-norm.
void norm(Step& s) {
  const double p = s.number("p");
  const std::string x = s.in(0, s.dtype());
  const bool keepdim = s.flag("keepdim");
  if (p == 1) return s.set(reduced(s, "ReduceL1", x, keepdim));
  if (p == 2) return s.set(reduced(s, "ReduceL2", x, keepdim));
  const std::string size = s.value("Abs", {x});
  if (std::isinf(p)) return s.set(reduced(s, p > 0 ? "ReduceMax" : "ReduceMin", size, keepdim));
  if (p == 0) return s.set(reduced(s, "ReduceSum", s.value("Sign", {size}), keepdim, 13));
  const std::string total = reduced(s, "ReduceSum", s.value("Pow", {size, s.scalar(p)}), keepdim, 13);
  s.set(s.value("Pow", {total, s.scalar(1 / p)}));
}

std::int64_t dim_of(Step& s) {
  return s.wrapped(s.integer("dim"), std::max<std::int64_t>(s.rank(), 1));
}

/// The place along a dimension, or in all of it as one line.
void arg_extreme(Step& s, const char* op) {
  if (!s.flag("whole")) {
    return s.set(s.value(op, {s.in(0)}, {{"axis", dim_of(s)}, {"keepdims", s.integer("keepdim")}}));
  }
  const std::string line = s.value("Reshape", {s.in(0), s.graph().list(Integers{-1})});
  const std::string place = s.value(op, {line}, {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{0}}});
  s.set(s.output().dim() == 0 ? place : s.value("Reshape", {place, s.graph().list(s.output_sizes())}));
}
void argmax(Step& s) {
  arg_extreme(s, "ArgMax");
}
void argmin(Step& s) {
  arg_extreme(s, "ArgMin");
}

/// Values and places.
void extreme(Step& s, const char* op, const char* place) {
  const std::int64_t dim = dim_of(s), keepdim = s.integer("keepdim");
  const std::string x = s.in(0);
  if (s.graph().opset() >= 18) {
    s.set(s.value(op, {x, s.graph().list(Integers{dim})}, {{"keepdims", keepdim}}), 0);
  } else {
    s.set(s.value(op, {x}, {{"axes", Integers{dim}}, {"keepdims", keepdim}}), 0);
  }
  s.set(s.value(place, {x}, {{"axis", dim}, {"keepdims", keepdim}}), 1);
}
void max_(Step& s) {
  extreme(s, "ReduceMax", "ArgMax");
}
void min_(Step& s) {
  extreme(s, "ReduceMin", "ArgMin");
}

/// The first `count` in order: names of values and places.
std::pair<std::string, std::string> ordered(Step& s, const std::string& count, bool largest) {
  if (s.rank() == 0) s.refuse("a tensor without dimensions has no operator");
  const std::string values = s.graph().unique("values"), places = s.graph().unique("places");
  s.graph().node("TopK", {s.in(0), count}, {values, places},
                 {{"axis", dim_of(s)}, {"largest", std::int64_t{largest}}, {"sorted", std::int64_t{1}}});
  return {values, places};
}
std::string whole(Step& s) {
  return s.graph().one(s.input_sizes(0)[static_cast<std::size_t>(dim_of(s))]);
}
void sort(Step& s) {
  const auto [values, places] = ordered(s, whole(s), s.flag("descending"));
  s.set(values, 0);
  s.set(places, 1);
}
void argsort(Step& s) {
  s.set(ordered(s, whole(s), s.flag("descending")).second);
}
void topk(Step& s) {
  const auto [values, places] = ordered(s, s.graph().one(s.term("k")), s.flag("largest"));
  s.set(values, 0);
  s.set(places, 1);
}

void softmax(Step& s) {
  s.set(s.value("Softmax", {s.in(0, s.dtype())}, {{"axis", dim_of(s)}}));
}
void log_softmax(Step& s) {
  s.set(s.value("LogSoftmax", {s.in(0, s.dtype())}, {{"axis", dim_of(s)}}));
}

void cumsum(Step& s) {
  const std::string axis = s.graph().scalar(static_cast<double>(dim_of(s)), DType::i64);
  s.set(s.value("CumSum", {s.in(0, s.dtype()), axis}));
}

}  // namespace

std::vector<NamedWriter> reduction_writers() {
  return {{"sum", sum},         {"mean", mean},     {"prod", prod},       {"logsumexp", logsumexp},
          {"all", all},         {"any", any},       {"amax", amax},       {"amin", amin},
          {"max", max_},        {"min", min_},      {"var", var},         {"std", std_},
          {"norm", norm},       {"argmax", argmax}, {"argmin", argmin},   {"sort", sort},
          {"argsort", argsort}, {"topk", topk},     {"softmax", softmax}, {"log_softmax", log_softmax},
          {"cumsum", cumsum}};
}

}  // namespace ckpt::onnx
