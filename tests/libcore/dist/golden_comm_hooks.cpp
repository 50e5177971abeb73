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
#include "libcore/module/activation.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/optim/sgd.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/support/golden_json.h"

namespace {

namespace dist = core::distributed;
using core::Tensor;
using test::Json;
using test::member;

constexpr const char* kFile = "comm_hooks/hooks.json";
constexpr const char* kArrays = "comm_hooks/hooks.safetensors";

dist::CommFuture summed(const Tensor& tensor) {
  return {dist::all_reduce(tensor, {.async_op = true}), tensor};
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

std::shared_ptr<core::Sequential> model_of(const std::vector<std::int64_t>& sizes) {
  auto model = std::make_shared<core::Sequential>();
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

/// What a case is like on this rank: "" when as PyTorch's.
std::string difference(Json json, const test::GoldenArrays& arrays) {
  const auto rank = static_cast<std::size_t>(dist::get_rank());
  const auto array = [&](Json name) { return test::to_tensor(arrays.at(test::text(name))); };
  const std::shared_ptr<core::Sequential> inner = model_of(test::integers(member(json, "sizes")));
  core::StateDict start;
  for (const auto [key, name] : member(json, "start").get_object()) start.set(std::string(key), array(name));
  inner->load_state_dict(start);
  dist::DistributedDataParallel model(inner, options_of(member(json, "ddp")));
  std::vector<std::string> buckets;
  const dist::CommHook hook = hook_named(test::text(member(json, "hook")));
  model.register_comm_hook([&](dist::GradBucket& bucket) {
    buckets.push_back(bucket_text(static_cast<std::int64_t>(bucket.index()), bucket.is_last(), bucket.buffer().numel(),
                                  static_cast<std::int64_t>(bucket.parameters().size())));
    return hook(bucket);
  });
  core::SGD optimizer(inner->parameters(), {.lr = test::number(member(json, "lr"))});
  const Tensor x = array(test::items(member(json, "x"))[rank]);
  const Tensor y = array(test::items(member(json, "y"))[rank]);
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
    optimizer.step();
    optimizer.zero_grad();
  }
  const core::StateDict state = inner->state_dict();
  for (const auto [key, name] : test::items(member(json, "state"))[rank].get_object()) {
    const std::string why = test::difference(state.at(std::string(key)), arrays.at(test::text(name)));
    if (!why.empty()) return std::string(key) + ": " + why;
  }
  if (rank > 0) return "";
  std::vector<std::string> wanted;
  for (Json each : test::items(member(json, "buckets"))) {
    const std::vector<Json> facts = test::items(each);
    wanted.push_back(bucket_text(test::integer(facts[0]), test::boolean(facts[1]), test::integer(facts[2]),
                                 test::integer(facts[3])));
  }
  return buckets == wanted ? ""
                           : "the hook was given " + core::join(buckets, ", ") + " where " + core::join(wanted, ", ");
}

int run_rank() {
  const test::GoldenJson json(*test::golden_file(kFile));
  const test::GoldenArrays arrays(*test::golden_file(kArrays));
  dist::init_process_group({.timeout = std::chrono::seconds(60)});
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

}  // namespace

int main(int argc, char** argv) {
  if (test::rank_role(argc, argv) == "hooks") return run_rank();
  if (!dist::is_gloo_available()) return 77;
  return test::golden_main("comm_hooks", kFile, [](Json root, test::GoldenRun& run) {
    const std::vector<Json> cases = test::items(member(root, "runs"));
    std::set<int> sizes;
    for (Json each : cases) sizes.insert(static_cast<int>(test::integer(member(each, "world_size"))));
    for (const int size : sizes) {
      std::map<std::size_t, std::vector<std::string>> said = said_by_ranks(size);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        if (test::integer(member(cases[i], "world_size")) != size) continue;
        const std::string id = std::to_string(i) + "/" + test::text(member(cases[i], "hook"));
        std::string wrong = said[i].size() == static_cast<std::size_t>(size) ? "" : "not all ranks came so far";
        for (const std::string& why : said[i]) wrong += wrong.empty() ? why : "";
        wrong.starts_with("skip: ") ? run.skip(id, wrong.substr(6)) : run.check(id, wrong.empty(), wrong);
      }
    }
    dist::init_process_group({.world_size = 1, .rank = 0, .store = std::make_shared<dist::HashStore>()});
    check_errors(root, run);
    dist::destroy_process_group();
  });
}
