// Models that learn on from folders of transformers: `train` has the losses of the first steps that transformers and
// PEFT have with the same rows, and what it leaves gives the same loss again.

#include <cmath>
#include <filesystem>

#include "libckpt/io/json.h"
#include "libcore/base/text.h"
#include "tests/cli/program.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

constexpr double kApart = 1e-4;

Arguments texts_in(const ckpt::JsonView& list) {
  Arguments texts;
  for (const ckpt::JsonView& item : list.items()) texts.emplace_back(item.as_text());
  return texts;
}

/// The numbers of a column of a CSV file that `train` wrote.
std::vector<double> column_of(const fs::path& file, std::size_t column) {
  const std::string text = test::read_file(file);
  std::vector<double> values;
  for (std::string_view line : core::split(text, '\n')) {
    if (line.empty() || line.starts_with("step,") || line.starts_with("epoch,")) continue;
    values.push_back(std::stod(std::string(core::split(line, ',').at(column))));
  }
  return values;
}

std::string gap(const std::string& what, double here, double there) {
  if (std::abs(here - there) <= kApart) return "";
  return what + " is " + std::to_string(here) + ", not " + std::to_string(there);
}

/// Beside case.json lie "model" and "data".
std::string fault_of(const fs::path& folder) {
  const auto document = ckpt::JsonDocument::parse(std::string_view(test::read_file(folder / "case.json")));
  const ckpt::JsonView one = document.root();
  const test::TempDir dir;
  const fs::path out = dir.path() / "run";
  Arguments arguments = texts_in(one.at("arguments"));
  for (const char* more : {"--devices", "cpu", "--out"}) arguments.emplace_back(more);
  arguments.push_back(out.string());
  const test::Outcome learnt = test::run_program(test::built_program("train"), folder, arguments);
  if (learnt.code != 0) return "train ends with " + std::to_string(learnt.code) + ": " + learnt.err;
  const std::vector<double> losses = column_of(out / "steps.csv", 3);
  if (losses.size() != one.at("losses").items().size()) return std::to_string(losses.size()) + " steps";
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const std::string fault =
        gap("the loss of step " + std::to_string(i + 1), losses[i], one.at("losses").items()[i].as_real());
    if (!fault.empty()) return fault;
  }
  const double tested = one.at("tested").as_real();
  const std::string fault = gap("the loss of the rows held back", column_of(out / "epochs.csv", 5).at(0), tested);
  if (!fault.empty()) return fault;
  const test::Outcome again =
      test::run_program(test::built_program("train"), folder, {"evaluate", (out / "best").string(), "--json"});
  if (again.code != 0) return "evaluate ends with " + std::to_string(again.code) + ": " + again.err;
  const auto judged = ckpt::JsonDocument::parse(std::string_view(again.out));
  return gap("the loss of what was saved", judged.root().at("test_loss").as_real(), tested);
}

}  // namespace

int main() {
  return test::golden_folder_main("fine_tuning", fault_of);
}
