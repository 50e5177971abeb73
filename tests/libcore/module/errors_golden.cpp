// Situations that must fail or warn: type and exact text.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "tests/libcore/module/error_cases.h"
#include "tests/support/golden_device.h"
#include "tests/support/golden_json.h"

namespace test {

ErrorProgram::ErrorProgram(const std::string& program) {
  for (std::size_t i = 0; i < program.size(); ++i) {
    const char before = i == 0 ? ' ' : program[i - 1];
    const bool word = std::isalnum(static_cast<unsigned char>(before)) != 0 || before == '_';
    if (program[i] == '\'') {
      const std::size_t end = program.find('\'', i + 1);
      strings_.push_back(program.substr(i + 1, end - i - 1));
      i = end;
    } else if (std::isdigit(static_cast<unsigned char>(program[i])) && !word) {
      std::size_t length = 0;
      const double value = std::stod(program.substr(i), &length);
      numbers_.push_back(before == '-' ? -value : value);
      i += length - 1;
    }
  }
}

}  // namespace test

namespace {

using test::has;
using test::is_null;
using test::Json;
using test::member;

struct Outcome {
  std::string type;
  std::string message;
  std::vector<std::string> warnings;
};

Outcome run_case(test::ErrorCase body, const std::string& program) {
  Outcome outcome;
  const auto before = core::set_warning_handler([&](const std::string& text) { outcome.warnings.push_back(text); });
  try {
    body(test::ErrorProgram(program));
  } catch (const core::Error& error) {
    outcome.type = core::python_name(error.code());
    outcome.message = error.message();
  }
  core::set_warning_handler(before);
  return outcome;
}

std::string text_or_empty(Json object, std::string_view key) {
  return has(object, key) && !is_null(member(object, key)) ? test::text(member(object, key)) : "";
}

/// A note tells what a build of PyTorch without CUDA says instead: "...; a build without CUDA raises TYPE: TEXT".
bool is_text_without_cuda(const Outcome& ours, Json wanted) {
  const std::string note = text_or_empty(wanted, "note") + text_or_empty(wanted, "caution"),
                    start = "a build without CUDA raises ";
  const std::size_t at = note.find(start);
  return at != std::string::npos && note.substr(at + start.size()) == ours.type + ": " + ours.message;
}

/// What an error says where there is no device.
bool needs_no_device(const std::string& id) {
  return id.starts_with("cuda/") || id == "dp/scatter" || id == "save/legacy_deserialise_cuda";
}

/// A GPU notices a wrong index when it is waited for, and says no more than this, as with PyTorch.
bool is_device_assert(const Outcome& ours) {
  return test::on_golden_gpu() && ours.message.starts_with("CUDA error: device-side assert triggered");
}

/// One case in a process of its own.
void check_apart(test::GoldenRun& run, const std::string& id) {
  const std::string command =
      "CKPT_GOLDEN_CASE='" + id + "' " + std::filesystem::read_symlink("/proc/self/exe").string() + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string said;
  for (int c = pipe == nullptr ? EOF : std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
  run.check(id, pipe != nullptr && pclose(pipe) == 0, said);
}

std::string compare(const Outcome& ours, Json wanted) {
  if (is_device_assert(ours)) return "";
  if (is_text_without_cuda(ours, wanted)) return "";
  const std::string type = text_or_empty(wanted, "type"), message = text_or_empty(wanted, "message");
  if (!test::is_same_error(ours.message, message)) return "'" + ours.message + "' where '" + message + "'";
  if (ours.type != type) return "type " + ours.type + " where " + type;
  if (!has(wanted, "warnings")) return "";
  std::vector<std::string> theirs;
  for (const Json item : member(wanted, "warnings").get_array()) theirs.push_back(test::text(member(item, "message")));
  return ours.warnings == theirs ? "" : "warnings differ";
}

}  // namespace

int main() {
  return test::golden_main("errors", "runtime/errors.json", [](Json root, test::GoldenRun& run) {
    test::compute_on_golden_device();
    test::ErrorCases cases;
    test::add_tensor_error_cases(cases);
    test::add_autograd_error_cases(cases);
    test::add_module_error_cases(cases);
    test::add_nn_error_cases(cases);
    test::add_layer_error_cases(cases);
    test::add_training_error_cases(cases);
    test::add_more_error_cases(cases);
    const char* only = std::getenv("CKPT_GOLDEN_CASE");
    for (const Json wanted : member(root, "cases").get_array()) {
      const std::string id = test::text(member(wanted, "id"));
      if (only != nullptr && id != only) continue;
      const auto found = cases.find(id);
      if (found == cases.end()) {
        const auto reason = test::situations_without_equivalent().find(id);
        const bool is_known = reason != test::situations_without_equivalent().end();
        run.skip(id, is_known ? reason->second : "not done yet");
        continue;
      }
      if (test::on_golden_device() && needs_no_device(id)) {
        run.skip(id, "it needs a machine without devices");
        continue;
      }
      if (test::on_golden_gpu() && only == nullptr) {
        check_apart(run, id);
        continue;
      }
      test::guarded(run, id, [&] {
        const std::string why = compare(run_case(found->second, test::text(member(wanted, "program"))), wanted);
        run.check(id, why.empty(), why);
      });
    }
  });
}
