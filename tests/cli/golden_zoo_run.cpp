// Golden models through `ckpt zoo run`: weights by the formula, saved as a DataParallel run leaves them, and the
// formula's inputs as a file. What the command writes and says is compared with PyTorch's outputs.

#include <algorithm>

#include "libckpt/bridge.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/cli/program.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"
#include "tests/zoo/golden_model.h"
#include "zoo/zoo.h"

namespace {

using core::Tensor;
using test::Json;
using test::require;

constexpr std::int64_t kMostParameters = 12'000'000;
constexpr std::int64_t kMostElements = 120'000;  // of an input: the usual image sizes are left to the slow tests

/// Whether a model built from these arguments differs in its classes alone from that of its name.
bool has_usual_sizes(Json arguments) {
  for (const auto [name, value] : arguments.get_object()) {
    constexpr std::string_view kNoSizes[] = {"num_classes", "init_weights",          "weights", "weights_backbone",
                                             "dropout",     "stochastic_depth_prob", "progress"};
    if (std::find(std::begin(kNoSizes), std::end(kNoSizes), name) == std::end(kNoSizes)) return false;
  }
  return true;
}

/// The model's name for the command: of the file, or of what the file constructed.
std::string name_of(Json golden) {
  const std::string name = test::text(golden["name"]), constructor = test::text(golden["constructor"]);
  if (zoo::find(name) != nullptr) return name;
  const std::string builder = constructor.substr(constructor.rfind('.') + 1);
  return has_usual_sizes(golden["arguments"]) && zoo::find(builder) != nullptr ? builder : "";
}

void save_wrapped(const core::Module& module, const std::filesystem::path& path) {
  core::StateDict wrapped, own = module.state_dict();
  for (const std::string& key : own.keys()) wrapped.set("module." + key, own.at(key));
  ckpt::save(wrapped, path);
}

/// Row by row, where the two best classes are far enough apart.
void check_classes(const std::string& said, Json block, double tolerance) {
  if (!test::has(block, "argmax") || test::is_null(block["argmax"])) return;
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(said);
  const std::vector<Json> rows = test::items(json["inputs"]);
  const std::vector<std::int64_t> best = test::integers(block["argmax"]);
  const std::vector<double> margins = test::numbers(block["margin"]);
  for (std::size_t i = 0; i < std::min(rows.size(), best.size()); ++i) {
    const std::vector<Json> top = test::items(rows[i]["top"]);
    if (top.empty() || margins.at(i) <= 2 * tolerance) continue;
    require(test::integer(top[0]["class"]) == best[i], "row " + std::to_string(i) + " is of another class");
  }
}

/// False when the case is none for this run.
bool run_case(const std::string& name, Json one, const std::filesystem::path& folder) {
  const std::vector<Tensor> inputs = test::make_inputs(one, core::DType::f32, core::Device());
  if (inputs.size() != 1 || inputs[0].numel() > kMostElements) return false;
  core::StateDict x;
  x.set("x", inputs[0]);
  ckpt::save(x, folder / "x.safetensors");
  const test::Outcome done = test::run_ckpt(
      folder, {"zoo", "run", name, "net.pth", "--input", "x.safetensors", "--json", "-f", "-o", "y.safetensors"});
  require(done.code == 0, done.err);
  const Json block = test::outputs_of(one)[0];
  const double tolerance = test::number(block["tolerance"]);
  const Tensor y = ckpt::load(folder / "y.safetensors").at("output");
  test::check_output(y.reshape(test::shape(block["f64"]["shape"])), block["f64"], tolerance);
  check_classes(done.out, block["f64"], tolerance);
  return true;
}

void run_file(const std::filesystem::path& file, test::GoldenRun& run) {
  test::GoldenJson json(file);
  const Json golden = json.root();
  const std::string id = test::text(golden["name"]), name = name_of(golden);
  if (!test::has(golden, "formula") || test::integer(golden["parameters"]) > kMostParameters) return;
  if (name.empty() || name == "word2vec") return run.skip(id, "no size that the command can be asked for");
  test::guarded(run, id, [&] {
    test::TempDir dir;
    auto module = test::build_golden_model(golden);
    test::fill_by_rules(*module, golden, core::DType::f32);
    save_wrapped(*module, dir.path() / "net.pth");
    int ran = 0;
    for (Json one : test::items(golden["formula"]["cases"])) ran += run_case(name, one, dir.path()) ? 1 : 0;
    if (ran == 0) return run.skip(id, "no small case of one input");
    run.pass(id);
  });
}

}  // namespace

int main() {
  test::GoldenRun run("zoo_run");
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"zoo/small", "zoo/vision"}) {
    auto path = test::golden_file(folder);
    if (!path) return 77;
    for (const auto& entry : std::filesystem::directory_iterator(*path)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) run_file(file, run);
  return run.finish();
}
