// Golden data set: models merged by mergekit (make_merge.py). Every CASE.json is a case: its files, method and numbers;
// CASE.safetensors is what mergekit makes of them. It computes in the type of the tensors, and sums in another order:
// f32 and f64 may differ by a few roundings of the largest value, 16-bit types by one of theirs. Exits with 77 without
// the data.

#include "libckpt/ckpt.h"
#include "libckpt/io/json.h"
#include "tests/support/golden.h"
#include "tests/support/near_tensors.h"

namespace {

namespace fs = std::filesystem;

double tolerance_of(core::DType dtype) {
  switch (dtype) {
    case core::DType::f64:
      return 1e-15;
    case core::DType::f32:
      return 3e-7;
    case core::DType::f16:
      return 1e-3;
    default:
      return 8e-3;
  }
}

std::vector<double> numbers_in(const ckpt::JsonView& json, std::string_view name) {
  std::vector<double> numbers;
  if (!json.has(name)) return numbers;
  for (const ckpt::JsonView& item : json.at(name).items()) numbers.push_back(item.as_real());
  return numbers;
}

ckpt::MergeOptions options_of(const ckpt::JsonView& json) {
  ckpt::MergeOptions options;
  options.method = ckpt::parse_merge_method(json.at("method").as_text()).value();
  options.weights = numbers_in(json, "weights");
  options.densities = numbers_in(json, "densities");
  if (json.has("t")) options.t = json.at("t").as_real();
  if (json.has("lambda")) options.lambda = json.at("lambda").as_real();
  if (json.has("normalize")) options.normalize = json.at("normalize").as_boolean();
  if (json.has("rescale")) options.rescale = json.at("rescale").as_boolean();
  return options;
}

void check_case(test::GoldenRun& run, const fs::path& path) {
  const core::ByteVector text = ckpt::read_all(*ckpt::open_file(path));
  const ckpt::JsonDocument json = ckpt::JsonDocument::parse(core::as_text(text));
  const fs::path folder = path.parent_path();
  std::vector<ckpt::Checkpoint> models;
  if (json.root().has("base")) models.push_back(ckpt::open(folder / json.root().at("base").as_text()));
  for (const ckpt::JsonView& file : json.root().at("models").items()) {
    models.push_back(ckpt::open(folder / file.as_text()));
  }
  const ckpt::Checkpoint merged = ckpt::merge(models, options_of(json.root()));
  const fs::path wanted = folder / (path.stem().string() + ".safetensors");
  test::check_near(run, path.stem().string(), merged, ckpt::open(wanted), tolerance_of);
}

}  // namespace

int main() {
  return test::golden_entries("merge", "merge", ".json", check_case);
}
