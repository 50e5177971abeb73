// Golden data set quantized: layers with 8-bit weights beside those of PyTorch's engine fbgemm.
#include <cmath>
#include <sstream>

#include "libcore/module/print.h"
#include "libcore/module/quantized.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/golden_arrays.h"
#include "tests/support/golden_json.h"

namespace {

using core::Tensor;
using test::Json;

struct Case {
  Json json;
  const test::GoldenArrays& arrays;

  Json at(const char* group, const char* name) const { return test::member(test::member(json, group), name); }
  Tensor array(Json name) const {
    const test::GoldenArray& array = arrays.at(test::text(name));
    return core::from_bytes(array.bytes, array.shape, array.dtype);
  }
  Tensor array(const char* group, const char* name) const {
    return test::has(test::member(json, group), name) ? array(at(group, name)) : Tensor();
  }
  std::int64_t count(const char* name) const { return test::integer(at("args", name)); }
  bool flag(const char* name) const { return test::boolean(at("args", name)); }
};

/// Sums of whole numbers are equal; the one rounding behind them may be fused with the bias or not.
std::string difference(const char* what, const Tensor& got, const Tensor& wanted) {
  if (got.sizes() != wanted.sizes()) return std::string(what) + " has sizes " + core::to_list(got.sizes());
  const Tensor far = core::abs(got.to(core::DType::f64) - wanted.to(core::DType::f64));
  const double most = core::max(far).item<double>();
  const double allowed = 2e-7 * std::max(1.0, core::max(core::abs(wanted)).item<double>());
  return most <= allowed ? "" : std::string(what) + " differs by " + std::to_string(most);
}

/// The weights as the quantized module lists them.
std::string check_numbers(const Case& c, core::Module& module) {
  for (const auto field : test::member(c.json, "numbers").get_object()) {
    const std::string name(field.key);
    const Tensor got = module.buffer(name), wanted = c.array(Json(field.value));
    if (!core::all(got == wanted).item<bool>()) return name + " has other numbers";
    const double scale = test::number(test::member(test::member(c.json, "scales"), name));
    if (module.buffer(name + "_scale").item<double>() != scale) return name + " has another scale";
  }
  std::ostringstream text;
  text << module;
  const std::string wanted = test::text(test::member(c.json, "text"));
  return text.str() == wanted ? "" : text.str() + " | " + wanted;
}

template <class Module>
void load(const Case& c, Module& module) {
  for (const auto& [name, parameter] : module.named_parameters())
    parameter.detach().copy_(c.array("state", name.c_str()));
}

std::string check_linear(const Case& c) {
  core::Linear source(c.count("in"), c.count("out"), c.flag("bias"));
  load(c, source);
  core::DynamicQuantizedLinear module(source);
  const std::string why = check_numbers(c, module);
  return why.empty() ? difference("y", module(c.array("inputs", "x")), c.array("outputs", "y")) : why;
}

std::string check_lstm(const Case& c) {
  core::LSTM source(c.count("in"), c.count("hidden"),
                    {.num_layers = c.count("num_layers"),
                     .bias = c.flag("bias"),
                     .batch_first = c.flag("batch_first"),
                     .bidirectional = c.flag("bidirectional")});
  load(c, source);
  core::DynamicQuantizedLSTM module(source);
  std::string why = check_numbers(c, module);
  if (!why.empty()) return why;
  const auto [y, state] = module(c.array("inputs", "x"), std::tuple{c.array("inputs", "h"), c.array("inputs", "c")});
  why = difference("y", y, c.array("outputs", "y"));
  if (why.empty()) why = difference("h", std::get<0>(state), c.array("outputs", "h"));
  return why.empty() ? difference("c", std::get<1>(state), c.array("outputs", "c")) : why;
}

}  // namespace

int main() {
  return test::golden_main("quantized", "quantized/cases.json", [](Json root, test::GoldenRun& run) {
    const test::GoldenArrays arrays(*test::golden_file("quantized/cases.safetensors"));
    for (const Json json : test::items(test::member(root, "cases"))) {
      const Case c{json, arrays};
      const std::string id = test::text(test::member(json, "id")), op = test::text(test::member(json, "op"));
      test::guarded(run, id, [&] {
        const std::string why = op == "Linear" ? check_linear(c) : check_lstm(c);
        run.check(id, why.empty(), why);
      });
    }
  });
}
