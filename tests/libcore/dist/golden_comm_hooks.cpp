// Golden data set comm_hooks: trainings of PyTorch's DistributedDataParallel with communication hooks. Starts itself as
// the ranks of each world size.
#include <iostream>
#include <map>
#include <set>

#include "libcore/base/text.h"
#include "libcore/data/loader.h"
#include "libcore/dist/comm_hooks.h"
#include "libcore/dist/distributed_data_parallel.h"
#include "libcore/dist/init.h"
#include "libcore/dist/power_sgd.h"
#include "libcore/module/activation.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/sgd.h"
#include "tests/libcore/dist/rank_gpus.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/support/golden_json.h"

namespace {

namespace dist = core::distributed;
using core::Tensor;
using test::Json;
using test::member;

constexpr const char* kFile = "comm_hooks/hooks.json";
constexpr std::size_t kFirstError = 100'000;  ///< in what ranks say: numbers from here on are of errors
constexpr const char* kArrays = "comm_hooks/hooks.safetensors";

dist::CommFuture summed(const Tensor& tensor) {
  return {dist::all_reduce(tensor, {.async_op = true}), tensor};
}

std::shared_ptr<dist::PowerSGDState> power_of(Json json) {
  dist::PowerSGDOptions options;
  for (const auto [key, value] : json.get_object()) {
    if (key == "start_powerSGD_iter") {
      options.start_powerSGD_iter = test::integer(value);
    } else if (key == "matrix_approximation_rank") {
      options.matrix_approximation_rank = test::integer(value);
    } else if (key == "min_compression_rate") {
      options.min_compression_rate = test::number(value);
    } else if (key == "use_error_feedback") {
      options.use_error_feedback = test::boolean(value);
    } else if (key == "warm_start") {
      options.warm_start = test::boolean(value);
    } else if (key == "orthogonalization_epsilon") {
      options.orthogonalization_epsilon = test::number(value);
    } else if (key == "random_seed") {
      options.random_seed = static_cast<std::uint32_t>(test::integer(value));
    } else if (key == "batch_tensors_with_same_shape") {
      options.batch_tensors_with_same_shape = test::boolean(value);
    } else {
      throw std::runtime_error("skip: option of PowerSGDState " + std::string(key));
    }
  }
  return std::make_shared<dist::PowerSGDState>(options);
}

/// By the names that the data have, those that PyTorch has not included.
dist::CommHook hook_named(const std::string& name) {
  if (name == "allreduce_hook") return dist::allreduce_hook();
  if (name == "fp16_compress_hook") return dist::fp16_compress_hook();
  if (name == "bf16_compress_hook") return dist::bf16_compress_hook();
  if (name == "fp16_compress_wrapper") return dist::fp16_compress_wrapper(dist::allreduce_hook());
  if (name == "bf16_compress_wrapper") return dist::bf16_compress_wrapper(dist::allreduce_hook());
  if (name == "noop_hook") return dist::noop_hook();
  if (name == "half_of_sum") {
    return [](dist::GradBucket& bucket) { return summed(bucket.buffer() * 0.5); };
  }
  if (name == "doubled_last") {
    return [](dist::GradBucket& bucket) {
      return summed(bucket.buffer() * (bucket.is_last() ? 2.0 : 1.0 / (1.0 + static_cast<double>(bucket.index()))));
    };
  }
  throw std::runtime_error("skip: hook " + name);
}

dist::DistributedDataParallelOptions options_of(Json json) {
  dist::DistributedDataParallelOptions options;
  for (const auto [key, value] : json.get_object()) {
    if (key == "bucket_cap_mb") {
      options.bucket_cap_mb = test::number(value);
    } else if (key == "find_unused_parameters") {
      options.find_unused_parameters = test::boolean(value);
    } else if (key == "gradient_as_bucket_view") {
      options.gradient_as_bucket_view = test::boolean(value);
    } else if (key == "static_graph") {
      options.static_graph = test::boolean(value);
    } else {
      throw std::runtime_error("skip: DDP option " + std::string(key));
    }
  }
  return options;
}

std::shared_ptr<core::Sequential> model_of(Json json) {
  const std::vector<std::int64_t> sizes = test::integers(member(json, "sizes"));
  const std::int64_t rows = test::integer(member(json, "table"));
  const std::int64_t width = test::integer(member(json, "width"));
  auto model = std::make_shared<core::Sequential>();
  if (test::boolean(member(json, "bag"))) {
    model->push_back(std::make_shared<core::EmbeddingBag>(
        rows, width, core::EmbeddingBagOptions{.mode = core::BagMode::sum, .sparse = true}));
  } else if (rows > 0) {
    model->push_back(std::make_shared<core::Embedding>(rows, width, core::EmbeddingOptions{.sparse = true}));
    model->push_back(std::make_shared<core::Flatten>());
  }
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) model->push_back(std::make_shared<core::ReLU>());
    model->push_back(std::make_shared<core::Linear>(sizes[i], sizes[i + 1]));
  }
  return model;
}

std::string bucket_text(std::int64_t index, bool is_last, std::int64_t elements, std::int64_t params) {
  return std::to_string(index) + (is_last ? " last " : " ") + std::to_string(elements) + " of " +
         std::to_string(params) + " parameters";
}

/// The sparse gradient of the table, in the last step.
std::string table_difference(Json json, const Tensor& grad, const test::GoldenArrays& arrays) {
  const std::vector<Json> places = test::items(member(json, "places"));
  if (places.empty()) return "";
  if (!grad.is_sparse()) return "the gradient of the table is not sparse";
  const auto rank = static_cast<std::size_t>(dist::get_rank());
  const Tensor once = core::coalesce(grad);
  const std::string why = test::difference(core::sparse_indices(once), arrays.at(test::text(places[rank])));
  if (!why.empty()) return "places: " + why;
  const std::string name = test::text(test::items(member(json, "values"))[rank]);
  const std::string other = test::difference(core::sparse_values(once), arrays.at(name));
  return other.empty() ? "" : "values: " + other;
}

std::string compression_difference(Json json, const dist::PowerSGDState& power) {
  const std::vector<std::int64_t> numels = test::integers(member(json, "numels"));
  const std::int64_t before = power.total_numel_before_compression(), after = power.total_numel_after_compression();
  if (before == numels[0] && after == numels[1]) return "";
  return "compressed " + std::to_string(before) + " elements to " + std::to_string(after);
}

/// What the hook was given.
std::string bucket_difference(Json json, const std::vector<std::string>& buckets) {
  std::vector<std::string> wanted;
  for (Json each : test::items(member(json, "buckets"))) {
    const std::vector<Json> facts = test::items(each);
    wanted.push_back(bucket_text(test::integer(facts[0]), test::boolean(facts[1]), test::integer(facts[2]),
                                 test::integer(facts[3])));
  }
  if (buckets == wanted) return "";
  return "the hook was given " + core::join(buckets, ", ") + " where " + core::join(wanted, ", ");
}

/// What a case is like on this rank: "" when as PyTorch's.
std::string difference(Json json, const test::GoldenArrays& arrays) {
  const auto rank = static_cast<std::size_t>(dist::get_rank());
  const auto array = [&](Json name) { return test::to_tensor(arrays.at(test::text(name))); };
  const std::shared_ptr<core::Sequential> inner = model_of(json);
  core::StateDict start;
  for (const auto [key, name] : member(json, "start").get_object()) start.set(std::string(key), array(name));
  inner->load_state_dict(start);
  if (!test::rank_device().is_cpu() && test::integer(member(json, "table")) > 0) {
    return "skip: NCCL sums no sparse tensors";
  }
  const bool is_half = test::text(member(json, "hook")).find("compress") != std::string::npos;
  if (!test::rank_device().is_cpu() && is_half && dist::get_world_size() > 2) {
    return "skip: half types, which NCCL adds in another order";
  }
  inner->to(test::rank_device());
  dist::DistributedDataParallel model(inner, options_of(member(json, "ddp")));
  std::vector<std::string> buckets;
  const std::string hook_name = test::text(member(json, "hook"));
  const auto power = hook_name == "powerSGD_hook" ? power_of(member(json, "power")) : nullptr;
  const dist::CommHook hook =
      power ? dist::powerSGD_hook(power) : hook_named(hook_name.empty() ? "noop_hook" : hook_name);
  dist::CommHook noted = [&](dist::GradBucket& bucket) {
    buckets.push_back(bucket_text(static_cast<std::int64_t>(bucket.index()), bucket.is_last(), bucket.buffer().numel(),
                                  static_cast<std::int64_t>(bucket.parameters().size())));
    return hook(bucket);
  };
  if (!hook_name.empty()) model.register_comm_hook(noted);
  core::SGD optimizer(inner->parameters(), {.lr = test::number(member(json, "lr"))});
  const Tensor x = array(test::items(member(json, "x"))[rank]).to(test::rank_device());
  const Tensor y = array(test::items(member(json, "y"))[rank]).to(test::rank_device());
  const std::int64_t steps = test::integer(member(json, "steps"));
  const std::int64_t rows = x.size(0) / steps;
  const std::vector<double> losses = test::numbers(test::items(member(json, "losses"))[rank]);
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor loss = core::mse_loss(model(x.narrow(0, step * rows, rows)), y.narrow(0, step * rows, rows));
    const double wanted = losses[static_cast<std::size_t>(step)];
    if (!test::is_close(loss.item<double>(), wanted, core::DType::f32)) {
      return "loss " + std::to_string(step) + " is " + core::python_float(loss.item<double>()) + " where " +
             core::python_float(wanted);
    }
    loss.backward();
    if (step + 1 == steps) {
      if (const std::string why = table_difference(json, inner->parameters()[0].grad(), arrays); !why.empty())
        return why;
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  if (power) {
    if (const std::string why = compression_difference(json, *power); !why.empty()) return why;
  }
  const core::StateDict state = inner->state_dict();
  for (const auto [key, name] : test::items(member(json, "state"))[rank].get_object()) {
    const std::string why = test::difference(state.at(std::string(key)), arrays.at(test::text(name)));
    if (!why.empty()) return std::string(key) + ": " + why;
  }
  return rank > 0 ? "" : bucket_difference(json, buckets);
}

/// A table whose gradient is expected to be sparse: dense where it is used, and else not there.
struct Dense : core::ModuleOf<Dense> {
  core::Embedding table{5, 2, {.sparse = true}};
  core::Linear linear{2, 1};
  bool is_used = false;
  void members(core::Members& m) override { m.child("table", table).child("linear", linear); }
  Tensor forward(const Tensor&) {
    return core::sum(is_used ? Tensor(table.weight) : core::ones({1, 2})) * core::sum(linear.weight);
  }
};

/// What a case of "sparse_errors" says here.
std::string said_of_sparse(const std::string& name) {
  try {
    if (name == "reduction") {
      const Tensor places = core::tensor({{0, 2}}, {.dtype = core::DType::i64});
      dist::all_reduce(core::sparse_coo_tensor(places, core::ones({2, 2}), {5, 2}), {.op = dist::ReduceOp::max});
      return "";
    }
    Dense net;
    net.is_used = name == "dense";
    dist::DistributedDataParallel model(net, {.find_unused_parameters = name == "unused"});
    model(core::ones({2})).backward();
    return "";
  } catch (const core::Error& error) {
    return error.what();
  }
}

int run_rank() {
  const test::GoldenJson json(*test::golden_file(kFile));
  const test::GoldenArrays arrays(*test::golden_file(kArrays));
  dist::init_process_group({.backend = test::default_backend(), .timeout = std::chrono::seconds(60)});
  int index = -1;
  for (Json each : test::items(member(json.root(), "runs"))) {
    ++index;
    if (test::integer(member(each, "world_size")) != dist::get_world_size()) continue;
    std::string why;
    try {
      why = difference(each, arrays);
    } catch (const std::exception& error) {
      why = error.what();
    }
    test::say(std::to_string(index) + "\t" + why);
  }
  int place = 0;
  for (Json each : test::items(member(json.root(), "sparse_errors"))) {
    const std::string wanted = test::text(test::items(each)[1]);
    const bool is_said = dist::get_world_size() == 2 && test::rank_device().is_cpu();  // NCCL says the same of all
    const std::string said = is_said ? said_of_sparse(test::text(test::items(each)[0])) : wanted;
    test::say(std::to_string(kFirstError + place++) + "\t" + (said == wanted ? "" : said));
  }
  dist::destroy_process_group();
  return 0;
}

/// By case: what each rank said of it.
std::map<std::size_t, std::vector<std::string>> said_by_ranks(int size) {
  std::map<std::size_t, std::vector<std::string>> said;
  for (const test::Ending& ending : test::run_ranks({.role = "hooks", .size = size})) {
    std::istringstream lines(ending.report);
    for (std::string line; std::getline(lines, line);) {
      said[std::stoull(line)].push_back(line.substr(line.find('\t') + 1));
    }
    if (ending.status != 0) std::cerr << ending.errors;
  }
  return said;
}

void check_errors(Json root, test::GoldenRun& run) {
  for (Json each : test::items(member(root, "errors"))) {
    const std::string wanted = test::text(test::items(each)[1]);
    test::guarded(run, wanted, [&] {
      core::Linear fc(2, 2);
      dist::DistributedDataParallel model(fc);
      std::string said = "no error";
      try {
        if (test::text(test::items(each)[0]) == "TypeError") model.register_comm_hook(nullptr);
        model.register_comm_hook(dist::noop_hook());
        model.register_comm_hook(dist::noop_hook());
      } catch (const core::Error& error) {
        said = error.what();
      }
      run.check("error " + wanted, said == wanted, said);
    });
  }
}

void check_sparse_errors(Json root, std::map<std::size_t, std::vector<std::string>>& said, test::GoldenRun& run) {
  std::size_t number = kFirstError;
  for (Json each : test::items(member(root, "sparse_errors"))) {
    const std::vector<std::string>& of_ranks = said[number++];
    const std::string id = "sparse error " + test::text(test::items(each)[0]);
    if (of_ranks.size() != 2) {
      run.check(id, false, "not all ranks came so far");
      continue;
    }
    run.check(id, of_ranks[0].empty() && of_ranks[1].empty(), of_ranks[0] + of_ranks[1]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const test::RankGpus gpus;
  if (test::rank_role(argc, argv) == "hooks") return run_rank();
  if (!dist::is_gloo_available()) return 77;
  return test::golden_main("comm_hooks", kFile, [](Json root, test::GoldenRun& run) {
    const std::vector<Json> cases = test::items(member(root, "runs"));
    std::set<int> sizes;
    for (Json each : cases) sizes.insert(static_cast<int>(test::integer(member(each, "world_size"))));
    for (const int size : sizes) {
      if (!test::has_gpus_for(size)) {
        run.skip("w" + std::to_string(size), "fewer GPUs than ranks");
        continue;
      }
      std::map<std::size_t, std::vector<std::string>> said = said_by_ranks(size);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        if (test::integer(member(cases[i], "world_size")) != size) continue;
        const std::string id = std::to_string(i) + "/" + test::text(member(cases[i], "hook"));
        std::string wrong = said[i].size() == static_cast<std::size_t>(size) ? "" : "not all ranks came so far";
        for (const std::string& why : said[i]) wrong += wrong.empty() ? why : "";
        wrong.starts_with("skip: ") ? run.skip(id, wrong.substr(6)) : run.check(id, wrong.empty(), wrong);
      }
      if (size == 2) check_sparse_errors(root, said, run);
    }
    dist::init_process_group({.world_size = 1, .rank = 0, .store = std::make_shared<dist::HashStore>()});
    check_errors(root, run);
    dist::destroy_process_group();
  });
}
