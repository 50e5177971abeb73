// load_state_dict: returned text or exact error, what was loaded, dtypes and devices after it, warnings.
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/support/golden_device.h"

namespace {

using test::has;
using test::is_null;
using test::Json;
using test::member;

core::StateDict given_state(Json wanted) {
  core::StateDict state;
  std::int64_t number = 2;
  for (const Json item : member(wanted, "given").get_array()) {
    state.set(test::text(item.at(0)),
              core::full(test::shape(item.at(2)), number++, {.dtype = test::dtype(item.at(1))}));
  }
  const Json options = member(wanted, "options");
  if (has(options, "metadata")) {
    for (const auto field : member(options, "metadata").get_object()) {
      state.set_version(field.key, static_cast<int>(test::integer(member(field.value, "version"))));
    }
  }
  if (has(options, "strip")) core::consume_prefix_in_state_dict_if_present(state, test::text(member(options, "strip")));
  return state;
}

bool option(Json wanted, std::string_view name, bool otherwise) {
  const Json options = member(wanted, "options");
  return has(options, name) ? test::boolean(member(options, name)) : otherwise;
}

std::string check_outcome(core::Module& module, Json wanted) {
  const Json error = member(wanted, "error");
  try {
    const core::IncompatibleKeys keys =
        module.load_state_dict(given_state(wanted), option(wanted, "strict", true), option(wanted, "assign", false));
    if (!is_null(error)) return "no error where " + test::text(member(error, "message"));
    if (keys.str() != test::text(member(wanted, "result"))) return "result " + keys.str();
    if (keys.missing_keys != test::texts(member(wanted, "missing"))) return "missing keys differ";
    if (keys.unexpected_keys != test::texts(member(wanted, "unexpected"))) return "unexpected keys differ";
  } catch (const core::Error& thrown) {
    if (is_null(error)) return std::string("error ") + thrown.what();
    if (thrown.message() != test::text(member(error, "message"))) return "error " + thrown.message();
    if (core::python_name(thrown.code()) != test::text(member(error, "type"))) return "error type";
  }
  return "";
}

std::string check_first_values(const core::StateDict& state, Json wanted) {
  if (!has(wanted, "first_values")) return "";
  for (const auto field : member(wanted, "first_values").get_object()) {
    const std::vector<double> values = state.at(field.key).to_vector<double>();
    const std::vector<double> theirs = test::numbers(field.value);
    if (!std::equal(theirs.begin(), theirs.end(), values.begin())) return "values of " + std::string(field.key);
  }
  return "";
}

std::string check_state_after(core::Module& module, Json wanted) {
  const core::StateDict state = module.state_dict();
  std::vector<std::string> ours, theirs;
  for (const auto& [key, tensor] : state) {
    ours.push_back(key + " " + std::string(core::short_name(tensor.dtype())) + " " + tensor.device().str());
  }
  for (const Json item : member(wanted, "after_dtypes").get_array()) {
    const std::string device = test::text(item.at(2));
    theirs.push_back(test::text(item.at(0)) + " " + test::text(item.at(1)) + " " +
                     (device == "cpu" ? test::golden_device().str() : device));
  }
  if (ours != theirs) return "dtypes or devices differ";
  for (const Json item : member(wanted, "requires_grad").get_array()) {
    for (const auto& [name, parameter] : module.named_parameters()) {
      if (name == test::text(item.at(0)) && parameter.requires_grad() != test::boolean(item.at(1)))
        return "requires_grad";
    }
  }
  return check_first_values(state, wanted);
}

/// Keys whose values are not those from before.
std::vector<std::string> loaded_keys(const core::StateDict& before, const core::StateDict& after) {
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : after) {
    const core::Tensor& old = before.at(key);
    if (old.dtype() != tensor.dtype() || test::bytes_of(old) != test::bytes_of(tensor)) keys.push_back(key);
  }
  return keys;
}

core::StateDict snapshot(const core::Module& module) {
  core::StateDict copies;
  for (const auto& [key, tensor] : module.state_dict()) copies.set(key, tensor.clone());
  return copies;
}

void check_case(Json wanted, test::GoldenRun& run) {
  const std::string id = test::text(member(wanted, "id"));
  if (has(member(wanted, "options"), "values"))
    return run.skip(id, "a StateDict holds tensors alone; ckpt::load refuses other values by their key");
  const test::BuiltModule built = test::build_module(member(wanted, "target"));
  if (!built.module) return run.skip(id, "no " + built.missing);
  const bool meta = option(wanted, "meta_target", false);
  if (meta) built.module->to("meta");
  const core::StateDict before = meta ? core::StateDict() : snapshot(*built.module);
  std::vector<std::string> warnings;
  const auto handler = core::set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  std::string why = check_outcome(*built.module, wanted);
  core::set_warning_handler(handler);
  if (why.empty()) why = check_state_after(*built.module, wanted);
  if (why.empty() && !meta &&
      loaded_keys(before, built.module->state_dict()) != test::texts(member(wanted, "loaded"))) {
    why = "loaded keys differ";
  }
  std::vector<std::string> theirs = has(wanted, "warnings") ? test::texts(member(wanted, "warnings")) : warnings;
  std::sort(warnings.begin(), warnings.end());
  std::sort(theirs.begin(), theirs.end());
  if (why.empty() && warnings != theirs) why = "warnings differ";
  run.check(id, why.empty(), why);
}

}  // namespace

int main() {
  return test::golden_main("load_state_dict", "runtime/load_state_dict.json", [](Json root, test::GoldenRun& run) {
    test::compute_on_golden_device();
    for (const Json wanted : member(root, "cases").get_array()) {
      test::guarded(run, test::text(member(wanted, "id")), [&] { check_case(wanted, run); });
    }
  });
}
