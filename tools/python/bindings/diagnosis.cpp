#include "tools/python/bindings/diagnosis.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libckpt/open_save.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/python/bindings/calls.h"
#include "tools/python/bindings/checkpoint.h"
#include "zoo/manifest/manifest.h"
#include "zoo/rules/rule_packs.h"

namespace python {
namespace {

using core::Error;
using core::ErrorCode;

/// Name, shape, dtype, and whether it is a parameter.
using WantedTensor = std::tuple<std::string, std::vector<std::int64_t>, std::string, bool>;
using Ties = std::vector<std::vector<std::string>>;

ckpt::KeyList wanted_of_module(const std::string& name, const std::vector<WantedTensor>& tensors, const Ties& ties) {
  using Kind = ckpt::WantedKey::Kind;
  ckpt::KeyList list;
  list.name = name;
  list.ties = ties;
  for (const auto& [key, shape, dtype, parameter] : tensors) {
    list.keys.push_back(
        {key, core::Shape(shape), core::try_parse_dtype(dtype), parameter ? Kind::parameter : Kind::buffer});
  }
  return list;
}

/// A checkpoint, a list of keys, or the name of a known model.
ckpt::KeyList wanted_named(const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::exists(name, ignored)) {
    if (std::optional<ckpt::KeyList> known = zoo::find_manifest(name)) return *known;
    const std::vector<std::string> similar = zoo::similar_names(name);
    throw Error(ErrorCode::usage, core::quote(name) + " is neither a file nor a known model" +
                                      (similar.empty() ? "" : "; similar: " + core::join(similar, ", ")));
  }
  try {
    return ckpt::key_list_of(ckpt::open(name, {.foreign_objects = true}), name);
  } catch (const Error&) {
    ckpt::SourcePtr file = ckpt::open_file(name);
    if (file->size() > ckpt::Limits().max_json_bytes) throw;
    const core::ByteVector bytes = ckpt::read_all(*file);
    return ckpt::parse_key_list(core::as_text(bytes), name);
  }
}

ckpt::Diagnosis why(const std::filesystem::path& path, const std::vector<ckpt::KeyList>& wanted,
                    const std::string& error, const std::string& at, std::int64_t devices, bool lenient) {
  ckpt::WhyOptions options;
  options.wanted = wanted;
  options.error = error;
  options.at = at;
  options.cuda_devices = devices;
  options.open.lenient = lenient;
  options.known = []() -> const std::vector<ckpt::KeyList>& { return zoo::all_manifests(); };
  options.packs = zoo::rule_packs;
  return without_lock([&] { return ckpt::why(path, options); });
}

/// Errors: Error(unsupported) where the plan does not make it load.
Checkpoint fixed(const ckpt::Diagnosis& d, bool guess, bool partial) {
  if (!d.readable) throw Error(ErrorCode::corrupt, d.subject + ": " + d.causes.front().text);
  if (!partial && !d.names_match() && !d.fixable()) {
    throw Error(ErrorCode::unsupported, d.subject + ": no change to the file makes it load" +
                                            (d.causes.empty() ? "" : ": " + d.causes.front().text));
  }
  if (d.guesses() && !guess) {
    throw Error(
        ErrorCode::usage,
        d.subject + ": the fix pairs tensors of equal shape by their order, which is a guess; guess=True takes it");
  }
  return Checkpoint(without_lock([&] {
    ckpt::Checkpoint checkpoint = ckpt::open(d.path, {.foreign_objects = true});
    return d.plan.empty() ? checkpoint : ckpt::apply_fix(checkpoint, d.plan);
  }));
}

/// The model's dict of what fixed() gave.
nb::list state_of(const Checkpoint& checkpoint, const std::string& at) {
  const ckpt::StateDictRef model = ckpt::choose_state_dict(checkpoint.get().root, at);
  nb::list state;
  for (const auto& [key, value] : model.dict->items) {
    if (!key.is(ckpt::Value::Kind::text) || !value.is(ckpt::Value::Kind::tensor)) continue;
    state.append(Tensor{key.as_text(), value.entry_ptr()});
  }
  return state;
}

std::vector<std::string> steps_of(const ckpt::Diagnosis& d) {
  std::vector<std::string> steps;
  for (const ckpt::FixStep& step : d.plan.steps) steps.push_back(step.text);
  return steps;
}

/// Keys that the steps leave out.
std::vector<std::string> dropped_keys(const ckpt::Diagnosis& d) {
  std::vector<std::string> keys;
  for (const ckpt::FixStep& step : d.plan.steps) {
    if (step.kind == ckpt::FixStep::Kind::drop) keys.insert(keys.end(), step.keys.begin(), step.keys.end());
  }
  return keys;
}

std::string match_text(const ckpt::Match& match) {
  return core::format_count(match.keys) + " of " + core::format_count(match.wanted) + " keys match";
}

std::string text_of(const ckpt::Diagnosis& d) {
  std::string text = d.subject + ": " + d.description;
  if (d.before.wanted > 0) text += "\n" + match_text(d.before) + " " + d.target;
  if (d.before.wanted > 0 && !d.plan.empty())
    text += "; " + match_text(d.after) + " after: " + core::join(steps_of(d), ", ");
  if (d.names_match()) text += "\nit loads as it is";
  for (const ckpt::Cause& cause : d.causes) {
    text += "\n- " + cause.text;
    for (const std::string& line : cause.evidence) text += "\n    " + line;
    if (!cause.advice.empty()) text += "\n    advice: " + cause.advice;
  }
  for (const std::string& note : d.notes) text += "\nnote: " + note;
  const std::string command = ckpt::command_line(d);
  return command.empty() ? text : text + "\nfix: " + command;
}

void bind_cause(nb::module_& module) {
  nb::class_<ckpt::Cause>(module, "Cause", "One reason why a file does not load.")
      .def_prop_ro(
          "kind", [](const ckpt::Cause& c) { return std::string(ckpt::name(c.kind)); }, "'wrapper_prefix', ...")
      .def_ro("text", &ckpt::Cause::text, "One sentence with names and numbers.")
      .def_ro("evidence", &ckpt::Cause::evidence)
      .def_ro("confidence", &ckpt::Cause::confidence, "0 to 1; below 0.7 look before you trust it.")
      .def_ro("cured", &ckpt::Cause::cured, "The plan holds a step against it.")
      .def_ro("advice", &ckpt::Cause::advice, "Where no step helps: what does.")
      .def("__repr__", [](const ckpt::Cause& c) { return c.text; });
}

}  // namespace

void bind_diagnosis(nb::module_& module) {
  bind_cause(module);
  nb::class_<ckpt::KeyList>(module, "_Wanted");
  nb::class_<ckpt::Diagnosis>(module, "Diagnosis",
                              "Why a file does not load, and what makes it load; printed, it is a report.")
      .def_prop_ro("loads", &ckpt::Diagnosis::loads, "Nothing has to be done.")
      .def_prop_ro("fixable", &ckpt::Diagnosis::fixable, "The steps make it load, strictly; that was tried.")
      .def_prop_ro("guesses", &ckpt::Diagnosis::guesses, "The steps may exchange tensors of equal shape.")
      .def_ro("readable", &ckpt::Diagnosis::readable)
      .def_ro("description", &ckpt::Diagnosis::description)
      .def_ro("causes", &ckpt::Diagnosis::causes)
      .def_prop_ro("steps", &steps_of, "What has to be done: [\"strip 'module.'\"].")
      .def_ro("missing", &ckpt::Diagnosis::missing, "Wanted keys that stay missing after the steps.")
      .def_ro("unexpected", &ckpt::Diagnosis::unexpected, "Keys that nobody wants and that the steps leave.")
      .def_ro("mismatched", &ckpt::Diagnosis::mismatched, "PyTorch's lines about shapes.")
      .def_ro("notes", &ckpt::Diagnosis::notes)
      .def_ro("nearest", &ckpt::Diagnosis::nearest, "The known model that it was found to be; '' for none.")
      .def_prop_ro(
          "command", [](const ckpt::Diagnosis& d) { return ckpt::command_line(d); },
          "The shell line that writes a file which loads.")
      .def_prop_ro(
          "python", [](const ckpt::Diagnosis& d) { return ckpt::python_line(d); },
          "The same as a line of Python that needs torch alone.")
      .def_prop_ro("_dropped", &dropped_keys)
      .def("_fixed", &fixed, nb::arg("guess"), nb::arg("partial"))
      .def("__repr__", &text_of);
  module.def("_wanted", &wanted_of_module, nb::arg("name"), nb::arg("tensors"), nb::arg("ties"));
  module.def("_wanted_named", &wanted_named, nb::arg("name"));
  module.def("_why", &why, nb::arg("path"), nb::arg("wanted"), nb::arg("error"), nb::arg("at"), nb::arg("devices"),
             nb::arg("lenient"));
  module.def("_state", &state_of, nb::arg("checkpoint"), nb::arg("at"));
}

}  // namespace python
