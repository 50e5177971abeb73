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

void elu(Step& s) {
  if (s.number("b") != 1 || s.number("c") != 1) s.refuse("only ELU without scales has an operator");
  s.set(s.value("Elu", {s.in(0)}, {{"alpha", s.number("a")}}));
}

void softplus(Step& s) {
  if (s.number("a") != 1) s.refuse("only beta=1 has an operator");
  s.set(s.value("Softplus", {s.in(0)}));
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

void where(Step& s) {
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

}  // namespace

std::vector<NamedWriter> elementwise_writers() {
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
          {"clamp", clamp},
          {"add", add},
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
          {"where", where},
          {"to", to},
          {"dropout", dropout},
          {"copy", copy}};
}

}  // namespace ckpt::onnx
