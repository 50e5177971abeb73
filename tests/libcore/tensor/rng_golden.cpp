// Golden data set golden_runtime_rng: programs of random calls and generator states, bit for bit.
#include <cmath>

#include "libcore/base/half.h"
#include "libcore/tensor/random_kernels.h"
#include "tests/support/golden_json.h"

namespace {

using namespace core::detail;
using core::ByteVector;
using core::DType;
using core::Generator;
using test::GoldenArray;
using test::Json;

struct Step {
  Json json;
  GoldenArray result;
  std::string op() const { return test::text(test::member(json, "op")); }
  double arg(const char* name) const { return test::number(test::member(json, name)); }
  std::int64_t whole(const char* name) const { return test::integer(test::member(json, name)); }
  RandomOut out() { return {result.bytes.data(), result.dtype, result.shape.numel()}; }
};

bool fill(const Generator& g, Step& step) {
  std::string op = step.op();
  RandomOut out = step.out();
  if (op == "rand") return fill_uniform(g, out, {}), true;
  if (op == "randn") return fill_normal(g, out, {}), true;
  if (op == "uniform_") return fill_uniform(g, out, {step.arg("from"), step.arg("to")}), true;
  if (op == "normal_") return fill_normal(g, out, {step.arg("mean"), step.arg("std")}), true;
  if (op == "normal_noncontiguous") return fill_normal_serial(g, out, {step.arg("mean"), step.arg("std")}), true;
  if (op == "exponential_") return fill_exponential(g, out, step.arg("lambd")), true;
  if (op == "geometric_") return fill_geometric(g, out, step.arg("p")), true;
  if (op == "log_normal_") return fill_log_normal(g, out, {step.arg("mean"), step.arg("std")}), true;
  if (op == "cauchy_") return fill_cauchy(g, out, {step.arg("median"), step.arg("sigma")}), true;
  if (op == "bernoulli_") return fill_bernoulli(g, out, step.arg("p")), true;
  if (op == "random_") return fill_any_integer(g, out), true;
  if (op == "randperm") return fill_permutation(g, out), true;
  if (op == "randint" || op == "random_range") {
    const char* low = op == "randint" ? "low" : "from";
    const char* high = op == "randint" ? "high" : "to";
    std::int64_t from = step.whole(low);
    return fill_integers(g, out, {from, static_cast<std::uint64_t>(step.whole(high)) - static_cast<std::uint64_t>(from)}), true;
  }
  return false;
}

std::string got(const Step& step) {
  int width = core::bit_width(step.result.dtype) / 8;
  return test::hex_words(step.result.bytes, width);
}

std::string wanted_values(const Step& step) {
  ByteVector bytes;
  for (Json v : simdjson::dom::array(test::member(step.json, "values"))) {
    std::int64_t x = v.is_bool() ? test::boolean(v) : test::integer(v);
    const auto* raw = reinterpret_cast<const std::byte*>(&x);
    bytes.insert(bytes.end(), raw, raw + core::bit_width(step.result.dtype) / 8);
  }
  return test::hex_words(bytes, core::bit_width(step.result.dtype) / 8);
}

}  // namespace

int main() {
  return test::golden_main("rng", "runtime/rng.json", [](Json root, test::GoldenRun& run) {
    for (Json program : simdjson::dom::array(test::member(root, "programs"))) {
      std::string id = test::text(test::member(program, "id"));
      Generator g;
      g.manual_seed(test::integer(test::member(program, "seed")));
      bool ok = true, skipped = false;
      std::string why;
      for (Json s : simdjson::dom::array(test::member(program, "steps"))) {
        Step step{s, {}};
        step.result.dtype = test::has(s, "dtype") ? test::dtype(test::member(s, "dtype")) : DType::i64;
        step.result.shape = test::has(s, "size") ? test::shape(test::member(s, "size")) : core::Shape{test::has(s,"n") ? step.whole("n") : 0};
        step.result.bytes.resize(*core::byte_size(step.result.dtype, step.result.shape.numel()));
        if (!fill(g, step)) { skipped = true; run.skip(id, step.op()); break; }
        std::string w;
        if (test::has(s, "sha256")) {
          ok = ok && test::sha256(step.result.bytes) == test::text(test::member(s, "sha256"));
          if (!ok) { why = step.op() + " sha"; break; }
          continue;
        }
        w = test::has(s, "bits") ? test::text(test::member(s, "bits")) : wanted_values(step);
        if (w != got(step)) { ok = false; why = step.op() + "\n  got  " + got(step) + "\n  want " + w; break; }
      }
      if (skipped) continue;
      if (ok) { auto st = g.state(); ok = test::sha256(st) == test::text(test::member(test::member(program, "state_after"), "sha256")); why = "state"; }
      run.check(id, ok, why);
    }
  });
}
