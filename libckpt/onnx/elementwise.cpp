// Operations element by element as ONNX operators.
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "libckpt/onnx/step.h"
#include "libcore/tensor/type_promotion.h"

namespace ckpt::onnx {
namespace {

using core::DType;

/// One operator on the input in the result's dtype.
#define ONNX_PLAIN(name, op)                  \
  void name(Step& s) {                        \
    s.set(s.value(op, {s.in(0, s.dtype())})); \
  }
ONNX_PLAIN(neg, "Neg")
ONNX_PLAIN(abs_, "Abs")
ONNX_PLAIN(sign, "Sign")
ONNX_PLAIN(reciprocal, "Reciprocal")
ONNX_PLAIN(sqrt_, "Sqrt")
ONNX_PLAIN(exp_, "Exp")
ONNX_PLAIN(log_, "Log")
ONNX_PLAIN(sin_, "Sin")
ONNX_PLAIN(cos_, "Cos")
ONNX_PLAIN(tanh_, "Tanh")
ONNX_PLAIN(sigmoid, "Sigmoid")
ONNX_PLAIN(relu, "Relu")
ONNX_PLAIN(erf_, "Erf")
ONNX_PLAIN(tan_, "Tan")
ONNX_PLAIN(asin_, "Asin")
ONNX_PLAIN(acos_, "Acos")
ONNX_PLAIN(atan_, "Atan")
ONNX_PLAIN(sinh_, "Sinh")
ONNX_PLAIN(cosh_, "Cosh")
ONNX_PLAIN(asinh_, "Asinh")
ONNX_PLAIN(acosh_, "Acosh")
ONNX_PLAIN(atanh_, "Atanh")
ONNX_PLAIN(same, "Identity")
#undef ONNX_PLAIN

/// Whole numbers stay as they are.
void rounded(Step& s, const char* op) {
  s.set(s.value(core::is_floating(s.dtype()) ? op : "Identity", {s.in(0, s.dtype())}));
}
void floor_(Step& s) {
  rounded(s, "Floor");
}
void ceil_(Step& s) {
  rounded(s, "Ceil");
}
void round_(Step& s) {
  rounded(s, "Round");
}

/// Toward zero.
std::string whole_part(Step& s, const std::string& x) {
  return s.value("Mul", {s.value("Sign", {x}), s.value("Floor", {s.value("Abs", {x})})});
}
void trunc_(Step& s) {
  const std::string x = s.in(0, s.dtype());
  s.set(core::is_floating(s.dtype()) ? whole_part(s, x) : x);
}
void frac(Step& s) {
  const std::string x = s.in(0, s.dtype());
  s.set(s.value("Sub", {x, whole_part(s, x)}));
}

void erfc_(Step& s) {
  s.set(s.value("Sub", {s.scalar(1), s.value("Erf", {s.in(0, s.dtype())})}));
}
/// The larger one, and log(1 + exp(-|a - b|)) more.
void logaddexp(Step& s) {
  const std::string a = s.in(0, s.dtype()), b = s.in(1, s.dtype());
  const std::string apart = s.value("Neg", {s.value("Abs", {s.value("Sub", {a, b})})});
  const std::string more = s.value("Log", {s.value("Add", {s.value("Exp", {apart}), s.scalar(1)})});
  s.set(s.value("Add", {s.value("Max", {a, b}), more}));
}

void exp2_(Step& s) {
  s.set(s.value("Pow", {s.scalar(2), s.in(0, s.dtype())}));
}
void expm1_(Step& s) {
  s.set(s.value("Sub", {s.value("Exp", {s.in(0, s.dtype())}), s.scalar(1)}));
}
void log1p_(Step& s) {
  s.set(s.value("Log", {s.value("Add", {s.in(0, s.dtype()), s.scalar(1)})}));
}
void log_of_base(Step& s, double base) {
  s.set(s.value("Mul", {s.value("Log", {s.in(0, s.dtype())}), s.scalar(1 / std::log(base))}));
}
void log2_(Step& s) {
  log_of_base(s, 2);
}
void log10_(Step& s) {
  log_of_base(s, 10);
}

void square(Step& s) {
  const std::string x = s.in(0, s.dtype());
  s.set(s.value("Mul", {x, x}));
}

void rsqrt(Step& s) {
  s.set(s.value("Reciprocal", {s.value("Sqrt", {s.in(0, s.dtype())})}));
}

void silu(Step& s) {
  const std::string x = s.in(0);
  s.set(s.value("Mul", {x, s.value("Sigmoid", {x})}));
}

void log_sigmoid(Step& s) {
  s.set(s.value("Neg", {s.value("Softplus", {s.value("Neg", {s.in(0)})})}));
}

/// x * (1 + erf(x / sqrt(2))) / 2
void gelu(Step& s) {
  const std::string x = s.in(0);
  const std::string cdf = s.value("Erf", {s.value("Mul", {x, s.scalar(std::sqrt(0.5))})});
  s.set(s.value("Mul", {s.value("Mul", {x, s.scalar(0.5)}), s.value("Add", {cdf, s.scalar(1)})}));
}

void gelu_tanh(Step& s) {
  const std::string x = s.in(0);
  const std::string cube = s.value("Mul", {s.value("Mul", {x, x}), x});
  const std::string inner = s.value("Add", {x, s.value("Mul", {cube, s.scalar(0.044715)})});
  const std::string t = s.value("Tanh", {s.value("Mul", {inner, s.scalar(std::sqrt(2 / std::numbers::pi))})});
  s.set(s.value("Mul", {s.value("Mul", {x, s.scalar(0.5)}), s.value("Add", {t, s.scalar(1)})}));
}

void leaky_relu(Step& s) {
  s.set(s.value("LeakyRelu", {s.in(0)}, {{"alpha", s.number("a")}}));
}

/// b * x above 0, else a * b * (exp(c * x) - 1).
void elu(Step& s) {
  const double a = s.number("a"), b = s.number("b"), c = s.number("c");
  const std::string x = s.in(0);
  if (b == 1 && c == 1) return s.set(s.value("Elu", {x}, {{"alpha", a}}));
  const std::string inner = s.value("Sub", {s.value("Exp", {s.value("Mul", {x, s.scalar(c)})}), s.scalar(1)});
  const std::string below = s.value("Mul", {inner, s.scalar(a * b)}), above = s.value("Mul", {x, s.scalar(b)});
  s.set(s.value("Where", {s.value("Greater", {x, s.scalar(0)}), above, below}));
}

/// log(1 + exp(a * x)) / a, and x itself where a * x is above b.
void softplus(Step& s) {
  const double beta = s.number("a"), limit = s.number("b");
  const std::string x = s.in(0), scaled = beta == 1 ? x : s.value("Mul", {x, s.scalar(beta)});
  std::string y = s.value("Softplus", {scaled});
  if (beta != 1) y = s.value("Div", {y, s.scalar(beta)});
  if (limit < 20) y = s.value("Where", {s.value("Greater", {scaled, s.scalar(limit)}), x, y});
  s.set(y);
}

void threshold(Step& s) {
  const std::string x = s.in(0, s.dtype());
  s.set(s.value("Where", {s.value("Greater", {x, s.scalar(s.number("a"))}), x, s.scalar(s.number("b"))}));
}

void isnan_(Step& s) {
  if (!core::is_floating(s.input(0).dtype())) s.refuse("it has an operator for floating point numbers alone");
  s.set(s.value("IsNaN", {s.in(0)}));
}
void isinf_(Step& s) {
  if (!core::is_floating(s.input(0).dtype())) s.refuse("it has an operator for floating point numbers alone");
  s.set(s.value("IsInf", {s.in(0)}));
}
void isfinite_(Step& s) {
  if (!core::is_floating(s.input(0).dtype())) s.refuse("it has an operator for floating point numbers alone");
  const std::string x = s.in(0);
  s.set(s.value("Not", {s.value("Or", {s.value("IsNaN", {x}), s.value("IsInf", {x})})}));
}
void nan_to_num(Step& s) {
  std::string x = s.in(0, s.dtype());
  if (!core::is_floating(s.dtype())) return s.set(x);
  const std::int64_t on = 1, off = 0;
  const std::string up = s.value("IsInf", {x}, {{"detect_negative", off}, {"detect_positive", on}});
  const std::string down = s.value("IsInf", {x}, {{"detect_negative", on}, {"detect_positive", off}});
  std::string y = s.value("Where", {s.value("IsNaN", {x}), s.scalar(s.number("a")), x});
  y = s.value("Where", {up, s.scalar(s.number("b")), y});
  s.set(s.value("Where", {down, s.scalar(s.number("c")), y}));
}

void clamp(Step& s) {
  const auto bound = [&](const char* key) { return std::isinf(s.number(key)) ? "" : s.scalar(s.number(key)); };
  s.set(s.value("Clip", {s.in(0, s.dtype()), bound("a"), bound("b")}));
}

/// The two operands in `dtype`; a number beside a tensor is one of them.
std::pair<std::string, std::string> operands(Step& s, DType dtype) {
  if (s.is_given("first")) return {s.graph().scalar(s.scalar_of("first"), dtype), s.in(0, dtype)};
  if (s.is_given("second")) return {s.in(0, dtype), s.graph().scalar(s.scalar_of("second"), dtype)};
  return {s.in(0, dtype), s.in(1, dtype)};
}

void binary(Step& s, const char* op) {
  const auto [a, b] = operands(s, s.dtype());
  s.set(s.value(op, {a, b}));
}
void arithmetic(Step& s, const char* op) {
  auto [a, b] = operands(s, s.dtype());
  if (s.is_given("alpha") && s.number("alpha") != 1) b = s.value("Mul", {b, s.scalar(s.number("alpha"))});
  s.set(s.value(op, {a, b}));
}
void add(Step& s) {
  if (s.dtype() == DType::boolean) return binary(s, "Or");
  arithmetic(s, "Add");
}
void sub(Step& s) {
  arithmetic(s, "Sub");
}
void mul(Step& s) {
  binary(s, s.dtype() == DType::boolean ? "And" : "Mul");
}
void div(Step& s) {
  binary(s, "Div");
}
void pow_(Step& s) {
  binary(s, "Pow");
}
void maximum(Step& s) {
  binary(s, s.dtype() == DType::boolean ? "Or" : "Max");
}
void minimum(Step& s) {
  binary(s, s.dtype() == DType::boolean ? "And" : "Min");
}
/// Rounded down; of integers too, where Div cuts toward zero.
void div_floor(Step& s) {
  const DType wide = core::is_floating(s.dtype()) ? s.dtype() : DType::f64;
  const auto [a, b] = operands(s, wide);
  s.set(s.cast(s.value("Floor", {s.value("Div", {a, b})}), wide, s.dtype()));
}

void div_trunc(Step& s) {
  const auto [a, b] = operands(s, s.dtype());
  const std::string y = s.value("Div", {a, b});
  s.set(core::is_floating(s.dtype()) ? whole_part(s, y) : y);
}
/// Of the sign of the divisor.
void remainder_(Step& s) {
  const auto [a, b] = operands(s, s.dtype());
  if (!core::is_floating(s.dtype())) return s.set(s.value("Mod", {a, b}));
  s.set(s.value("Sub", {a, s.value("Mul", {b, s.value("Floor", {s.value("Div", {a, b})})})}));
}
void fmod_(Step& s) {
  const auto [a, b] = operands(s, s.dtype());
  s.set(s.value("Mod", {a, b}, {{"fmod", std::int64_t{1}}}));
}
/// From the angle of a / b, half a turn away on the left side; 0 in the middle.
void atan2_(Step& s) {
  const auto [a, b] = operands(s, s.dtype());
  const std::string zero = s.scalar(0), angle = s.value("Atan", {s.value("Div", {a, b})});
  const std::string turn =
      s.value("Where", {s.value("Less", {a, zero}), s.scalar(-std::numbers::pi), s.scalar(std::numbers::pi)});
  const std::string y = s.value("Where", {s.value("Less", {b, zero}), s.value("Add", {angle, turn}), angle});
  const std::string middle = s.value("And", {s.value("Equal", {a, zero}), s.value("Equal", {b, zero})});
  s.set(s.value("Where", {middle, zero, y}));
}
/// Of numbers from opset 18 on.
void bitwise(Step& s, const char* of_numbers, const char* of_truths) {
  const bool truths = s.dtype() == DType::boolean;
  if (!truths && s.graph().opset() < 18) s.refuse("whole numbers have an operator from opset 18 on");
  binary(s, truths ? of_truths : of_numbers);
}
void bitwise_and(Step& s) {
  bitwise(s, "BitwiseAnd", "And");
}
void bitwise_or(Step& s) {
  bitwise(s, "BitwiseOr", "Or");
}
void bitwise_xor(Step& s) {
  bitwise(s, "BitwiseXor", "Xor");
}
void bitwise_not(Step& s) {
  const bool truths = s.dtype() == DType::boolean;
  if (!truths && s.graph().opset() < 18) s.refuse("whole numbers have an operator from opset 18 on");
  s.set(s.value(truths ? "Not" : "BitwiseNot", {s.in(0)}));
}

/// The dtype in which two operands are compared.
DType compared(Step& s) {
  if (!s.is_given("second")) return core::result_type(s.input(0), s.input(1));
  const auto& number = std::get<core::Scalar>(s.op().find("second")->value);
  return core::result_type(s.input(0), number);
}
void compare(Step& s, const char* op) {
  DType dtype = compared(s);
  if (dtype == DType::boolean) dtype = DType::i32;
  const auto [a, b] = operands(s, dtype);
  s.set(s.value(op, {a, b}));
}
void eq(Step& s) {
  compare(s, "Equal");
}
void ne(Step& s) {
  const DType dtype = compared(s) == DType::boolean ? DType::i32 : compared(s);
  const auto [a, b] = operands(s, dtype);
  s.set(s.value("Not", {s.value("Equal", {a, b})}));
}
void lt(Step& s) {
  compare(s, "Less");
}
void le(Step& s) {
  compare(s, "LessOrEqual");
}
void gt(Step& s) {
  compare(s, "Greater");
}
void ge(Step& s) {
  compare(s, "GreaterOrEqual");
}
void logical_and(Step& s) {
  s.set(s.value("And", {s.in(0, DType::boolean), s.in(1, DType::boolean)}));
}
void logical_or(Step& s) {
  s.set(s.value("Or", {s.in(0, DType::boolean), s.in(1, DType::boolean)}));
}
void logical_not(Step& s) {
  s.set(s.value("Not", {s.in(0, DType::boolean)}));
}

void logical_xor(Step& s) {
  s.set(s.value("Xor", {s.in(0, DType::boolean), s.in(1, DType::boolean)}));
}

/// a + value * (b op c)
void added(Step& s, const char* op) {
  std::string part = s.value(op, {s.in(1, s.dtype()), s.in(2, s.dtype())});
  if (s.number("value") != 1) part = s.value("Mul", {part, s.scalar(s.number("value"))});
  s.set(s.value("Add", {s.in(0, s.dtype()), part}));
}
void addcmul(Step& s) {
  added(s, "Mul");
}
void addcdiv(Step& s) {
  added(s, "Div");
}
void lerp(Step& s) {
  const std::string a = s.in(0, s.dtype()), way = s.value("Sub", {s.in(1, s.dtype()), a});
  s.set(s.value("Add", {a, s.value("Mul", {s.in(2, s.dtype()), way})}));
}

/// Of truths by what they are made of, as runtimes have it for numbers alone.
void where(Step& s) {
  if (s.dtype() == DType::boolean) {
    const std::string mask = s.in(0, DType::boolean), other = s.value("Not", {mask});
    return s.set(s.value(
        "Or", {s.value("And", {mask, s.in(1, DType::boolean)}), s.value("And", {other, s.in(2, DType::boolean)})}));
  }
  s.set(s.value("Where", {s.in(0, DType::boolean), s.in(1, s.dtype()), s.in(2, s.dtype())}));
}

void to(Step& s) {
  s.set(s.in(0, s.dtype()));
}

void dropout(Step& s) {
  if (s.flag("active")) s.refuse("dropout is active");
  s.set(s.in(0));
}

/// Into a whole tensor: the other one, as large.
void copy(Step& s) {
  const std::string x = s.in(0, s.dtype());
  s.set(s.input(0).sizes() == s.output().sizes() ? x : s.value("Expand", {x, s.graph().list(s.output_sizes())}));
}

/// Of one input.
std::vector<NamedWriter> unary_writers() {
  return {{"neg", neg},
          {"abs", abs_},
          {"sign", sign},
          {"floor", floor_},
          {"ceil", ceil_},
          {"round", round_},
          {"reciprocal", reciprocal},
          {"sqrt", sqrt_},
          {"exp", exp_},
          {"log", log_},
          {"sin", sin_},
          {"cos", cos_},
          {"tanh", tanh_},
          {"sigmoid", sigmoid},
          {"relu", relu},
          {"erf", erf_},
          {"tan", tan_},
          {"asin", asin_},
          {"acos", acos_},
          {"atan", atan_},
          {"sinh", sinh_},
          {"cosh", cosh_},
          {"asinh", asinh_},
          {"acosh", acosh_},
          {"atanh", atanh_},
          {"erfc", erfc_},
          {"logaddexp", logaddexp},
          {"trunc", trunc_},
          {"frac", frac},
          {"exp2", exp2_},
          {"expm1", expm1_},
          {"log1p", log1p_},
          {"log2", log2_},
          {"log10", log10_},
          {"threshold", threshold},
          {"isnan", isnan_},
          {"isinf", isinf_},
          {"isfinite", isfinite_},
          {"nan_to_num", nan_to_num},
          {"detach", same},
          {"clone", same},
          {"contiguous", same},
          {"square", square},
          {"rsqrt", rsqrt},
          {"silu", silu},
          {"log_sigmoid", log_sigmoid},
          {"gelu", gelu},
          {"gelu_tanh", gelu_tanh},
          {"leaky_relu", leaky_relu},
          {"elu", elu},
          {"softplus", softplus},
          {"clamp", clamp}};
}

}  // namespace

std::vector<NamedWriter> elementwise_writers() {
  std::vector<NamedWriter> all = {{"add", add},
                                  {"sub", sub},
                                  {"mul", mul},
                                  {"div", div},
                                  {"pow", pow_},
                                  {"maximum", maximum},
                                  {"minimum", minimum},
                                  {"div_floor", div_floor},
                                  {"eq", eq},
                                  {"ne", ne},
                                  {"lt", lt},
                                  {"le", le},
                                  {"gt", gt},
                                  {"ge", ge},
                                  {"logical_and", logical_and},
                                  {"logical_or", logical_or},
                                  {"logical_not", logical_not},
                                  {"logical_xor", logical_xor},
                                  {"div_trunc", div_trunc},
                                  {"remainder", remainder_},
                                  {"fmod", fmod_},
                                  {"atan2", atan2_},
                                  {"bitwise_and", bitwise_and},
                                  {"bitwise_or", bitwise_or},
                                  {"bitwise_xor", bitwise_xor},
                                  {"bitwise_not", bitwise_not},
                                  {"addcmul", addcmul},
                                  {"addcdiv", addcdiv},
                                  {"lerp", lerp},
                                  {"where", where},
                                  {"to", to},
                                  {"dropout", dropout},
                                  {"copy", copy}};
  for (const NamedWriter& one : unary_writers()) all.push_back(one);
  return all;
}

}  // namespace ckpt::onnx
