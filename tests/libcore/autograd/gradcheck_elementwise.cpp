// Rows of element-wise operations and activations.
#include "libcore/ops/activation.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sparse.h"
#include "libcore/ops/special.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/autograd/gradcheck_cases.h"

namespace test {
namespace {

using Unary = Tensor (*)(const Tensor&);

/// A matrix, one with other strides, and a single number.
void add_unary(GradCases& cases, const std::string& name, std::function<Tensor(const Tensor&)> function,
               double from = -0.9, double to = 1.1) {
  const auto call = [f = std::move(function)](In in) { return f(in[0]); };
  cases.add(name, {irregular({2, 3}, from, to)}, call);
  cases.add(name + "/strided", {strided({2, 3}, from, to)}, call);
  cases.add(name + "/scalar", {irregular({}, from, to)}, call);
}

/// Equal shapes, the second broadcast, the first broadcast, and numbers. `from`, `to`: of the second operand.
void add_binary(GradCases& cases, const std::string& name, std::function<Tensor(const Tensor&, const Tensor&)> function,
                double from = 0.6, double to = 1.9, bool twice = true) {
  const auto call = [f = std::move(function)](In in) { return f(in[0], in[1]); };
  cases.add(name, {irregular({2, 3}, 0.3, 2.8), strided({2, 3}, from, to)}, call, twice);
  cases.add(name + "/broadcast", {strided({2, 3}, 0.3, 2.8), irregular({3}, from, to)}, call, twice);
  cases.add(name + "/broadcast_first", {irregular({2, 1}, 0.3, 2.8), irregular({1, 3}, from, to)}, call, twice);
  cases.add(name + "/scalar", {irregular({}, 0.3, 2.8), irregular({2}, from, to)}, call, twice);
}

void add_special(GradCases& cases) {
  namespace special = core::special;
  for (const auto& [name, function] :
       std::initializer_list<std::pair<const char*, Unary>>{{"entr", special::entr},
                                                            {"erfcx", special::erfcx},
                                                            {"ndtr", special::ndtr},
                                                            {"log_ndtr", special::log_ndtr},
                                                            {"i0", core::i0},
                                                            {"i0e", special::i0e},
                                                            {"i1", special::i1},
                                                            {"i1e", special::i1e},
                                                            {"bessel_j0", special::bessel_j0},
                                                            {"bessel_j1", special::bessel_j1},
                                                            {"bessel_y0", special::bessel_y0},
                                                            {"bessel_y1", special::bessel_y1},
                                                            {"modified_bessel_i0", special::modified_bessel_i0},
                                                            {"modified_bessel_i1", special::modified_bessel_i1},
                                                            {"modified_bessel_k0", special::modified_bessel_k0},
                                                            {"modified_bessel_k1", special::modified_bessel_k1}}) {
    add_unary(cases, name, function, 0.4, 3.2);
  }
  add_unary(cases, "ndtri", special::ndtri, 0.1, 0.9);
  for (const char* name : {"mvlgamma", "multigammaln"}) {
    add_unary(
        cases, name, [](const Tensor& x) { return special::multigammaln(x, 3); }, 1.4, 3.2);
  }
  add_binary(cases, "xlog1py", special::xlog1py);
  const Tensor a = irregular({2, 3}, 0.5, 2.5).detach();
  for (const auto& [name, function] :
       std::initializer_list<std::pair<const char*, Tensor (*)(const Tensor&, const Tensor&)>>{
           {"igamma", core::igamma},
           {"igammac", core::igammac},
           {"gammainc", special::gammainc},
           {"gammaincc", special::gammaincc}}) {
    add_unary(
        cases, name, [=, f = function](const Tensor& x) { return f(a, x); }, 0.4, 3.2);
  }
  add_unary(
      cases, "zeta", [](const Tensor& q) { return special::zeta(core::tensor({2.5}, {.dtype = core::DType::f64}), q); },
      0.6, 3.2);
}

void add_smooth_unary(GradCases& cases) {
  for (const auto& [name, function] : std::initializer_list<std::pair<const char*, Unary>>{
           {"abs", core::abs},          {"atan", core::atan},   {"asinh", core::asinh},     {"ceil", core::ceil},
           {"cos", core::cos},          {"cosh", core::cosh},   {"erf", core::erf},         {"erfc", core::erfc},
           {"exp", core::exp},          {"exp2", core::exp2},   {"expm1", core::expm1},     {"floor", core::floor},
           {"frac", core::frac},        {"log1p", core::log1p}, {"neg", core::neg},         {"round", core::round},
           {"sigmoid", core::sigmoid},  {"sign", core::sign},   {"sin", core::sin},         {"sinh", core::sinh},
           {"square", core::square},    {"tan", core::tan},     {"tanh", core::tanh},       {"trunc", core::trunc},
           {"sgn", core::sgn},          {"sinc", core::sinc},   {"deg2rad", core::deg2rad}, {"rad2deg", core::rad2deg},
           {"positive", core::positive}}) {
    add_unary(cases, name, function);
  }
  for (const auto& [name, function] :
       std::initializer_list<std::pair<const char*, Unary>>{{"digamma", core::digamma},
                                                            {"lgamma", core::lgamma},
                                                            {"log", core::log},
                                                            {"log10", core::log10},
                                                            {"log2", core::log2},
                                                            {"rsqrt", core::rsqrt},
                                                            {"reciprocal", core::reciprocal},
                                                            {"sqrt", core::sqrt},
                                                            {"trigamma", core::trigamma}}) {
    add_unary(cases, name, function, 0.4, 3.2);
  }
  add_unary(cases, "asin", core::asin, -0.8, 0.9);
  add_unary(cases, "acos", core::acos, -0.8, 0.9);
  add_unary(cases, "atanh", core::atanh, -0.8, 0.9);
  add_unary(cases, "erfinv", core::erfinv, -0.8, 0.9);
  add_unary(cases, "acosh", core::acosh, 1.3, 3);
  add_unary(
      cases, "polygamma", [](const Tensor& x) { return core::polygamma(2, x); }, 0.6, 3);
  add_unary(cases, "nan_to_num", [](const Tensor& x) { return core::nan_to_num(x); });
  add_unary(cases, "clamp", [](const Tensor& x) { return core::clamp(x, -0.5, 0.5); });
  add_unary(cases, "clamp/low", [](const Tensor& x) { return core::clamp(x, 0.1); });
  for (const double exponent : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 2.7}) {
    add_unary(
        cases, "pow/" + std::to_string(exponent), [=](const Tensor& x) { return core::pow(x, exponent); }, 0.3, 2);
  }
  add_unary(
      cases, "pow/negative_base", [](const Tensor& x) { return core::pow(x, 3); }, -1.4, 0.9);
  add_unary(cases, "pow/number", [](const Tensor& x) { return core::pow(1.7, x); });
  add_unary(
      cases, "pow/zero", [](const Tensor& x) { return core::pow(0, x); }, 0.5, 2);
  add_unary(
      cases, "float_power/number", [](const Tensor& x) { return core::float_power(x, 2.5); }, 0.3, 2);
}

void add_with_numbers(GradCases& cases) {
  add_unary(cases, "add/number", [](const Tensor& x) { return core::add(x, 2, 3); });
  add_unary(cases, "sub/number", [](const Tensor& x) { return core::sub(x, 2, 3); });
  add_unary(cases, "rsub/number", [](const Tensor& x) { return core::rsub(x, 2, 3); });
  add_unary(cases, "mul/number", [](const Tensor& x) { return core::mul(x, 1.3); });
  add_unary(cases, "div/number", [](const Tensor& x) { return core::div(x, 1.3); });
  add_unary(cases, "copysign/number", [](const Tensor& x) { return core::copysign(x, -1); });
}

void add_binary_cases(GradCases& cases) {
  add_binary(cases, "add", [](const Tensor& a, const Tensor& b) { return core::add(a, b, 1.5); });
  add_binary(cases, "sub", [](const Tensor& a, const Tensor& b) { return core::sub(a, b, 1.5); });
  add_binary(cases, "rsub", [](const Tensor& a, const Tensor& b) { return core::rsub(a, b, 1.5); });
  add_binary(cases, "mul", [](const Tensor& a, const Tensor& b) { return core::mul(a, b); });
  add_binary(cases, "div", [](const Tensor& a, const Tensor& b) { return core::div(a, b); });
  add_binary(cases, "div/floor",
             [](const Tensor& a, const Tensor& b) { return core::div(a, b, core::Rounding::floor); });
  add_binary(cases, "div/trunc",
             [](const Tensor& a, const Tensor& b) { return core::div(a, b, core::Rounding::trunc); });
  add_binary(cases, "remainder", core::remainder);
  add_binary(cases, "fmod", core::fmod);
  add_binary(cases, "pow", [](const Tensor& a, const Tensor& b) { return core::pow(a, b); });
  add_binary(cases, "float_power", [](const Tensor& a, const Tensor& b) { return core::float_power(a, b); });
  add_binary(cases, "maximum", core::maximum, 0.71, 1.93);
  add_binary(cases, "minimum", core::minimum, 0.71, 1.93);
  add_binary(cases, "fmax", core::fmax, 0.71, 1.93);
  add_binary(cases, "fmin", core::fmin, 0.71, 1.93);
  add_binary(cases, "atan2", core::atan2);
  add_binary(cases, "hypot", core::hypot);
  add_binary(cases, "logaddexp", core::logaddexp);
  add_binary(cases, "logaddexp2", core::logaddexp2);
  add_binary(cases, "copysign", [](const Tensor& a, const Tensor& b) { return core::copysign(a, b); });
  add_binary(cases, "xlogy", core::xlogy);
  add_binary(cases, "ldexp", core::ldexp);
  add_binary(cases, "dist", [](const Tensor& a, const Tensor& b) { return core::dist(a, b, 3); });
}

void add_ternary_cases(GradCases& cases) {
  const Tensor mask = core::tensor({{true, false, true}, {false, false, true}});
  cases.add("where", {irregular({2, 3}), irregular({3})}, [=](In in) { return core::where(mask, in[0], in[1]); });
  cases.add("where/number", {irregular({2, 3})},
            [=](In in) { return core::where(mask, in[0], 2) + core::where(mask, 3, in[0]); });
  cases.add("masked_fill", {strided({2, 3})}, [=](In in) { return core::masked_fill(in[0], mask, 0.5); });
  cases.add("masked_fill/broadcast", {irregular({3})}, [=](In in) { return core::masked_fill(in[0], mask, 0.5); });
  cases.add("lerp", {irregular({2, 3}), irregular({3})}, [](In in) { return core::lerp(in[0], in[1], 0.7); });
  cases.add("lerp/tensor", {irregular({2, 3}), irregular({3}), irregular({2, 1})},
            [](In in) { return core::lerp(in[0], in[1], in[2]); });
  cases.add("addcmul", {irregular({2, 3}), irregular({3}), irregular({2, 1})},
            [](In in) { return core::addcmul(in[0], in[1], in[2], 0.7); });
  cases.add("addcdiv", {irregular({2, 3}), irregular({3}), irregular({2, 1}, 0.5, 2)},
            [](In in) { return core::addcdiv(in[0], in[1], in[2], 0.7); });
  cases.add("clamp/tensors", {irregular({2, 3}), irregular({3}, -0.6, -0.2), irregular({2, 1}, 0.3, 0.7)},
            [](In in) { return core::clamp(in[0], in[1], in[2]); });
}

}  // namespace

void add_elementwise_cases(GradCases& cases) {
  add_smooth_unary(cases);
  add_special(cases);
  add_with_numbers(cases);
  add_binary_cases(cases);
  add_ternary_cases(cases);
}

void add_activation_cases(GradCases& cases) {
  for (const auto& [name, function] :
       std::initializer_list<std::pair<const char*, Unary>>{{"relu", core::relu},
                                                            {"silu", core::silu},
                                                            {"relu6", core::relu6},
                                                            {"log_sigmoid", core::log_sigmoid},
                                                            {"selu", core::selu},
                                                            {"hardsigmoid", core::hardsigmoid},
                                                            {"mish", core::mish},
                                                            {"hardswish", core::hardswish},
                                                            {"softsign", core::softsign},
                                                            {"tanhshrink", core::tanhshrink}}) {
    add_unary(cases, name, function);
  }
  add_unary(cases, "relu6/limit", core::relu6, 5.3, 6.9);
  add_unary(cases, "hardswish/limits", core::hardswish, -3.7, 3.9);
  add_unary(cases, "hardsigmoid/limits", core::hardsigmoid, -3.7, 3.9);
  add_unary(cases, "gelu", [](const Tensor& x) { return core::gelu(x); });
  add_unary(cases, "gelu/tanh", [](const Tensor& x) { return core::gelu(x, core::GeluForm::tanh); });
  add_unary(cases, "leaky_relu", [](const Tensor& x) { return core::leaky_relu(x, 0.2); });
  add_unary(cases, "elu", [](const Tensor& x) { return core::elu(x, 1.3); });
  add_unary(cases, "celu", [](const Tensor& x) { return core::celu(x, 1.3); });
  add_unary(cases, "softplus", [](const Tensor& x) { return core::softplus(x, 2, 1.5); });
  add_unary(cases, "threshold", [](const Tensor& x) { return core::threshold(x, 0.1, 2); });
  add_unary(cases, "hardtanh", [](const Tensor& x) { return core::hardtanh(x, -0.4, 0.6); });
  add_unary(cases, "softshrink", [](const Tensor& x) { return core::softshrink(x, 0.3); });
  add_unary(cases, "hardshrink", [](const Tensor& x) { return core::hardshrink(x, 0.3); });
  add_unary(
      cases, "logit", [](const Tensor& x) { return core::logit(x); }, 0.1, 0.9);
  add_unary(
      cases, "logit/eps", [](const Tensor& x) { return core::logit(x, 0.2); }, 0.05, 0.95);
  add_unary(cases, "rrelu", [](const Tensor& x) { return core::rrelu(x); });
  cases.add("softmax", {irregular({2, 3})}, [](In in) { return core::softmax(in[0], 1); });
  cases.add("softmax/strided", {strided({2, 3, 2})}, [](In in) { return core::softmax(in[0], 0); });
  cases.add("log_softmax", {irregular({2, 3})}, [](In in) { return core::log_softmax(in[0], -1); });
  cases.add("log_softmax/strided", {strided({2, 3, 2})}, [](In in) { return core::log_softmax(in[0], 1); });
  cases.add("softmin", {irregular({2, 3})}, [](In in) { return core::softmin(in[0], 1); });
  cases.add("glu", {irregular({2, 4})}, [](In in) { return core::glu(in[0], 1); });
  cases.add("glu/strided", {strided({4, 3})}, [](In in) { return core::glu(in[0], 0); });
  cases.add("prelu", {irregular({2, 3, 2}), irregular({3}, 0.1, 0.4)}, [](In in) { return core::prelu(in[0], in[1]); });
  cases.add("prelu/one", {irregular({2, 3}), irregular({1}, 0.1, 0.4)},
            [](In in) { return core::prelu(in[0], in[1]); });
}

}  // namespace test
