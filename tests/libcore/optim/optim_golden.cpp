// Golden data set golden_runtime_optim: trajectories, state dicts, printed forms, schedules, clipping.
// Optimizers without roots and all schedules are compared bit for bit. The reference takes square roots from its math
// library, which rounds some of them the other way; what is made with them agrees to a few units of the last digit.
#include <bit>
#include <cmath>

#include "libcore/module/parameter.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/optim/clip.h"
#include "libcore/optim/schedule_group.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/optim/optim_spec.h"
#include "tests/support/golden_device.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using test::Json;
using test::member;

Tensor values_of(Json list, const Shape& sizes, DType dtype) {
  std::vector<double> values = test::numbers(list);
  return core::from_values(std::span<const double>(values), sizes).to(dtype);
}

Tensor tensor_from_bits(Json words, const Shape& sizes, DType dtype) {
  return core::from_bytes(test::bytes_from_hex_words(test::text(words)), sizes, dtype);
}

bool is_exact(const std::string& optimizer) {
  return optimizer == "SGD" && !test::on_golden_device();
}

/// Empty when `ours` is what the golden data says.
std::string compare(const Tensor& ours, const Tensor& wanted, bool exactly) {
  if (ours.sizes() != wanted.sizes() || ours.dtype() != wanted.dtype()) return "another kind of tensor";
  bool is_double = wanted.dtype() == DType::f64;
  bool same =
      exactly ? core::equal(ours, wanted)
              : core::allclose(ours, wanted, {.rtol = is_double ? 1e-12 : 1.3e-6, .atol = is_double ? 1e-12 : 1e-6});
  return same ? "" : core::to_string(ours) + " where " + core::to_string(wanted);
}

std::string compare_state(const core::Optimizer& optimizer, Json wanted) {
  std::string ours = test::state_text(optimizer.state_dict());
  std::string theirs = test::compact(wanted);
  if (ours == theirs) return "";
  bool near = !is_exact(optimizer.name()) && test::state_distance(ours, theirs) < 1e-5;
  return near ? "" : "state is\n" + ours + "\n--- where\n" + theirs;
}

/// A parameter of a trajectory: its gradient before step k is c * p + d * s.
struct Track {
  core::Parameter p;
  Tensor c;
  Tensor d;
  Track(Json json, const std::string& name, const Shape& sizes, DType dtype)
      : p(values_of(member(json, name + "0"), sizes, dtype)),
        c(values_of(member(json, "c_" + name), sizes, dtype)),
        d(values_of(member(json, "d_" + name), sizes, dtype)) {}
  void set_grad(int step) const { p.set_grad(c * p.detach() + d * (step < 5 ? 1 : -1)); }
};

void run_trajectory(Json json, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  std::string name = test::text(member(json, "optimizer"));
  DType dtype = test::dtype(member(json, "dtype"));
  Track w(json, "w", {2, 3}, dtype);
  Track b(json, "b", {3}, dtype);
  auto optimizer = test::make_optimizer(name, {{.params = {w.p, b.p}}}, member(json, "options"));
  if (!optimizer) return run.skip(id, name);
  std::string wanted_repr = test::text(member(json, "repr"));
  if (optimizer->str() != wanted_repr) return run.fail(id, optimizer->str() + "\n--- where\n" + wanted_repr);
  std::string before = compare_state(*optimizer, member(json, "state_dict_before"));
  if (!before.empty()) return run.fail(id, "before: " + before);
  int step = 0;
  for (Json after : simdjson::dom::array(member(json, "steps"))) {
    w.set_grad(step);
    b.set_grad(step++);
    optimizer->step();
    std::string why = compare(w.p.detach(), tensor_from_bits(member(after, "w"), {2, 3}, dtype), is_exact(name)) +
                      compare(b.p.detach(), tensor_from_bits(member(after, "b"), {3}, dtype), is_exact(name));
    if (!why.empty()) return run.fail(id, "step " + std::to_string(step) + ": " + why);
  }
  std::string why = compare_state(*optimizer, member(json, "state_dict_after"));
  run.check(id, why.empty(), why);
}

/// Three steps, then the state goes into a fresh optimizer, which makes the other three.
void run_groups(Json json, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  std::string name = test::text(member(json, "optimizer"));
  std::vector<Tensor> p;
  for (int j = 0; j < 4; ++j) p.push_back(core::Parameter(core::full({j + 1}, double(j + 1))));
  Json group_options = member(json, "group_options");
  auto groups = [&](bool with_options) {
    std::vector<core::ParamGroup> made = {{.params = {p[0], p[1]}}, {.params = {p[2], p[3]}}};
    for (std::size_t g = 0; g < 2 && with_options; ++g) {
      made[g].options = test::option_map(simdjson::dom::array(group_options).at(g));
    }
    return made;
  };
  auto optimizer = test::make_optimizer(name, groups(true), member(json, "options"));
  if (!optimizer) return run.skip(id, name);
  int step = 0;
  for (Json after : simdjson::dom::array(member(json, "steps"))) {
    if (step++ == 3) {
      core::OptimizerState saved = optimizer->state_dict();
      optimizer = test::make_optimizer(name, groups(false), member(json, "options"));
      optimizer->load_state_dict(saved);
    }
    for (std::size_t j : {0, 2, 3}) p[j].set_grad(p[j].detach() * 0.5 + static_cast<double>(j));
    optimizer->step();
    for (std::size_t j = 0; j < 4; ++j) {
      Tensor wanted = tensor_from_bits(simdjson::dom::array(after).at(j), p[j].sizes(), DType::f32);
      std::string why = compare(p[j].detach(), wanted, is_exact(name));
      if (!why.empty()) return run.fail(id, "step " + std::to_string(step) + ": " + why);
    }
  }
  std::string why = compare_state(*optimizer, member(json, "state_dict_after"));
  run.check(id, why.empty() && optimizer->str() == test::text(member(json, "repr")), why + "\n" + optimizer->str());
}

/// "patience=2" of the constructor call.
double plateau_number(const std::string& call, const std::string& name, double otherwise) {
  std::size_t at = call.find(name + "=");
  return at == std::string::npos ? otherwise : std::stod(call.substr(at + name.size() + 1));
}

void run_plateau(Json json, core::Optimizer& optimizer, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id")), call = test::text(member(json, "what"));
  core::ReduceLROnPlateau::Options o;
  if (call.find("mode='max'") != std::string::npos) o.mode = "max";
  if (call.find("threshold_mode='abs'") != std::string::npos) o.threshold_mode = "abs";
  o.factor = plateau_number(call, "factor", o.factor);
  o.patience = static_cast<std::int64_t>(plateau_number(call, "patience", 10));
  o.threshold = plateau_number(call, "threshold", o.threshold);
  o.cooldown = static_cast<std::int64_t>(plateau_number(call, "cooldown", 0));
  o.min_lr = plateau_number(call, "min_lr", 0);
  core::ReduceLROnPlateau schedule(optimizer, o);
  std::vector<double> metrics = test::numbers(member(json, "metric"));
  std::size_t epoch = 0;
  for (Json wanted : simdjson::dom::array(member(json, "lr_bits"))) {
    if (epoch > 0) schedule.step(metrics.at(epoch - 1));
    double lr = optimizer.param_groups()[0].lr();
    if (std::bit_cast<std::uint64_t>(lr) != test::hex_word(test::texts(wanted).at(0))) {
      return run.fail(id, "epoch " + std::to_string(epoch) + ": " + std::to_string(lr));
    }
    ++epoch;
  }
  const std::string why = test::state_difference(schedule.state_dict(), member(json, "state_dict"));
  run.check(id, why.empty() && schedule.last_lr() == test::numbers(member(json, "last_lr")), "state differs: " + why);
}

void run_schedule(Json json, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  double base = test::number(member(json, "base_lr"));
  std::vector<core::ParamGroup> groups;
  for (int k = 0; k < test::integer(member(json, "groups")); ++k) {
    groups.push_back(
        {.params = {core::Parameter(core::zeros({1}))}, .options = {{"lr", core::Scalar(base * (k + 1))}}});
  }
  simdjson::dom::parser parser;
  auto optimizer = test::make_optimizer(test::text(member(json, "optimizer")), groups, parser.parse(std::string("{}")));
  if (test::text(member(json, "scheduler")) == "ReduceLROnPlateau") return run_plateau(json, *optimizer, run);
  auto schedule = test::make_schedule(*optimizer, json);
  if (!schedule) return run.skip(id, test::text(member(json, "scheduler")));
  int epoch = 0;
  for (Json wanted : simdjson::dom::array(member(json, "lr_bits"))) {
    if (epoch > 0) {
      optimizer->step();
      schedule->step();
    }
    std::size_t k = 0;
    for (const std::string& bits : test::texts(wanted)) {
      double lr = optimizer->param_groups()[k++].lr();
      if (std::bit_cast<std::uint64_t>(lr) == test::hex_word(bits)) continue;
      return run.fail(id, "epoch " + std::to_string(epoch) + ": " + std::to_string(lr));
    }
    ++epoch;
  }
  const std::string why = test::state_difference(schedule->state_dict(), member(json, "state_dict"));
  run.check(id, why.empty() && schedule->last_lr() == test::numbers(member(json, "last_lr")), "state differs: " + why);
}

/// Parameters with the gradients of a case; null is a parameter without one.
std::vector<Tensor> params_with_gradients(Json grads, DType dtype) {
  std::vector<Tensor> params;
  for (Json grad : simdjson::dom::array(grads)) {
    if (test::is_null(grad)) {
      params.push_back(core::Parameter(core::zeros({2}, {.dtype = dtype})));
      continue;
    }
    Tensor values = values_of(grad, {static_cast<std::int64_t>(simdjson::dom::array(grad).size())}, dtype);
    params.push_back(core::Parameter(core::zeros_like(values)));
    params.back().set_grad(values);
  }
  return params;
}

/// Clips and says what is wrong with the returned norm.
std::string clip(Json json, const std::vector<Tensor>& params, DType dtype) {
  double limit = test::number(member(json, test::has(json, "max_norm") ? "max_norm" : "clip_value"));
  if (test::text(member(json, "call")) != "clip_grad_norm_") return core::clip_grad_value_(params, limit), "";
  double kind = test::has(json, "norm_type") ? test::number(member(json, "norm_type")) : 2;
  Tensor total = core::clip_grad_norm_(params, limit, kind);
  if (test::has(json, "total")) return compare(total, tensor_from_bits(member(json, "total"), {}, dtype), false);
  std::string text = core::to_string(total);
  return text == test::text(member(json, "total_text")) ? "" : "total is " + text;
}

void run_clipping(Json json, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  DType dtype = test::has(json, "dtype") ? test::dtype(member(json, "dtype")) : DType::f32;
  std::vector<Tensor> params = params_with_gradients(member(json, "grads"), dtype);
  std::string why = clip(json, params, dtype);
  bool by_value = test::has(json, "clip_value");
  std::size_t k = 0;
  for (Json after : test::items(member(json, "after"))) {
    Tensor grad = params[k++].grad();
    if (test::is_null(after) != !grad.defined()) why += " a gradient appeared or went";
    if (grad.defined()) why += compare(grad, tensor_from_bits(after, grad.sizes(), dtype), by_value);
  }
  if (test::has(json, "after_text") && core::to_string(params[0].grad()) != test::text(member(json, "after_text"))) {
    why += " gradient is " + core::to_string(params[0].grad());
  }
  run.check(id, why.empty(), why);
}

void run_section(Json root, const char* section, test::GoldenRun& run, void (*one)(Json, test::GoldenRun&)) {
  for (Json json : simdjson::dom::array(member(root, section))) {
    test::guarded(run, test::text(member(json, "id")), [&] { one(json, run); });
  }
}

}  // namespace

int main() {
  return test::golden_main("optim", "runtime/optim.json", [](Json root, test::GoldenRun& run) {
    test::compute_on_golden_device();
    run_section(root, "trajectories", run, run_trajectory);
    run_section(root, "groups", run, run_groups);
    run_section(root, "schedulers", run, run_schedule);
    run_section(root, "clipping", run, run_clipping);
  });
}
