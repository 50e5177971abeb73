#include "tests/libcore/dist/golden_errors.h"

#include <signal.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <thread>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/data/sampler.h"
#include "libcore/dist/distributed_data_parallel.h"
#include "libcore/dist/init.h"
#include "libcore/dist/socket.h"
#include "libcore/module/lazy.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/dist/rank_gpus.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/libcore/dist/two_branch.h"

namespace test {
namespace {

namespace dist = core::distributed;
using core::Tensor;
using dist::DistributedDataParallel;
using std::chrono::milliseconds;
using std::chrono::seconds;
/// What a rank says when nothing went wrong.
using Situation = std::function<std::string()>;

constexpr char kOk[] = "ok";

int rank() {
  return dist::get_rank();
}
std::string begin(dist::InitOptions options = {.timeout = seconds(30)}) {
  if (options.backend.empty()) options.backend = default_backend();
  dist::init_process_group(options);
  if (!rank_device().is_cpu()) core::set_default_device(rank_device());
  return kOk;
}
std::string begin_for_two_seconds() {
  return begin({.timeout = seconds(2)});
}

/// A situation among ranks that have found each other.
Situation together(std::function<void()> body, milliseconds timeout = seconds(30)) {
  return [body = std::move(body), timeout] {
    begin({.timeout = timeout});
    body();
    return std::string(kOk);
  };
}

void two_steps(int branch, const dist::DistributedDataParallelOptions& options = {}, bool changes = false) {
  TwoBranch net(4, 5, 3);
  DistributedDataParallel model(net, options);
  for (int step = 0; step < 3; ++step) {
    net.which = changes ? (branch + step) % 2 : branch;
    core::sum(model(core::randn({2, 4}))).backward();
  }
}

void train_until(const std::function<void()>& end, int steps = 200) {
  core::Linear net(4, 4);
  DistributedDataParallel model(net);
  for (int step = 0; step < steps; ++step) {
    if (rank() == 1 && step == 2) end();
    core::sum(model(core::randn({2, 4}))).backward();
    model.zero_grad();
    std::this_thread::sleep_for(milliseconds(5));
  }
}

void join_and_throw() {
  core::Linear net(4, 2);
  DistributedDataParallel model(net);
  model.join(
      [&] {
        for (int i = 0; i < 2 + rank(); ++i) core::sum(model(core::randn({2, 4}))).backward();
      },
      {.throw_on_early_termination = true});
}

std::map<std::string, Situation> of_beginning() {
  const auto ddp_with = [](dist::DistributedDataParallelOptions options) {
    return together([options] {
      core::Linear net(2, 2);
      DistributedDataParallel model(net, options);
    });
  };
  return {
      {"env_rank", [] { return begin(); }},
      {"env_world_size", [] { return begin(); }},
      {"env_master_addr", [] { return begin(); }},
      {"env_master_port", [] { return begin(); }},
      {"rank_out_of_range", begin_for_two_seconds},
      {"rank_not_a_number", begin_for_two_seconds},
      {"world_incomplete", begin_for_two_seconds},
      {"master_absent", begin_for_two_seconds},
      {"port_taken", begin_for_two_seconds},
      {"backend_unknown", [] { return begin({.backend = "carrier-pigeon"}); }},
      {"backend_mpi_not_built", [] { return begin({.backend = "mpi"}); }},
      {"init_method_unknown", [] { return begin({.init_method = "ftp://x"}); }},
      {"init_twice", together([] { begin(); })},
      {"no_group_get_rank", [] { return std::to_string(dist::get_rank()); }},
      {"no_group_get_world_size", [] { return std::to_string(dist::get_world_size()); }},
      {"no_group_all_reduce", [] { return dist::all_reduce(core::ones({2})), std::string(kOk); }},
      {"no_group_barrier", [] { return dist::barrier(), std::string(kOk); }},
      {"no_group_ddp",
       [] {
         core::Linear net(2, 2);
         DistributedDataParallel model(net);
         return std::string(kOk);
       }},
      {"no_group_sampler", [] { return core::DistributedSampler(4), std::string(kOk); }},
      {"no_group_destroy", [] { return dist::destroy_process_group(), std::string(kOk); }},
      {"sampler_rank", [] { return core::DistributedSampler(4, {.num_replicas = 2, .rank = 2}), std::string(kOk); }},
      {"ddp_no_grad", together([] {
         core::Linear net(2, 2);
         net.requires_grad_(false);
         DistributedDataParallel model(net);
       })},
      {"ddp_two_ids", ddp_with({.device_ids = {{0, 1}}})},
      {"ddp_cpu_ids", ddp_with({.device_ids = std::vector<core::DeviceId>{0}})},
      {"ddp_list_empty", ddp_with({.bucket_cap_mb = 0})},
      {"ddp_lazy", together([] {
         core::LazyLinear net(2);
         DistributedDataParallel model(net);
       })},
  };
}

std::map<std::string, Situation> of_models() {
  return {
      {"shape_differs", together([] {
         core::Linear net(4, 3 + rank());
         DistributedDataParallel model(net);
       })},
      {"count_differs", together([] {
         core::Sequential net;
         for (int i = 0; i <= rank(); ++i) net.push_back(core::Linear(4, 3));
         DistributedDataParallel model(net);
       })},
      {"unused", together([] { two_steps(1); })},
      {"unused_other", together([] { two_steps(rank() % 2); })},
      {"forward_without_backward", together([] {
         core::Linear net(2, 2);
         DistributedDataParallel model(net, {.find_unused_parameters = true});
         model(core::randn({2, 2}));
         model(core::randn({2, 2}));
         core::sum(model(core::randn({2, 2}))).backward();
       })},
      {"two_forwards_two_backwards", together([] {
         core::Linear net(2, 2);
         DistributedDataParallel model(net);
         const Tensor first = core::sum(model(core::randn({2, 2})));
         const Tensor second = core::sum(model(core::randn({2, 2})));
         first.backward();
         second.backward();
       })},
      {"backward_twice", together([] {
         core::Linear net(2, 2);
         DistributedDataParallel model(net);
         const Tensor loss = core::sum(model(core::randn({2, 2})));
         loss.backward({}, true);
         loss.backward();
       })},
      {"static_graph_changes", together([] { two_steps(0, {.static_graph = true}, true); })},
      {"find_unused_without_need", together([] {
         core::set_warning_handler(
             [](const std::string& text) { throw core::Error(core::ErrorCode::runtime, "warned: " + text); });
         core::Linear net(2, 2);
         DistributedDataParallel model(net, {.find_unused_parameters = true});
         for (int i = 0; i < 3; ++i) core::sum(model(core::randn({2, 2}))).backward();
       })},
      {"sync_bn_dims", together([] {
         core::SyncBatchNorm norm(3);
         norm.eval();
         norm(core::randn({3}));
       })},
      {"join_throw", together(join_and_throw)},
      {"rank_killed", together([] { train_until([] { ::raise(SIGKILL); }); })},
      {"rank_exits", together([] { train_until([] { std::exit(0); }); })},
      {"rank_raises", together([] { train_until([] { throw core::Error(core::ErrorCode::value, "bad batch"); }); })},
  };
}

std::map<std::string, Situation> of_arguments() {
  const auto f32 = [](std::int64_t n) { return core::zeros({n}); };
  return {
      {"bad_broadcast_root", together([=] { dist::broadcast(f32(2), 5); })},
      {"bad_all_gather_count", together([=] { dist::all_gather({f32(2)}, f32(2)); })},
      {"bad_all_gather_shape", together([=] {
         dist::all_gather({f32(3), f32(3)}, f32(4));
       })},
      {"bad_all_gather_dtype", together([=] {
         const Tensor wide = core::zeros({2}, {.dtype = core::DType::f64});
         dist::all_gather({wide, wide.clone()}, f32(2));
       })},
      {"bad_all_gather_into_size", together([=] { dist::all_gather_into_tensor(f32(5), f32(3)); })},
      {"bad_scatter_lists", together([=] {
         dist::scatter(f32(2), {f32(2), f32(2)}, 0);
       })},
      {"bad_gather_missing_list", together([=] { dist::gather(f32(2), {}, 0); })},
      {"bad_reduce_scatter_size", together([=] { dist::reduce_scatter_tensor(f32(2), f32(5)); })},
      {"bad_all_to_all_splits", together([=] {
         dist::all_to_all_single(f32(4), f32(4), {.output_split_sizes = {1, 1}, .input_split_sizes = {1, 1}});
       })},
      {"bad_all_to_all_uneven", together([=] { dist::all_to_all_single(f32(3), f32(3)); })},
      {"bad_send_to_self", together([=] { dist::send(f32(2), rank()); })},
      {"bad_complex_max",
       together([] { dist::all_reduce(core::zeros({2}, {.dtype = core::DType::c64}), {.op = dist::ReduceOp::max}); })},
      {"bad_new_group_rank", together([] {
         dist::new_group({0, 5});
       })},
      {"bad_new_group_duplicate", together([] {
         dist::new_group({0, 0});
       })},
      {"bad_not_in_group", together([=] {
         core::set_warning_handler(nullptr);
         dist::all_reduce(f32(2), {.group = dist::new_group({0})});
       })},
      {"bad_not_contiguous", together([] {
         const Tensor matrix = core::arange(0, 6).to(core::DType::f32).view({2, 3}).t();
         dist::all_reduce(matrix);
         if (matrix.to_vector<double>() != std::vector<double>{0, 6, 2, 8, 4, 10}) {
           throw core::Error(core::ErrorCode::runtime, "another sum");
         }
       })},
  };
}

std::map<std::string, Situation> of_differences() {
  return {
      {"differ_shape", together([] {
         dist::all_reduce(core::ones({5 + rank(), 2}));
       })},
      {"differ_dtype", together([] {
         dist::all_reduce(core::ones({4}, {.dtype = rank() == 0 ? core::DType::i32 : core::DType::f32}));
       })},
      {"differ_what", together([] {
         const Tensor tensor = core::ones({4});
         if (rank() == 0) {
           dist::all_reduce(tensor);
         } else {
           dist::broadcast(tensor, 0);
         }
       })},
      {"differ_op", together([] {
         dist::all_reduce(core::ones({2}), {.op = rank() == 0 ? dist::ReduceOp::sum : dist::ReduceOp::max});
       })},
      {"differ_absent", together(
                            [] {
                              if (rank() == 0) {
                                dist::all_reduce(core::ones({4}));
                              } else {
                                std::this_thread::sleep_for(seconds(4));
                              }
                            },
                            seconds(2))},
      {"monitored_barrier", together([] {
         if (rank() == 0) dist::monitored_barrier({.timeout = milliseconds(1000), .wait_all_ranks = true});
         if (rank() != 0) std::this_thread::sleep_for(milliseconds(1500));
       })},
  };
}

/// None for a situation that libcore does not have.
Situation situation_of(std::string id) {
  for (const char* debug : {"_off", "_info", "_detail"}) {
    if (id.ends_with(debug)) id.resize(id.size() - std::string(debug).size());
  }
  for (const auto& table : {of_beginning(), of_models(), of_arguments(), of_differences()}) {
    const auto found = table.find(id);
    if (found != table.end()) return found->second;
  }
  return nullptr;
}

/// Beside what run_ranks sets.
std::map<std::string, std::string> environment_of(const std::string& id, const std::string& debug) {
  std::map<std::string, std::string> all{{"TORCH_DISTRIBUTED_DEBUG", debug}};
  if (id == "env_rank") all["RANK"] = "";
  if (id == "env_world_size") all["WORLD_SIZE"] = "";
  if (id == "env_master_addr") all["MASTER_ADDR"] = "";
  if (id == "env_master_port") all["MASTER_PORT"] = "";
  if (id == "rank_not_a_number") all["RANK"] = "one";
  if (id == "rank_out_of_range") all["RANK"] = "3";
  if (id == "master_absent") all["RANK"] = "1";
  if (id == "backend_mpi_not_built") all["CKPT_DIST_MPI"] = "/nowhere/libckpt_dist_mpi.so";
  if (id == "world_incomplete" || id == "rank_out_of_range" || id == "master_absent") all["WORLD_SIZE"] = "2";
  return all;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

/// Without what differs from run to run.
std::string plain(std::string text) {
  text = replaced(replaced(text, ":LINE]", "]"), "PORT", "#");
  text = replaced(text, "SECONDS", "2");
  if (!rank_device().is_cpu()) text = replaced(text, "device=cuda", "device=cpu");
  for (const char* before : {"(127.0.0.1, ", "port: "}) {
    const std::size_t at = text.find(before);
    if (at == std::string::npos) continue;
    const std::size_t digits = at + std::string(before).size();
    std::size_t end = digits;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end > digits) text.replace(digits, end - digits, "#");
  }
  return text;
}

/// Whether these words are Python's own.
bool is_of_python(const std::string& id) {
  for (const char* own :
       {"rank_not_a_number", "no_group_destroy", "backend_unknown", "bad_sparse", "bad_not_a_tensor"}) {
    if (id == own) return true;
  }
  return false;
}

/// Whether the words are Gloo's, or what is said of a rank that is gone: a matter of timing. Ours name a rank.
bool depends_on_timing(const std::string& wanted) {
  return wanted.find("[gloo/") != std::string::npos ||
         wanted.find("failed to pass monitoredBarrier in 2000") != std::string::npos ||
         wanted.find("failed to pass monitoredBarrier in 30000") != std::string::npos;
}

/// Situations in which ours does better than PyTorch on purpose.
bool is_better_here(const std::string& id, const std::string& ours) {
  if (id.starts_with("differ_op"))
    return ours.find("Options: SUMvs MAX") != std::string::npos || ours.find("Options: MAXvs SUM") != std::string::npos;
  return false;
}

std::string compare_rank(const std::string& id, const Ending& ending, Json wanted) {
  if (ending.timed_out) return "did not end";
  const bool is_mpi = default_backend() == "mpi";
  if (has(wanted, "died") && is_mpi) return "";  // how a single rank ended is mpirun's
  if (has(wanted, "died")) {
    const auto status = integer(member(wanted, "died"));
    return ending.status == status ? "" : "ended with " + std::to_string(ending.status);
  }
  if (ending.status < 0 && !is_mpi) return "died of signal " + std::to_string(-ending.status) + " " + ending.errors;
  std::string ours = ending.report;
  while (ours.ends_with("\n")) ours.pop_back();
  if (is_better_here(id, ours)) return "";
  if (has(wanted, "ok")) return ours == kOk ? "" : "said " + ours;
  const std::string text_wanted = text(member(wanted, "message"));
  const std::string type = text(member(wanted, "type"));
  const std::string begin = "error " + (type.starts_with("Dist") ? "RuntimeError" : type) + ": ";
  bool is_same = plain(ours) == plain(begin + text_wanted);
  if (is_of_python(id)) is_same = ours.starts_with(begin);
  if (id == "backend_mpi_not_built") is_same = ours.starts_with(begin + text_wanted);  // and says what to install
  if (depends_on_timing(text_wanted)) is_same = ours.starts_with(begin) && ours.find("ank ") != std::string::npos;
  // A short message has gone when MPI has taken it: who only sends may be through before another rank fails.
  if (depends_on_timing(text_wanted) && is_mpi) is_same |= ours == kOk;
  return is_same ? "" : "said " + ours + " where " + begin + text_wanted;
}

}  // namespace

int run_error_rank(const std::string& id) {
  const Situation situation = situation_of(id);
  try {
    say(situation());
    return 0;
  } catch (const core::Error& error) {
    const std::string text = std::string(core::python_name(error.code())) + ": " + error.what();
    dist::report_failure(text);
    say("error " + text);
    return 1;
  }
}

void run_error_case(Json json, GoldenRun& run) {
  const std::string id = text(member(json, "id"));
  if (!situation_of(id)) return run.skip("errors/" + id, "no such situation in C++");
  if (default_backend() == "mpi" && of_beginning().contains(id)) {
    return run.skip("errors/" + id, "MPI's processes find each other in its way");
  }
  if (default_backend() == "nccl" && id == "ddp_cpu_ids") {
    return run.skip("errors/" + id, "the module is on a GPU");
  }
  if (!has_gpus_for(static_cast<int>(integer(member(json, "world_size"))))) {
    return run.skip("errors/" + id, "fewer GPUs than ranks");
  }
  if (!default_backend().empty()) {
    for (Json rank_wanted : items(member(json, "ranks"))) {
      if (has(rank_wanted, "message") &&
          text(member(rank_wanted, "message")).find("ProcessGroupGloo") != std::string::npos)
        return run.skip("errors/" + id, "the words of another backend");
    }
  }
  RanksOptions options{.role = "errors",
                       .arguments = {id},
                       .size = static_cast<int>(integer(member(json, "world_size"))),
                       .environment = environment_of(id, text(member(json, "debug"))),
                       .limit = seconds(20)};
  core::distributed::Socket taken;
  if (id == "port_taken") {
    taken = core::distributed::Socket::listen(0, true);
    options.environment["MASTER_PORT"] = std::to_string(taken.local_port());
  }
  const std::vector<Ending> endings = run_ranks(options);
  std::string why;
  for (std::size_t i = 0; i < endings.size(); ++i) {
    const std::string difference = compare_rank(id, endings[i], items(member(json, "ranks"))[i]);
    if (!difference.empty()) why += "rank " + std::to_string(i) + " " + difference + "; ";
  }
  run.check("errors/" + id, why.empty(), why);
}

}  // namespace test
