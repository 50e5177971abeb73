// Operations element by element, on all samples at once.
#include <algorithm>
#include <cmath>
#include <optional>

#include "libcore/autograd/batch_rules.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/bitwise.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/type_promotion.h"

namespace core::func::detail {
namespace {

/// A plain function of one tensor.
template <Tensor (*kFunction)(const Tensor&)>
Results one(const BatchedCall& c) {
  return {kFunction(c.batches[0])};
}

Results leaky(const BatchedCall& c) {
  return {leaky_relu(c.batches[0], c.number("a"))};
}
Results elu_rule(const BatchedCall& c) {
  if (c.number("b") != 1 || c.number("c") != 1) no_batch_rule();
  return {elu(c.batches[0], c.number("a"))};
}
Results softplus_rule(const BatchedCall& c) {
  return {softplus(c.batches[0], c.number("a"), c.number("b"))};
}
Results threshold_rule(const BatchedCall& c) {
  return {threshold(c.batches[0], c.number("a"), c.number("b"))};
}
Results gelu_rule(const BatchedCall& c) {
  return {gelu(c.batches[0])};
}
Results gelu_tanh_rule(const BatchedCall& c) {
  return {gelu(c.batches[0], GeluForm::tanh)};
}
Results clamp_rule(const BatchedCall& c) {
  const auto bound = [&](const char* key) -> std::optional<Scalar> {
    const double number = c.number(key);
    if (std::isinf(number)) return std::nullopt;
    if (c.output().is_floating_point()) return Scalar(number);
    return Scalar(static_cast<std::int64_t>(number));
  };
  if (!bound("a") && !bound("b")) return {c.batches[0].clone()};
  return {clamp(c.batches[0], bound("a"), bound("b"))};
}
/// The same tensor, as where dropout is off.
Results dropout_rule(const BatchedCall& c) {
  if (c.flag("active")) no_batch_rule();
  return {c.batches[0]};
}

/// Two operands that broadcast sample by sample. One without dimensions is weak in type promotion, and is not any more
/// with the samples in front: then it is of the result's type at once.
struct Operands {
  Tensor a, b;
};
Operands operands(const BatchedCall& c) {
  const std::int64_t rank = std::max(c.rank(0), c.rank(1));
  const DType dtype = result_type(c.given(0), c.given(1));
  const auto operand = [&](std::size_t i) {
    const Tensor x = c.aligned(i, rank);
    return c.is_batch(i) && c.rank(i) == 0 ? x.to(dtype) : x;
  };
  return {operand(0), operand(1)};
}

template <class TwoTensors>
Results two(const BatchedCall& c, TwoTensors function) {
  if (c.is_given("first") || c.is_given("second")) no_batch_rule();
  const Operands in = operands(c);
  return {function(in.a, in.b)};
}
template <Tensor (*kFunction)(const Tensor&, const Tensor&)>
Results plain_two(const BatchedCall& c) {
  return two(c, kFunction);
}

Results add_rule(const BatchedCall& c) {
  const double alpha = c.number("alpha");
  if (c.is_given("second")) return {alpha == 1 ? c.batches[0] + c.scalar("second") : Tensor()};
  if (c.is_given("first")) return {alpha == 1 ? c.batches[0] + c.scalar("first") : Tensor()};
  return two(c, [&](const Tensor& a, const Tensor& b) { return alpha == 1 ? a + b : add(a, b, alpha); });
}
Results sub_rule(const BatchedCall& c) {
  const double alpha = c.number("alpha");
  if (c.is_given("second")) return {alpha == 1 ? c.batches[0] - c.scalar("second") : Tensor()};
  if (c.is_given("first")) return {alpha == 1 ? c.scalar("first") - c.batches[0] : Tensor()};
  return two(c, [&](const Tensor& a, const Tensor& b) { return alpha == 1 ? a - b : sub(a, b, alpha); });
}
Results mul_rule(const BatchedCall& c) {
  if (c.is_given("second")) return {c.batches[0] * c.scalar("second")};
  if (c.is_given("first")) return {c.batches[0] * c.scalar("first")};
  return two(c, [](const Tensor& a, const Tensor& b) { return a * b; });
}
Results div_rule(const BatchedCall& c) {
  if (c.is_given("second")) return {c.batches[0] / c.scalar("second")};
  if (c.is_given("first")) return {c.scalar("first") / c.batches[0]};
  return two(c, [](const Tensor& a, const Tensor& b) { return a / b; });
}
Results pow_rule(const BatchedCall& c) {
  if (c.is_given("second")) return {pow(c.batches[0], c.scalar("second"))};
  if (c.is_given("first")) return {pow(c.scalar("first"), c.batches[0])};
  return two(c, [](const Tensor& a, const Tensor& b) { return pow(a, b); });
}
/// div() by this rounding has a derivative, floor_divide() has none, and both have this name.
Results floor_rule(const BatchedCall& c) {
  for (const Tensor& x : c.traced.inputs) {
    if (x.requires_grad()) no_batch_rule();
  }
  if (c.is_given("second")) return {floor_divide(c.batches[0], c.scalar("second"))};
  return two(c, [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); });
}

template <Tensor (*kTensors)(const Tensor&, const Tensor&), Tensor (*kNumber)(const Tensor&, Scalar)>
Results comparison(const BatchedCall& c) {
  if (c.is_given("second")) return {kNumber(c.batches[0], c.scalar("second"))};
  return two(c, kTensors);
}

Results where_rule(const BatchedCall& c) {
  const std::int64_t rank = std::max({c.rank(0), c.rank(1), c.rank(2)});
  const DType dtype = c.output().dtype();
  const auto choice = [&](std::size_t i) {
    const Tensor x = c.aligned(i, rank);
    return c.is_batch(i) && c.rank(i) == 0 ? x.to(dtype) : x;
  };
  return {where(c.aligned(0, rank), choice(1), choice(2))};
}

template <class ThreeTensors>
Results three(const BatchedCall& c, ThreeTensors function) {
  const std::int64_t rank = std::max({c.rank(0), c.rank(1), c.rank(2)});
  for (std::size_t i = 0; i < 3; ++i) {
    if (c.given(i).dtype() != c.output().dtype()) no_batch_rule();
  }
  return {function(c.aligned(0, rank), c.aligned(1, rank), c.aligned(2, rank))};
}
Results addcmul_rule(const BatchedCall& c) {
  return three(c,
               [&](const Tensor& x, const Tensor& y, const Tensor& z) { return addcmul(x, y, z, c.number("value")); });
}
Results addcdiv_rule(const BatchedCall& c) {
  return three(c,
               [&](const Tensor& x, const Tensor& y, const Tensor& z) { return addcdiv(x, y, z, c.number("value")); });
}
Results lerp_rule(const BatchedCall& c) {
  return three(c, [](const Tensor& x, const Tensor& y, const Tensor& z) { return lerp(x, y, z); });
}

std::vector<NamedBatchRule> unary_rules() {
  return {{"neg", one<neg>},
          {"abs", one<abs>},
          {"sign", one<sign>},
          {"floor", one<floor>},
          {"ceil", one<ceil>},
          {"round", one<round>},
          {"trunc", one<trunc>},
          {"frac", one<frac>},
          {"square", one<square>},
          {"reciprocal", one<reciprocal>},
          {"sqrt", one<sqrt>},
          {"rsqrt", one<rsqrt>},
          {"exp", one<exp>},
          {"exp2", one<exp2>},
          {"expm1", one<expm1>},
          {"log", one<log>},
          {"log2", one<log2>},
          {"log10", one<log10>},
          {"log1p", one<log1p>},
          {"sin", one<sin>},
          {"cos", one<cos>},
          {"tan", one<tan>},
          {"asin", one<asin>},
          {"acos", one<acos>},
          {"atan", one<atan>},
          {"sinh", one<sinh>},
          {"cosh", one<cosh>},
          {"tanh", one<tanh>},
          {"asinh", one<asinh>},
          {"acosh", one<acosh>},
          {"atanh", one<atanh>},
          {"sigmoid", one<sigmoid>},
          {"relu", one<relu>},
          {"erf", one<erf>},
          {"erfc", one<erfc>},
          {"erfinv", one<erfinv>},
          {"lgamma", one<lgamma>},
          {"digamma", one<digamma>},
          {"silu", one<silu>},
          {"log_sigmoid", one<log_sigmoid>},
          {"logical_not", one<logical_not>},
          {"isnan", one<isnan>},
          {"isinf", one<isinf>},
          {"isfinite", one<isfinite>},
          {"bitwise_not", one<bitwise_not>},
          {"gelu", gelu_rule},
          {"gelu_tanh", gelu_tanh_rule},
          {"leaky_relu", leaky},
          {"elu", elu_rule},
          {"softplus", softplus_rule},
          {"threshold", threshold_rule},
          {"clamp", clamp_rule},
          {"dropout", dropout_rule}};
}

}  // namespace

std::vector<NamedBatchRule> elementwise_batch_rules() {
  std::vector<NamedBatchRule> all = unary_rules();
  const std::vector<NamedBatchRule> others = {{"add", add_rule},
                                              {"sub", sub_rule},
                                              {"mul", mul_rule},
                                              {"div", div_rule},
                                              {"pow", pow_rule},
                                              {"div_floor", floor_rule},
                                              {"maximum", plain_two<maximum>},
                                              {"minimum", plain_two<minimum>},
                                              {"atan2", plain_two<atan2>},
                                              {"remainder", plain_two<remainder>},
                                              {"fmod", plain_two<fmod>},
                                              {"logaddexp", plain_two<logaddexp>},
                                              {"logical_and", plain_two<logical_and>},
                                              {"logical_or", plain_two<logical_or>},
                                              {"logical_xor", plain_two<logical_xor>},
                                              {"eq", comparison<eq, eq>},
                                              {"ne", comparison<ne, ne>},
                                              {"lt", comparison<lt, lt>},
                                              {"le", comparison<le, le>},
                                              {"gt", comparison<gt, gt>},
                                              {"ge", comparison<ge, ge>},
                                              {"where", where_rule},
                                              {"addcmul", addcmul_rule},
                                              {"addcdiv", addcdiv_rule},
                                              {"lerp", lerp_rule}};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

namespace {

/// What is written, as large as what it is written into.
Tensor written(const BatchedCall& c, std::size_t i) {
  return c.aligned(i, c.outputs[0].dim());
}
void check_fits(const BatchedCall& c, std::size_t i) {
  if (c.given(i).dim() > c.outputs[0].dim()) no_batch_rule();
}
Results copy_in_place(const BatchedCall& c) {
  check_fits(c, 0);
  c.changed.copy_(written(c, 0));
  return {};
}
template <class Numbers, class Tensors>
Results changed_by(const BatchedCall& c, Numbers by_number, Tensors by_tensor) {
  if (c.number("alpha") != 1) no_batch_rule();
  if (c.is_given("second")) return by_number(c.scalar("second")), Results();
  check_fits(c, 1);
  if (c.given(1).dtype() != c.outputs[0].dtype()) no_batch_rule();
  by_tensor(written(c, 1));
  return {};
}
Results add_in_place(const BatchedCall& c) {
  return changed_by(
      c, [&](Scalar n) { c.changed.add_(n); }, [&](const Tensor& t) { c.changed.add_(t); });
}
Results sub_in_place(const BatchedCall& c) {
  return changed_by(
      c, [&](Scalar n) { c.changed.sub_(n); }, [&](const Tensor& t) { c.changed.sub_(t); });
}
Results mul_in_place(const BatchedCall& c) {
  return changed_by(
      c, [&](Scalar n) { c.changed.mul_(n); }, [&](const Tensor& t) { c.changed.mul_(t); });
}
Results div_in_place(const BatchedCall& c) {
  return changed_by(
      c, [&](Scalar n) { c.changed.div_(n); }, [&](const Tensor& t) { c.changed.div_(t); });
}

}  // namespace

std::vector<NamedBatchRule> in_place_batch_rules() {
  return {{"copy", copy_in_place},
          {"add", add_in_place},
          {"sub", sub_in_place},
          {"mul", mul_in_place},
          {"div", div_in_place}};
}

}  // namespace core::func::detail
