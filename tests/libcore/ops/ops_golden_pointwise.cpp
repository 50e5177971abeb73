#include "libcore/base/error.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Scalar;
using core::Tensor;

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

void add_unary(OpCalls& calls, const char* name, Unary function, bool exact = false) {
  calls[name] = {[function](const OpCase& c) { return std::vector{function(c.in[0])}; }, exact};
}
void add_binary(OpCalls& calls, const char* name, Binary function, bool exact = false) {
  calls[name] = {[function](const OpCase& c) { return std::vector{function(c.in[0], c.in[1])}; }, exact};
}

void add_unary_calls(OpCalls& calls) {
  const std::pair<const char*, Unary> exact[] = {
      {"torch.abs", core::abs},     {"torch.neg", core::neg},     {"torch.square", core::square},
      {"torch.sign", core::sign},   {"torch.floor", core::floor}, {"torch.ceil", core::ceil},
      {"torch.round", core::round}, {"torch.trunc", core::trunc}, {"torch.frac", core::frac},
      {"torch.relu", core::relu},   {"F.relu", core::relu}};
  for (auto [name, function] : exact) add_unary(calls, name, function, true);
  const std::pair<const char*, Unary> close[] = {{"torch.sqrt", core::sqrt},     {"torch.exp", core::exp},
                                                 {"torch.expm1", core::expm1},   {"torch.exp2", core::exp2},
                                                 {"torch.log", core::log},       {"torch.log2", core::log2},
                                                 {"torch.log10", core::log10},   {"torch.log1p", core::log1p},
                                                 {"torch.sin", core::sin},       {"torch.cos", core::cos},
                                                 {"torch.tan", core::tan},       {"torch.asin", core::asin},
                                                 {"torch.acos", core::acos},     {"torch.atan", core::atan},
                                                 {"torch.sinh", core::sinh},     {"torch.cosh", core::cosh},
                                                 {"torch.tanh", core::tanh},     {"torch.sigmoid", core::sigmoid},
                                                 {"torch.erf", core::erf},       {"torch.erfinv", core::erfinv},
                                                 {"torch.rsqrt", core::rsqrt},   {"torch.reciprocal", core::reciprocal},
                                                 {"torch.lgamma", core::lgamma}, {"torch.digamma", core::digamma},
                                                 {"F.silu", core::silu},         {"F.logsigmoid", core::log_sigmoid}};
  for (auto [name, function] : close) add_unary(calls, name, function);
  const std::pair<const char*, Unary> predicates[] = {{"torch.isnan", core::isnan},
                                                      {"torch.isinf", core::isinf},
                                                      {"torch.isfinite", core::isfinite},
                                                      {"torch.logical_not", core::logical_not}};
  for (auto [name, function] : predicates) add_unary(calls, name, function, true);
  calls["torch.positive"] = {[](const OpCase& c) { return std::vector{c.in[0]}; }, true};
}

void add_binary_calls(OpCalls& calls) {
  const std::pair<const char*, Binary> exact[] = {{"torch.mul", core::mul},
                                                  {"torch.maximum", core::maximum},
                                                  {"torch.minimum", core::minimum},
                                                  {"torch.fmod", core::fmod},
                                                  {"torch.remainder", core::remainder},
                                                  {"torch.floor_divide", core::floor_divide},
                                                  {"torch.eq", core::eq},
                                                  {"torch.ne", core::ne},
                                                  {"torch.lt", core::lt},
                                                  {"torch.le", core::le},
                                                  {"torch.gt", core::gt},
                                                  {"torch.ge", core::ge},
                                                  {"torch.logical_and", core::logical_and},
                                                  {"torch.logical_or", core::logical_or},
                                                  {"torch.logical_xor", core::logical_xor},
                                                  {"torch.bitwise_and", core::bitwise_and}};
  for (auto [name, function] : exact) add_binary(calls, name, function, true);
  add_binary(calls, "torch.atan2", core::atan2);
  add_binary(calls, "torch.pow", core::pow);
  auto alpha = [](const OpCase& c) { return c.scalar("alpha", 1); };
  calls["torch.add"] = {[=](const OpCase& c) { return std::vector{core::add(c.in[0], c.in[1], alpha(c))}; }};
  calls["torch.sub"] = {[=](const OpCase& c) { return std::vector{core::sub(c.in[0], c.in[1], alpha(c))}; }};
  calls["torch.rsub"] = {[=](const OpCase& c) { return std::vector{core::rsub(c.in[0], c.in[1], alpha(c))}; }};
  calls["torch.div"] = {[](const OpCase& c) {
                          std::string mode = c.text("rounding_mode", "");
                          if (mode.empty()) return std::vector{core::div(c.in[0], c.in[1])};
                          return std::vector{core::div(
                              c.in[0], c.in[1], mode == "floor" ? core::Rounding::floor : core::Rounding::trunc)};
                        },
                        true};
}

void add_scalar_calls(OpCalls& calls) {
  using Call = Tensor (*)(const Tensor&, Scalar);
  const std::pair<const char*, Call> all[] = {{"scalar.add", [](const Tensor& x, Scalar s) { return x + s; }},
                                              {"rscalar.add", [](const Tensor& x, Scalar s) { return s + x; }},
                                              {"scalar.sub", [](const Tensor& x, Scalar s) { return x - s; }},
                                              {"rscalar.sub", [](const Tensor& x, Scalar s) { return s - x; }},
                                              {"scalar.mul", [](const Tensor& x, Scalar s) { return x * s; }},
                                              {"rscalar.mul", [](const Tensor& x, Scalar s) { return s * x; }},
                                              {"scalar.div", [](const Tensor& x, Scalar s) { return x / s; }},
                                              {"rscalar.div", [](const Tensor& x, Scalar s) { return s / x; }},
                                              {"scalar.eq", [](const Tensor& x, Scalar s) { return x == s; }},
                                              {"scalar.ne", [](const Tensor& x, Scalar s) { return x != s; }},
                                              {"scalar.lt", [](const Tensor& x, Scalar s) { return x < s; }},
                                              {"scalar.le", [](const Tensor& x, Scalar s) { return x <= s; }},
                                              {"scalar.gt", [](const Tensor& x, Scalar s) { return x > s; }},
                                              {"scalar.ge", [](const Tensor& x, Scalar s) { return x >= s; }}};
  for (auto [name, function] : all) {
    calls[name] = {[f = function](const OpCase& c) { return std::vector{f(c.in[0], OpCase::scalar_of(c.args[0]))}; },
                   true};
  }
  calls["scalar.pow"] = {[](const OpCase& c) { return std::vector{core::pow(c.in[0], OpCase::scalar_of(c.args[0]))}; }};
  calls["rscalar.pow"] = {
      [](const OpCase& c) { return std::vector{core::pow(OpCase::scalar_of(c.args[0]), c.in[0])}; }};
}

std::optional<Scalar> bound(const OpCase& c, const char* key) {
  return c.has(key) ? std::optional(c.scalar(key, 0)) : std::nullopt;
}

void add_other_calls(OpCalls& calls) {
  calls["torch.clamp"] = {
      [](const OpCase& c) { return std::vector{core::clamp(c.in[0], bound(c, "min"), bound(c, "max"))}; }, true};
  calls["torch.where"] = {[](const OpCase& c) { return std::vector{core::where(c.in[0], c.in[1], c.in[2])}; }, true};
  calls["torch.lerp"] = {
      [](const OpCase& c) { return std::vector{core::lerp(c.in[0], c.in[1], OpCase::scalar_of(c.args[0]))}; }};
  calls["torch.addcmul"] = {
      [](const OpCase& c) { return std::vector{core::addcmul(c.in[0], c.in[1], c.in[2], c.scalar("value", 1))}; }};
  calls["torch.addcdiv"] = {
      [](const OpCase& c) { return std::vector{core::addcdiv(c.in[0], c.in[1], c.in[2], c.scalar("value", 1))}; }};
  calls["Tensor.masked_fill"] = {
      [](const OpCase& c) { return std::vector{c.in[0].masked_fill(c.in[1], OpCase::scalar_of(c.args[0]))}; }, true};
  calls["torch.nan_to_num"] = {
      [](const OpCase& c) { return std::vector{core::nan_to_num(c.in[0], c.number("nan", 0))}; }, true};
  calls["F.leaky_relu"] = {
      [](const OpCase& c) { return std::vector{core::leaky_relu(c.in[0], c.number("negative_slope", 0.01))}; }, true};
  calls["F.elu"] = {[](const OpCase& c) { return std::vector{core::elu(c.in[0], c.number("alpha", 1))}; }};
  calls["F.softplus"] = {[](const OpCase& c) {
    return std::vector{core::softplus(c.in[0], c.number("beta", 1), c.number("threshold", 20))};
  }};
  calls["F.threshold"] = {
      [](const OpCase& c) {
        return std::vector{core::threshold(c.in[0], c.number("threshold", 0), c.number("value", 0))};
      },
      true};
  calls["F.gelu"] = {[](const OpCase& c) {
    bool tanh = c.text("approximate", "none") == "tanh";
    return std::vector{core::gelu(c.in[0], tanh ? core::GeluForm::tanh : core::GeluForm::exact)};
  }};
}

}  // namespace

void add_elementwise_calls(OpCalls& calls) {
  add_unary_calls(calls);
  add_binary_calls(calls);
  add_scalar_calls(calls);
  add_other_calls(calls);
}

}  // namespace test
