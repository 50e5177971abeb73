// Golden data set golden_runtime_chunk: chunk sizes, scatter, gather, and DataParallel over one to many devices.
// Scatter cases in which the reference would run replicas without their tensors follow our rule instead: only as many
// shards as the tensors have pieces.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/scatter.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/support/golden_device.h"
#include "tests/support/golden_json.h"

namespace {

using core::Device;
using core::Tensor;
using test::Json;
using test::member;

/// Any value of the golden data: a tensor, a container, or something else (as JSON text).
struct Tree {
  Tensor tensor;
  std::string kind;  ///< "t", "tuple", "list", "dict", or "v"
  std::vector<std::pair<std::string, Tree>> children;
  std::string other;
};

}  // namespace

template <>
struct core::TensorParts<Tree> {
  template <class F>
  static Tree map(const Tree& value, F&& f) {
    Tree result = value;
    if (result.kind == "t") result.tensor = f(result.tensor);
    for (auto& [key, child] : result.children) child = map(child, f);
    return result;
  }
  template <class F>
  static Tree join(const std::vector<Tree>& values, F&& f) {
    Tree result = values.front();
    if (result.kind == "t") {
      result.tensor = f(core::detail::parts_of(values, [](const Tree& v) { return v.tensor; }));
    } else if (result.kind == "dict") {
      auto maps =
          core::detail::parts_of(values, [](const Tree& v) { return std::map(v.children.begin(), v.children.end()); });
      std::map<std::string, Tree> joined = core::join_tensors(maps, f);
      for (auto& [key, child] : result.children) child = joined.at(key);
    } else {
      for (std::size_t i = 0; i < result.children.size(); ++i) {
        auto parts = core::detail::parts_of(values, [i](const Tree& v) { return v.children[i].second; });
        result.children[i].second = join(parts, f);
      }
    }
    return result;
  }
};

namespace {

/// Tensors count 0, 1, 2, ... where no values are given.
Tree tree_of(Json json) {
  Tree tree;
  if (test::has(json, "t")) {
    core::Shape sizes = test::shape(member(json, "t"));
    Tensor values = test::has(json, "values") ? core::from_values(test::numbers(member(json, "values")))
                                              : core::arange(sizes.numel(), {.dtype = core::DType::f64});
    tree.kind = "t";
    tree.tensor = values.to(core::DType::f32).reshape(sizes);
  } else if (test::has(json, "dict")) {
    tree.kind = "dict";
    for (auto [key, child] : simdjson::dom::object(member(json, "dict"))) {
      tree.children.emplace_back(key, tree_of(child));
    }
  } else if (test::has(json, "v")) {
    tree.kind = "v";
    tree.other = simdjson::minify(member(json, "v"));
  } else {
    tree.kind = test::has(json, "tuple") ? "tuple" : "list";
    for (Json child : simdjson::dom::array(member(json, tree.kind))) tree.children.emplace_back("", tree_of(child));
  }
  return tree;
}

bool same(const Tree& a, const Tree& b) {
  if (a.kind != b.kind || a.other != b.other || a.children.size() != b.children.size()) return false;
  if (a.kind == "t") return a.tensor.cpu().equal(b.tensor.cpu());
  for (std::size_t i = 0; i < a.children.size(); ++i) {
    if (a.children[i].first != b.children[i].first || !same(a.children[i].second, b.children[i].second)) return false;
  }
  return true;
}

std::vector<Device> gpus(std::int64_t count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back(core::DeviceType::cuda, i);
  return devices;
}

void run_chunk(Json json, test::GoldenRun& run) {
  std::int64_t size = test::integer(member(json, "size"));
  for (auto [count, wanted] : simdjson::dom::object(member(json, "chunks"))) {
    core::Shape sizes;
    for (const Tensor& piece : core::zeros({size}).chunk(std::stoll(std::string(count))))
      sizes.push_back(piece.size(0));
    std::string id = "chunk_" + std::to_string(size) + "_" + std::string(count);
    run.check(id, sizes == test::shape(wanted), "sizes are " + core::to_list(sizes));
  }
}

bool has_tensor(const Tree& tree) {
  return tree.kind == "t" || std::any_of(tree.children.begin(), tree.children.end(),
                                         [](const auto& child) { return has_tensor(child.second); });
}

void run_scatter(Json json, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  Tree args{.tensor = {}, .kind = "tuple", .children = {}, .other = {}};
  Tree inputs = args;
  for (Json input : simdjson::dom::array(member(json, "inputs"))) inputs.children.emplace_back("", tree_of(input));
  Tree kwargs{.tensor = {}, .kind = "dict", .children = {}, .other = {}};
  for (auto [key, value] : simdjson::dom::object(member(json, "kwargs")))
    kwargs.children.emplace_back(key, tree_of(value));
  if (inputs.children.empty() && kwargs.children.empty()) return run.skip(id, "no arguments: a call without scatter");
  args.children = {{"", inputs}, {"", kwargs}};
  std::vector<Tree> shards;
  try {
    shards = core::scatter_values(args, gpus(test::integer(member(json, "n"))), test::integer(member(json, "dim")));
  } catch (const core::Error& error) {
    if (error.code() == core::ErrorCode::value) return run.skip(id, "the reference drops rows, ours refuses");
    throw;
  }
  auto wanted_inputs = simdjson::dom::array(member(json, "shard_inputs"));
  auto wanted_kwargs = simdjson::dom::array(member(json, "shard_kwargs"));
  bool reference_runs_more = has_tensor(args) && wanted_inputs.size() > shards.size();
  if (wanted_inputs.size() != shards.size() && !reference_runs_more) return run.fail(id, "another number of shards");
  for (std::size_t i = 0; i < shards.size(); ++i) {
    bool ok = same(shards[i].children[0].second, tree_of(wanted_inputs.at(i))) &&
              same(shards[i].children[1].second, tree_of(wanted_kwargs.at(i)));
    if (!ok) return run.fail(id, "shard " + std::to_string(i) + " differs");
  }
  run.pass(id);
}

void run_gather(Json json, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  std::vector<Tree> outputs;
  int device = 0;
  for (Json output : simdjson::dom::array(member(json, "outputs"))) {
    Device here(core::DeviceType::cuda, device++);
    outputs.push_back(core::map_tensors(tree_of(output), [&](const Tensor& t) { return t.to(here); }));
  }
  try {
    Tree result = core::gather_values(outputs, Device("cuda:0"), test::integer(member(json, "dim")));
    run.check(id, test::has(json, "result") && same(result, tree_of(member(json, "result"))), "another result");
  } catch (const core::Error& error) {
    bool expected = test::has(json, "error") && error.message() == test::text(member(member(json, "error"), "message"));
    run.check(id, expected, error.message());
  }
}

std::string shard_sizes(const Tensor& x, std::int64_t devices, Json wanted) {
  core::Shape sizes;
  for (const Tensor& piece : core::scatter(x, gpus(devices))) sizes.push_back(piece.size(0));
  return sizes == test::shape(wanted) ? "" : "shards of " + core::to_list(sizes);
}

std::string compare_values(const Tensor& ours, const std::vector<double>& wanted) {
  bool is_near = core::allclose(ours.cpu().to_double(), core::from_values(wanted), {.rtol = 1.3e-6, .atol = 1e-5});
  return is_near ? "" : " a buffer is " + core::to_string(ours);
}

void run_data_parallel(Json json, const test::GoldenArrays& arrays, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  core::manual_seed(test::integer(member(json, "seed")));
  test::BuiltModule built = test::build_module(member(json, "model"));
  if (!built.module) return run.skip(id, built.missing);
  std::int64_t devices = test::integer(member(json, "n_devices"));
  std::vector<core::DeviceId> ids;
  for (int i = 0; i < devices; ++i) ids.emplace_back(i);
  core::DataParallel model(built.module, {.device_ids = ids});
  model.to(Device("cuda:0"));
  Tensor x = test::to_tensor(arrays.at(test::text(member(json, "input")))).to(Device("cuda:0"));
  Tensor target = test::to_tensor(arrays.at(test::text(member(json, "target")))).to(Device("cuda:0"));
  std::string why = shard_sizes(x, devices, member(json, "shard_sizes"));
  Tensor y = model(x);
  Tensor loss = core::mse_loss(y, target);
  loss.backward();
  why += test::difference(y.detach().cpu(), arrays.at(test::text(member(json, "output"))));
  for (auto [name, array] : simdjson::dom::object(member(json, "grads"))) {
    for (auto& [ours, param] : built.module->named_parameters()) {
      if (ours == name) why += test::difference(param.grad().cpu(), arrays.at(test::text(array)));
    }
  }
  if (test::has(json, "buffers_after")) {
    for (auto [name, array] : simdjson::dom::object(member(json, "buffers_after"))) {
      for (auto& [ours, buffer] : built.module->named_buffers()) {
        if (ours == name) why += compare_values(buffer, test::numbers(array));
      }
    }
  }
  run.check(id, why.empty(), why);
}

}  // namespace

int main() {
  auto arrays_file = test::golden_file("runtime/chunk.safetensors");
  if (!arrays_file) return 77;
  test::set_golden_devices(16);
  test::GoldenArrays arrays(*arrays_file);
  return test::golden_main("chunk", "runtime/chunk.json", [&](Json root, test::GoldenRun& run) {
    auto each = [&](const char* section, auto one) {
      for (Json json : simdjson::dom::array(member(root, section))) {
        test::guarded(run, test::text(member(json, "id")), [&] { one(json); });
      }
    };
    for (Json json : simdjson::dom::array(member(root, "chunk"))) run_chunk(json, run);
    each("scatter", [&](Json json) { run_scatter(json, run); });
    each("gather", [&](Json json) { run_gather(json, run); });
    each("data_parallel", [&](Json json) { run_data_parallel(json, arrays, run); });
  });
}
