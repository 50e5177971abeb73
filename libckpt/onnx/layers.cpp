// Norms, products and attention as ONNX operators.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "libckpt/onnx/step.h"
#include "libcore/tensor/factory.h"

namespace ckpt::onnx {
namespace {

using core::DType;
using core::Tensor;

/// A weight or bias, or what stands for one that is not there.
std::string or_filled(Step& s, std::size_t i, const core::Shape& sizes, double value) {
  return s.has(i) ? s.in(i) : s.graph().constant(core::full(sizes, value, {.dtype = s.dtype()}));
}

void batch_norm(Step& s) {
  if (s.flag("training") || !s.has(3)) s.refuse("statistics of the batch itself have no operator");
  const core::Shape channels = {s.input(0).size(1)};
  s.set(s.value("BatchNormalization",
                {s.in(0), or_filled(s, 1, channels, 1), or_filled(s, 2, channels, 0), s.in(3), s.in(4)},
                {{"epsilon", s.number("eps")}}));
}

void instance_norm(Step& s) {
  const core::Shape channels = {s.input(0).size(1)};
  const std::string weight = or_filled(s, 1, channels, 1), bias = or_filled(s, 2, channels, 0);
  const Attribute eps = {"epsilon", s.number("eps")};
  if (s.flag("training")) return s.set(s.value("InstanceNormalization", {s.in(0), weight, bias}, {eps}));
  s.set(s.value("BatchNormalization", {s.in(0), weight, bias, s.in(3), s.in(4)}, {eps}));
}

void layer_norm(Step& s) {
  const std::int64_t axes = s.integer("axes");
  const Integers sizes = s.fixed_sizes(0, s.rank() - axes);
  const core::Shape shape(std::span<const std::int64_t>(sizes.data(), sizes.size()));
  s.set(s.value("LayerNormalization", {s.in(0), or_filled(s, 1, shape, 1), s.in(2)},
                {{"axis", -axes}, {"epsilon", s.number("eps")}}));
}

/// The groups as channels of an image, normalised each, then scale and shift by channel.
void group_norm(Step& s) {
  const std::string x = s.in(0);
  const std::int64_t groups = s.integer("groups");
  const std::string flat = s.value("Reshape", {x, s.graph().list(Integers{0, groups, -1})});
  const std::string ones = s.graph().constant(core::ones({groups}, {.dtype = s.dtype()}));
  const std::string zeros = s.graph().constant(core::zeros({groups}, {.dtype = s.dtype()}));
  std::string y = s.value("InstanceNormalization", {flat, ones, zeros}, {{"epsilon", s.number("eps")}});
  y = s.value("Reshape", {y, s.value("Shape", {x})});
  Integers beside = {-1};
  for (std::int64_t d = 2; d < s.rank(); ++d) beside.push_back(1);
  if (s.has(1)) y = s.value("Mul", {y, s.value("Reshape", {s.in(1), s.graph().list(beside)})});
  if (s.has(2)) y = s.value("Add", {y, s.value("Reshape", {s.in(2), s.graph().list(beside)})});
  s.set(y);
}

std::string mean_of_last(Step& s, const std::string& x, std::int64_t axes) {
  Integers last;
  for (std::int64_t i = axes; i > 0; --i) last.push_back(-i);
  if (s.graph().opset() >= 18) return s.value("ReduceMean", {x, s.graph().list(last)});
  return s.value("ReduceMean", {x}, {{"axes", last}});
}

void rms_norm(Step& s) {
  const std::string x = s.in(0);
  const std::string mean = mean_of_last(s, s.value("Mul", {x, x}), s.integer("axes"));
  const std::string root = s.value("Sqrt", {s.value("Add", {mean, s.scalar(s.number("eps"))})});
  const std::string y = s.value("Div", {x, root});
  s.set(s.has(1) ? s.value("Mul", {y, s.in(1)}) : y);
}

void local_response_norm(Step& s) {
  if (s.integer("size") % 2 == 0) s.refuse("an even size has no operator");
  s.set(s.value("LRN", {s.in(0)},
                {{"size", s.integer("size")},
                 {"alpha", s.number("alpha")},
                 {"beta", s.number("beta")},
                 {"bias", s.number("k")}}));
}

void linear(Step& s) {
  if (s.rank() == 2 && s.rank(1) == 2)
    return s.set(s.value("Gemm", {s.in(0), s.in(1), s.in(2)}, {{"transB", std::int64_t{1}}}));
  const bool is_row = s.rank(1) == 1;
  const std::string weight = is_row ? s.in(1) : s.value("Transpose", {s.in(1)}, {{"perm", Integers{1, 0}}});
  const std::string y = s.value("MatMul", {s.in(0), weight});
  s.set(s.has(2) ? s.value("Add", {y, s.in(2)}) : y);
}

void matmul(Step& s) {
  s.set(s.value("MatMul", {s.in(0), s.in(1)}));
}

void addmm(Step& s) {
  s.set(s.value("Gemm", {s.in(1), s.in(2), s.in(0)}, {{"alpha", s.number("alpha")}, {"beta", s.number("beta")}}));
}

void einsum(Step& s) {
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < s.input_count(); ++i) operands.push_back(s.in(i));
  s.set(s.value("Einsum", std::move(operands), {{"equation", s.text("equation")}}));
}

void embedding(Step& s) {
  s.set(s.value("Gather", {s.in(1), s.in(0)}, {{"axis", std::int64_t{0}}}));
}

/// -infinity above the diagonal, 0 elsewhere: (queries, keys).
std::string causal_bias(Step& s) {
  const auto rank = static_cast<std::size_t>(s.rank());
  const std::string sizes =
      s.graph().list(std::vector<SizeTerm>{s.input_sizes(0)[rank - 2], s.input_sizes(1)[rank - 2]});
  const std::string lowest = s.scalar(-std::numeric_limits<double>::infinity());
  const std::string all = s.value("Expand", {lowest, sizes});
  return s.value("Trilu", {all, s.graph().scalar(1, DType::i64)}, {{"upper", std::int64_t{1}}});
}

void attention(Step& s) {
  if (s.number("dropout") != 0) s.refuse("dropout is active");
  Integers swapped;
  for (std::int64_t d = 0; d < s.rank(1); ++d) swapped.push_back(d);
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  const double given = s.number("scale");
  const double scale =
      !std::isnan(given) ? given : 1 / std::sqrt(static_cast<double>(s.fixed_sizes(0, s.rank() - 1)[0]));
  const std::string keys = s.value("Transpose", {s.in(1)}, {{"perm", swapped}});
  std::string scores = s.value("MatMul", {s.value("Mul", {s.in(0), s.scalar(scale)}), keys});
  if (s.flag("is_causal")) scores = s.value("Add", {scores, causal_bias(s)});
  const bool masked = s.has(3) && s.input(3).dtype() == DType::boolean;
  if (masked) {
    scores = s.value("Where", {s.in(3), scores, s.scalar(-std::numeric_limits<double>::infinity())});
  } else if (s.has(3)) {
    scores = s.value("Add", {scores, s.in(3, s.dtype())});
  }
  std::string weights = s.value("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  // Where nothing takes part, there is no weight either.
  if (masked) weights = s.value("Where", {s.in(3), weights, s.scalar(0)});
  s.set(s.value("MatMul", {weights, s.in(2)}));
}

}  // namespace

std::vector<NamedWriter> layer_writers() {
  return {{"batch_norm", batch_norm}, {"instance_norm", instance_norm},
          {"layer_norm", layer_norm}, {"group_norm", group_norm},
          {"rms_norm", rms_norm},     {"local_response_norm", local_response_norm},
          {"linear", linear},         {"matmul", matmul},
          {"addmm", addmm},           {"einsum", einsum},
          {"embedding", embedding},   {"scaled_dot_product_attention", attention}};
}

}  // namespace ckpt::onnx
