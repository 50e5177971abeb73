// Printed forms, layouts, initial values, outputs and gradients of modules against the recorded ones.
#include <algorithm>

#include "libcore/autograd/autograd.h"
#include "libcore/base/error.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/parallel/parallel_apply.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/support/golden_device.h"

namespace {

using test::has;
using test::is_null;
using test::Json;
using test::member;

std::string quoted(const std::string& ours, const std::string& wanted) {
  return "'" + ours + "' where '" + wanted + "'";
}

/// Collects what is wrong with one case.
class Findings {
 public:
  void expect(bool ok, const std::string& what) {
    if (!ok && text_.empty()) text_ = what;
  }
  template <class Value>
  void same(const Value& ours, const Value& wanted, const std::string& what) {
    expect(ours == wanted, what + " differs");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::vector<std::string> names_of(const core::NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

void check_state(core::Module& module, Json wanted, Findings& found) {
  const core::StateDict state = module.state_dict();
  std::vector<std::string> ours, theirs;
  for (const auto& [key, tensor] : state) {
    ours.push_back(key + std::string(core::short_name(tensor.dtype())) + core::to_list(tensor.sizes()));
  }
  for (const Json item : member(wanted, "state_dict").get_array()) {
    theirs.push_back(test::text(item.at(0)) + test::text(item.at(1)) + core::to_list(test::shape(item.at(2))));
  }
  found.same(ours, theirs, "state_dict");
  core::StateDict::Versions versions;
  for (const Json item : member(wanted, "metadata").get_array()) {
    versions.emplace_back(test::text(item.at(0)), static_cast<int>(test::integer(item.at(1))));
  }
  found.same(state.versions(), versions, "metadata");
}

void check_names(core::Module& module, Json wanted, Findings& found) {
  found.same(names_of(module.named_parameters()), test::texts(member(wanted, "named_parameters")), "named_parameters");
  found.same(names_of(module.named_buffers()), test::texts(member(wanted, "named_buffers")), "named_buffers");
  std::vector<std::string> ours, theirs;
  for (const auto& [name, child] : module.named_modules()) ours.push_back(name + ":" + child->class_name());
  for (const Json item : member(wanted, "named_modules").get_array()) {
    theirs.push_back(test::text(item.at(0)) + ":" + test::text(item.at(1)));
  }
  found.same(ours, theirs, "named_modules");
  std::int64_t count = 0;
  for (const core::Tensor& parameter : module.parameters()) count += parameter.numel();
  found.same(count, test::integer(member(wanted, "parameter_count")), "parameter_count");
}

void check_initial_values(core::Module& module, Json wanted, Findings& found) {
  const Json init = member(wanted, "init");
  for (const auto& [name, parameter] : module.named_parameters()) {
    const std::string digest = test::sha256(core::Bytes(test::bytes_of(parameter)));
    found.same(digest, test::text(member(member(init, name), "sha256")), "initial " + name);
  }
  const std::string drawn = test::hex_words(core::Bytes(test::bytes_of(core::rand({2}))), 4);
  found.same(drawn, test::text(member(wanted, "rand_after")), "rand_after");
}

void expect_close(const core::Tensor& ours, const test::GoldenArrays& arrays, Json name, const std::string& what,
                  Findings& found) {
  if (is_null(name)) return;
  const std::string why = test::difference(ours, arrays.at(test::text(name)));
  found.expect(why.empty(), what + ": " + why);
}

/// The inputs, those with a recorded gradient as leaves that ask for one.
std::vector<core::Tensor> read_inputs(Json wanted, const test::GoldenArrays& arrays) {
  std::vector<core::Tensor> inputs;
  std::size_t i = 0;
  for (const Json name : member(wanted, "inputs").get_array()) {
    core::Tensor x = test::to_tensor(arrays.at(test::text(name))).to(test::golden_device());
    if (!is_null(member(wanted, "input_grads").at(i++))) x.requires_grad_();
    inputs.push_back(x);
  }
  return inputs;
}

void expect_all_close(const std::vector<core::Tensor>& ours, const test::GoldenArrays& arrays, Json names,
                      const std::string& what, Findings& found) {
  const simdjson::dom::array list = names.get_array();
  found.expect(ours.size() == list.size(), "number of " + what + "s");
  for (std::size_t i = 0; i < std::min(ours.size(), list.size()); ++i) {
    expect_close(ours[i], arrays, list.at(i), what + " " + std::to_string(i), found);
  }
}

void check_gradients(core::Module& module, Json wanted, const std::vector<core::Tensor>& inputs,
                     const std::vector<core::Tensor>& outputs, const test::GoldenArrays& arrays, Findings& found) {
  std::vector<core::Tensor> roots, upstream;
  const simdjson::dom::array given = member(wanted, "grad_outputs").get_array();
  for (std::size_t i = 0; i < std::min(outputs.size(), given.size()); ++i) {
    if (is_null(given.at(i))) continue;
    roots.push_back(outputs[i]);
    upstream.push_back(test::to_tensor(arrays.at(test::text(given.at(i)))).to(test::golden_device()));
  }
  if (roots.empty()) return;
  core::backward(roots, {.grad_outputs = upstream});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect_close(inputs[i].grad(), arrays, member(wanted, "input_grads").at(i), "input gradient", found);
  }
  for (const auto& [key, parameter] : module.named_parameters()) {
    expect_close(parameter.grad(), arrays, member(member(wanted, "param_grads"), key), "gradient of " + key, found);
  }
}

void check_forward(core::Module& module, Json wanted, const test::GoldenArrays& arrays, Findings& found) {
  module.to(test::golden_device());
  std::vector<core::Tensor> inputs = read_inputs(wanted, arrays);
  const std::vector<core::Tensor> outputs = test::call_module(module, inputs);
  expect_all_close(outputs, arrays, member(wanted, "outputs"), "output", found);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Json grad_fn = member(wanted, "grad_fns").at(i);
    const std::string name = is_null(grad_fn) ? "" : test::text(grad_fn);
    found.expect(test::is_same_node(outputs[i].grad_fn_name(), name),
                 "grad_fn " + quoted(outputs[i].grad_fn_name(), name));
  }
  check_gradients(module, wanted, inputs, outputs, arrays, found);
  for (const auto& [key, buffer] : module.named_buffers()) {
    expect_close(buffer, arrays, member(member(wanted, "buffers_after"), key), "buffer " + key, found);
  }
  module.eval();
  for (core::Tensor& x : inputs) x = x.detach();
  expect_all_close(test::call_module(module, inputs), arrays, member(wanted, "eval_outputs"), "eval output", found);
}

void check_case(Json wanted, const test::GoldenArrays& arrays, test::GoldenRun& run) {
  const std::string id = test::text(member(wanted, "id"));
  core::manual_seed(test::integer(member(wanted, "seed")));
  const test::BuiltModule built = test::build_module(member(wanted, "spec"));
  if (!built.module) return run.skip(id, "no " + built.missing);
  Findings found;
  const std::string repr = test::text(member(wanted, "repr"));
  check_initial_values(*built.module, wanted, found);
  found.expect(built.module->str() == repr, "repr " + quoted(built.module->str(), repr));
  check_state(*built.module, wanted, found);
  check_names(*built.module, wanted, found);
  if (has(wanted, "inputs")) check_forward(*built.module, wanted, arrays, found);
  if (test::drew_on_golden_device()) return run.skip(id, "it draws on the device");
  run.check(id, found.text().empty(), found.text());
}

}  // namespace

int main() {
  return test::golden_main("modules", "runtime/modules.json", [](Json root, test::GoldenRun& run) {
    test::set_golden_devices(0);
    const test::GoldenArrays arrays(*test::golden_file("runtime/modules.safetensors"));
    for (const Json wanted : member(root, "cases").get_array()) {
      test::guarded(run, test::text(member(wanted, "id")), [&] { check_case(wanted, arrays, run); });
    }
  });
}
