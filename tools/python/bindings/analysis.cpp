#include "tools/python/bindings/analysis.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "libckpt/analyze/deep_verify.h"
#include "libckpt/analyze/diff.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/python/bindings/calls.h"
#include "tools/python/bindings/checkpoint.h"

namespace python {
namespace {

ckpt::DiffResult diff(const nb::object& a, const nb::object& b, double rtol, double atol, bool order, bool metadata,
                      bool locations, const std::vector<std::string>& ignore_prefixes, nb::object progress) {
  const ckpt::Checkpoint left = checkpoint_of(a);
  const ckpt::Checkpoint right = checkpoint_of(b);
  ckpt::DiffOptions options;
  options.rtol = rtol;
  options.atol = atol;
  options.order = order;
  options.metadata = metadata;
  options.locations = locations;
  options.ignore_prefixes = ignore_prefixes;
  options.progress = progress_of(std::move(progress));
  return without_lock([&] { return ckpt::diff(left, right, options); });
}

std::string difference_text(const ckpt::Difference& d) {
  std::string text = std::string(ckpt::name(d.kind)) + " " + core::quote(d.name);
  if (d.kind == ckpt::Difference::Kind::values) {
    text += ": " + core::format_count(d.differing) + " of " + core::format_count(d.elements) + " elements";
    return d.max_difference ? text + ", at most by " + core::python_float(*d.max_difference) : text;
  }
  if (!d.a.empty() || !d.b.empty()) text += ": " + d.a + (d.a.empty() || d.b.empty() ? "" : " -> ") + d.b;
  return text;
}

std::string diff_text(const ckpt::DiffResult& result) {
  std::string text = result.equal() ? "no difference" : core::format_count(result.differences.size()) + " differences";
  text += ": " + core::format_count(result.tensors_equal) + " of " + core::format_count(result.tensors_compared) +
          " common tensors equal";
  for (const std::string& verdict : result.verdicts) text += "\n" + verdict;
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < result.differences.size() && i < kShown; ++i) {
    text += "\n" + difference_text(result.differences[i]);
  }
  if (result.differences.size() > kShown) {
    text += "\nand " + core::format_count(result.differences.size() - kShown) + " more";
  }
  return text;
}

ckpt::VerifyResult verify(const std::filesystem::path& path, bool deep, nb::object progress, const nb::kwargs& given) {
  ckpt::Report report;
  const ckpt::OpenOptions options = open_options(given, report);
  const ckpt::Progress shown = progress_of(std::move(progress));
  ckpt::VerifyResult result =
      without_lock([&] { return deep ? ckpt::deep_verify(path, options, shown) : ckpt::verify(path, options, shown); });
  warn(report);
  return result;
}

std::vector<std::pair<std::string, std::string>> pairs_of(const std::vector<ckpt::Finding>& findings) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const ckpt::Finding& finding : findings) pairs.emplace_back(finding.subject, finding.text);
  return pairs;
}

std::string verify_text(const ckpt::VerifyResult& result) {
  std::string text = result.damage.empty() ? "good" : "damaged";
  text += ": " + core::format_count(result.tensors_checked) + " tensors";
  if (!result.method.empty()) text += ", " + result.method;
  for (const auto& [subject, what] : pairs_of(result.damage)) text += "\n" + core::quote(subject) + ": " + what;
  for (const auto& [subject, what] : pairs_of(result.notes)) text += "\nnote: " + core::quote(subject) + ": " + what;
  return text;
}

void bind_diff(nb::module_& module) {
  nb::class_<ckpt::Difference>(module, "Difference", "One thing in which two checkpoints differ.")
      .def_prop_ro(
          "kind", [](const ckpt::Difference& d) { return std::string(ckpt::name(d.kind)); },
          "'only in A', 'only in B', 'dtype', 'shape', 'values', ...")
      .def_ro("name", &ckpt::Difference::name)
      .def_ro("a", &ckpt::Difference::a, "What the first has, as text.")
      .def_ro("b", &ckpt::Difference::b)
      .def_ro("elements", &ckpt::Difference::elements)
      .def_ro("differing", &ckpt::Difference::differing, "How many elements have other bits.")
      .def_ro("max_difference", &ckpt::Difference::max_difference)
      .def_ro("max_ulp", &ckpt::Difference::max_ulp)
      .def("__repr__", &difference_text);
  nb::class_<ckpt::DiffResult>(module, "Diff", "What differs between two checkpoints; printed, it is a report.")
      .def_prop_ro("equal", &ckpt::DiffResult::equal)
      .def_ro("differences", &ckpt::DiffResult::differences)
      .def_ro("verdicts", &ckpt::DiffResult::verdicts, "What happened, in words: 'B is A cast to bfloat16'.")
      .def_ro("tensors_compared", &ckpt::DiffResult::tensors_compared)
      .def_ro("tensors_equal", &ckpt::DiffResult::tensors_equal)
      .def("__repr__", &diff_text);
  module.def("diff", &diff, nb::arg("a"), nb::arg("b"), nb::kw_only(), nb::arg("rtol") = 0.0, nb::arg("atol") = 0.0,
             nb::arg("order") = false, nb::arg("metadata") = false, nb::arg("locations") = false,
             nb::arg("ignore_prefixes") = std::vector<std::string>(), nb::arg("progress").none() = nb::none(),
             "What differs between two checkpoints or files, of any formats. Tensors are matched by name and compared "
             "bit by bit, or within |a - b| <= atol + rtol * |b|.");
}

void bind_verify(nb::module_& module) {
  nb::class_<ckpt::VerifyResult>(module, "Verification", "What reading every byte of a file found.")
      .def_prop_ro("good", [](const ckpt::VerifyResult& r) { return r.damage.empty(); })
      .def_prop_ro(
          "damage", [](const ckpt::VerifyResult& r) { return pairs_of(r.damage); },
          "Pairs of a key (or part of the file) and what is wrong with it.")
      .def_prop_ro("notes", [](const ckpt::VerifyResult& r) { return pairs_of(r.notes); })
      .def_ro("method", &ckpt::VerifyResult::method, "What was compared: '128-bit content hashes'.")
      .def_ro("tensors_checked", &ckpt::VerifyResult::tensors_checked)
      .def_ro("bytes_checked", &ckpt::VerifyResult::bytes_checked)
      .def_prop_ro(
          "checksums", [](const ckpt::VerifyResult& r) { return std::string(ckpt::name(r.checksums)); },
          "How much of the file has one: 'none' (the format has none), 'absent', 'some', 'all'.")
      .def("__repr__", &verify_text);
  module.def("verify", &verify, nb::arg("path"), nb::kw_only(), nb::arg("deep") = false,
             nb::arg("progress").none() = nb::none(), nb::arg("options"),
             "Reads every byte and compares it with the checksums of the file. `deep`: from the disk, and each tensor "
             "as a load gives it.");
}

}  // namespace

void bind_analysis(nb::module_& module) {
  bind_diff(module);
  bind_verify(module);
}

}  // namespace python
