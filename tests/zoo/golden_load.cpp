// Every proved name map of the golden data, with weights: a file in the names of the other project is loaded into our
// model by zoo::load_into, without a guess; its state is that of the formula bit for bit, its outputs are the
// published.

#include <algorithm>
#include <set>

#include "libckpt/bridge.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/tensor/generator.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"
#include "tests/zoo/golden_model.h"
#include "tests/zoo/map_files.h"
#include "zoo/load.h"

namespace {

namespace fs = std::filesystem;
using core::Tensor;
using test::Json;
using test::MapFile;
using test::MapPair;
using test::require;

/// What a pair makes of a tensor of the source side.
Tensor converted(const Tensor& x, const MapPair& pair) {
  if (pair.operation == "transpose") return x.t().contiguous();
  if (pair.operation == "reshape") return x.reshape(test::other_shape(x.sizes(), pair.operation));
  if (!pair.operation.starts_with("rows")) return x;
  const std::size_t blank = pair.operation.find(' ', 5);
  return x.slice(0, std::stoll(pair.operation.substr(5)), std::stoll(pair.operation.substr(blank + 1))).contiguous();
}

/// The model's state in the names of the map's other side.
core::StateDict foreign_state(const core::StateDict& state, const MapFile& map) {
  core::StateDict out;
  std::set<std::string> ours;
  for (const std::string& key : state.keys()) ours.insert(key);
  for (const MapPair& pair : map.pairs) {
    const std::string& from = map.model_is_source ? pair.from : pair.to;
    if (ours.contains(from))
      out.set(map.model_is_source ? pair.to : pair.from, converted(state.at(from).detach(), pair));
  }
  return out;
}

/// The smallest input of the file.
Json small_case(Json golden) {
  auto elements = [](Json one) {
    double count = 1;
    for (double size : test::numbers(test::inputs_of(one)[0]["shape"])) count *= size;
    return count;
  };
  std::vector<Json> cases = test::items(golden["formula"]["cases"]);
  return *std::min_element(cases.begin(), cases.end(), [&](Json a, Json b) { return elements(a) < elements(b); });
}

void check_outputs(core::Module& net, Json golden) {
  net.eval();
  core::NoGradGuard no_grad;
  Json one = small_case(golden);
  std::vector<Tensor> y = test::run_model(net, test::make_inputs(one, core::DType::f32, core::Device()));
  std::vector<Json> outputs = test::outputs_of(one);
  for (std::size_t i = 0; i < y.size(); ++i) {
    test::check_output(y[i], outputs[i]["f64"], test::number(outputs[i]["tolerance"]));
  }
}

void check(const MapFile& map) {
  test::GoldenJson golden(*test::golden_file(map.model_file));
  auto filled = test::build_golden_model(golden.root());
  test::fill_by_rules(*filled, golden.root(), core::DType::f32);
  test::TempDir dir;
  const fs::path file = dir.path() / "foreign.safetensors";
  core::StateDict state = filled->state_dict();
  ckpt::save(foreign_state(state, map), file);
  core::manual_seed(7);
  auto net = test::build_golden_model(golden.root());
  zoo::LoadNotes notes;
  zoo::load_into(*net, "model", file, {}, &notes);
  core::StateDict loaded = net->state_dict();
  for (const std::string& key : state.keys()) {
    const bool counter = key.ends_with("num_batches_tracked");  // old files do not have them
    require(counter || core::equal(loaded.at(key), state.at(key)), key + " differs");
  }
  const bool same_names = map.packs.front() == "timm-resnet";
  const bool said = std::any_of(notes.steps.begin(), notes.steps.end(), [&](const std::string& step) {
    return step.find(map.packs.front()) != std::string::npos;
  });
  require(said || same_names, "the notes do not say that " + map.packs.front() + " was used");
  check_outputs(*net, golden.root());
}

}  // namespace

int main() {
  return test::golden_entries("zoo_load", "zoo/maps", "", [](test::GoldenRun& run, const fs::path& file) {
    const std::string name = file.stem().string();
    std::optional<MapFile> map = test::read_map(file);
    if (!map) return run.skip(name, "map_files.cpp does not name it, or its model is not here");
    check(*map);
    run.pass(name);
  });
}
