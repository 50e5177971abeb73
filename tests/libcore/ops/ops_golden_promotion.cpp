// Result dtypes of operations between dtypes, from the promotion table of ops.json.
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/softmax.h"
#include "libcore/parallel/parallel_apply.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/ops/ops_golden.h"
#include "tests/support/golden_device.h"

namespace test {
namespace {

using core::Scalar;
using core::Tensor;

using Result = std::function<Tensor()>;
using Results = std::map<std::string, Result>;

Tensor sample(Json dtype_name, bool with_dims) {
  return core::ones(with_dims ? core::Shape{2} : core::Shape{}, {.dtype = dtype(dtype_name)});
}

Results of_two(const Tensor& a, const Tensor& b) {
  return {{"add", [=] { return a + b; }},
          {"mul", [=] { return a * b; }},
          {"div", [=] { return a / b; }},
          {"pow", [=] { return core::pow(a, b); }},
          {"floor_divide", [=] { return core::floor_divide(a, b); }},
          {"maximum", [=] { return core::maximum(a, b); }},
          {"eq", [=] { return a == b; }},
          {"atan2", [=] { return core::atan2(a, b); }}};
}

Results of_number(const Tensor& a, Scalar b) {
  return {{"add", [=] { return a + b; }},
          {"mul", [=] { return a * b; }},
          {"div", [=] { return a / b; }},
          {"pow", [=] { return core::pow(a, b); }},
          {"floor_divide", [=] { return core::floor_divide(a, b); }},
          {"eq", [=] { return a == b; }}};
}

Results of_one(const Tensor& x) {
  return {{"sum", [=] { return x.sum(); }},
          {"prod", [=] { return x.prod(); }},
          {"mean", [=] { return x.mean(); }},
          {"cumsum", [=] { return x.cumsum(0); }},
          {"max", [=] { return x.max(); }},
          {"argmax", [=] { return x.argmax(); }},
          {"exp", [=] { return x.exp(); }},
          {"sqrt", [=] { return x.sqrt(); }},
          {"abs", [=] { return x.abs(); }},
          {"neg", [=] { return x.neg(); }},
          {"sigmoid", [=] { return x.sigmoid(); }},
          {"relu", [=] { return x.relu(); }},
          {"std", [=] { return x.std(); }},
          {"norm", [=] { return x.norm(); }},
          {"softmax", [=] { return core::softmax(x, 0); }},
          {"sign", [=] { return core::sign(x); }},
          {"floor", [=] { return core::floor(x); }},
          {"logical_not", [=] { return core::logical_not(x); }},
          {"any", [=] { return x.any(); }},
          {"sin", [=] { return x.sin(); }},
          {"square", [=] { return x.square(); }}};
}

Results results_of(Json row) {
  std::string kind = text(member(row, "b_is"));
  Tensor a = sample(member(row, "a"), true);
  if (kind == "unary") return of_one(a);
  if (kind != "scalar") return of_two(a, sample(member(row, "b"), kind == "1-d tensor"));
  std::string number = text(member(row, "b"));
  return of_number(a, number == "bool" ? Scalar(true) : number == "int" ? Scalar(2) : Scalar(2.5));
}

std::string outcome(const Result& result) {
  try {
    return std::string(core::short_name(result().dtype()));
  } catch (const core::Error& error) {
    return "error: " + error.message();
  }
}

}  // namespace

void run_promotion(Json root, GoldenRun& run) {
  for (Json row : items(member(root, "promotion"))) {
    std::string b = has(row, "b") ? text(member(row, "b")) : "";
    std::string id = "promotion/" + text(member(row, "a")) + "/" + b + "/" + text(member(row, "b_is"));
    Results results = results_of(row);
    simdjson::dom::object fields = row.get_object();
    for (auto [key, value] : fields) {
      std::string name(key);
      if (name == "a" || name == "b" || name == "b_is") continue;
      auto found = results.find(name);
      if (found == results.end()) {
        run.skip(id + "/" + name, "operation not built yet");
        continue;
      }
      std::string got = outcome(found->second), want = text(value);
      run.check(id + "/" + name, is_same_error(got, want), "got " + got + " want " + want);
    }
  }
}

}  // namespace test
