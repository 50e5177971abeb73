// Process groups in real processes: this program starts itself as the ranks.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <regex>
#include <thread>

#include "libcore/base/error.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/distributed_data_parallel.h"
#include "libcore/dist/init.h"
#include "libcore/module/linear.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/dist/hook_roles.h"
#include "tests/libcore/dist/kept_gradients.h"
#include "tests/libcore/dist/rank_gpus.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/support/forbidden_call.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_dir.h"

namespace {

namespace dist = core::distributed;
using core::Tensor;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::MatchesRegex;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Sums for ever; rank 1 ends in step 3 as `end` says. Each rank says what happened, and when.
void sum_until(const std::function<void()>& end) {
  const Tensor tensor = core::ones({1000});
  for (int step = 0; step < 2000; ++step) {
    if (dist::get_rank() == 1 && step == 3) {
      test::say("time " + std::to_string(now()));
      end();
    }
    dist::all_reduce(tensor);
    std::this_thread::sleep_for(milliseconds(2));
  }
}

void all_collectives() {
  const int rank = dist::get_rank();
  const int size = dist::get_world_size();
  const Tensor sum = core::full({3}, rank + 1.0);
  const dist::Work work = dist::all_reduce(sum, {.async_op = true});
  work.wait();
  work.wait();  // once more does no harm
  const double total = size * (size + 1) / 2.0;
  if (!work.done() || sum.to_vector<double>() != std::vector<double>(3, total)) throw std::runtime_error("all_reduce");
  if (dist::broadcast_object(rank == size - 1 ? "last" : "", size - 1) != "last") throw std::runtime_error("object");
  const std::vector<std::string> all = dist::all_gather_object(std::string(static_cast<std::size_t>(rank), 'x'));
  for (int q = 0; q < size; ++q) {
    if (all[static_cast<std::size_t>(q)].size() != static_cast<std::size_t>(q)) throw std::runtime_error("objects");
  }
  std::vector<int> even;
  for (int q = 0; q < size; q += 2) even.push_back(q);
  const dist::Group group = dist::new_group(even);
  if (rank % 2 == 0) {
    const Tensor ones = core::ones({1});
    dist::all_reduce(ones, {.group = group});
    if (ones.item<double>() != static_cast<double>(even.size())) throw std::runtime_error("group");
    if (dist::get_global_rank(group, dist::get_rank(group)) != rank) throw std::runtime_error("global rank");
  } else if (dist::get_rank(group) != -1) {
    throw std::runtime_error("has no part in it");
  }
  std::vector<Tensor> to;
  std::vector<Tensor> from;
  for (int q = 0; q < size; ++q) {
    from.push_back(core::full({q + 1}, rank * 100.0 + q));
    to.push_back(core::zeros({rank + 1}));
  }
  dist::all_to_all(to, from);
  for (int q = 0; q < size; ++q) {
    if (to[static_cast<std::size_t>(q)].to_vector<double>() !=
        std::vector<double>(static_cast<std::size_t>(rank) + 1, q * 100.0 + rank)) {
      throw std::runtime_error("all_to_all");
    }
  }
  dist::monitored_barrier();
  dist::barrier();
}

void let_one_rank_drift() {
  core::Linear net(3, 2);
  dist::DistributedDataParallel model(net);
  for (int step = 0; step <= 100; ++step) {
    if (dist::get_rank() == 1 && step == 50) net.bias.data_alias().add_(1e-6);
    core::sum(model(core::ones({1, 3}))).backward();
  }
}

/// Bytes of what all ranks' values become, of all lengths at which the sums take other ways.
void say_sums() {
  for (const std::int64_t n : {1, 3, 1000, 1025, 70'001, 1'000'003}) {
    for (const dist::ReduceOp op : {dist::ReduceOp::sum, dist::ReduceOp::min}) {
      core::manual_seed(100 * n + dist::get_rank());
      const Tensor values = core::randn({n}).mul_(core::exp(core::randn({n}).mul_(8)));
      if (n > 2) values[dist::get_rank() % n].fill_(std::numeric_limits<double>::quiet_NaN());
      const Tensor half = values.to(core::DType::bf16);
      const Tensor rooted = values.clone();
      dist::reduce(rooted, 0, {.op = op});
      dist::all_reduce(values, {.op = op});
      dist::all_reduce(half, {.op = op});
      std::string line = std::to_string(n);
      for (const Tensor& each : {values, half, rooted}) {
        if (each.impl() == rooted.impl() && dist::get_rank() != 0) continue;
        line += " " +
                test::sha256({static_cast<const std::byte*>(each.raw_data()), static_cast<std::size_t>(each.nbytes())});
      }
      test::say(line);
    }
  }
}

/// Both send before they receive, more than a socket or MPI keeps; and two messages overtake each other by their tags.
void exchange_messages() {
  const int other = 1 - dist::get_rank();
  const Tensor own = core::full({3'000'000}, dist::get_rank() + 1.0);
  const Tensor got = core::zeros({3'000'000});
  const dist::Work sent = dist::isend(own, other);
  dist::recv(got, other);
  sent.wait();
  if (got[2'999'999].item<double>() != other + 1) throw std::runtime_error("message");
  if (!test::rank_device().is_cpu()) return;  // NCCL has no tags
  const Tensor first = core::full({2}, 1.0);
  const Tensor second = core::full({2}, 2.0);
  if (dist::get_rank() == 0) {
    dist::send(first, 1, {.tag = 7});
    dist::send(second, 1, {.tag = 8});
  } else {
    const dist::Work later = dist::irecv(first, 0, {.tag = 8});
    dist::recv(second, 0, {.tag = 7});
    later.wait();
    if (first[0].item<double>() != 2 || second[0].item<double>() != 1) throw std::runtime_error("tags");
  }
}

/// What PyTorch's backend mpi says of lists that do not fit.
void say_words() {
  const Tensor two = core::zeros({2});
  const std::vector<std::function<void()>> wrong{
      [&] { dist::all_gather({two}, two); },
      [&] {
        dist::all_gather({core::zeros({3}), two}, two);
      },
      [&] { dist::gather(two, dist::get_rank() == 0 ? std::vector{two} : std::vector<Tensor>{}, 0); },
      [&] { dist::scatter(two, dist::get_rank() == 0 ? std::vector{two} : std::vector<Tensor>{}, 0); },
      [&] {
        dist::all_to_all({two}, {two, two});
      },
      [&] { dist::broadcast(two, 5); },
      [&] { dist::send(two, 1 - dist::get_rank(), {.tag = 1U << 30}); },
  };
  if (dist::get_rank() != 0) return;
  for (const auto& call : wrong) {
    try {
      call();
      test::say("nothing");
    } catch (const core::Error& error) {
      test::say(error.what());
    }
  }
}

void make_groups() {
  for (int i = 0; i < 200; ++i) {
    const dist::Group pair = dist::new_group(i % 2 == 0 ? std::vector{0, 1} : std::vector{2, 0});
    const Tensor ones = core::ones({1});
    if (dist::get_rank(pair) >= 0) dist::all_reduce(ones, {.group = pair});
    if (ones.item<double>() != (dist::get_rank(pair) >= 0 ? 2 : 1)) throw std::runtime_error("group");
  }
}

/// A message does not fit, and another one never comes; then the group is left.
void leave_after_an_error() {
  if (dist::get_rank() == 1) {
    dist::send(core::zeros({20}), 0, {.tag = 5});
    std::this_thread::sleep_for(seconds(6));
    return;
  }
  const dist::Work never = dist::irecv(core::zeros({10}), 1, {.tag = 9});
  try {
    dist::recv(core::zeros({10}), 1, {.tag = 5});
  } catch (const core::Error& error) {
    test::say(error.what());
  }
  const double begun = now();
  dist::destroy_process_group();
  test::say(now() - begun < 3 ? " left" : " left late");
}

/// Ends a child of its own, as programs do that fork.
void fork_a_child() {
  const pid_t child = ::fork();
  if (child == 0) std::exit(0);
  int status = -1;
  ::waitpid(child, &status, 0);
#ifndef __SANITIZE_ADDRESS__  // which takes for lost what threads pointed to that a child does not have
  if (status != 0) throw std::runtime_error("child");
#endif
  std::this_thread::sleep_for(milliseconds(500));
  dist::barrier();
}

/// No rank reads the memory of another one then: one does not want it, or the system forbids it, as Yama does.
void stay_far(const std::string& role) {
  if (role == "sums_far" && std::getenv("RANK") == std::string("1")) ::setenv("CORE_DIST_NEAR", "0", 1);
  if (role == "sums_refused") test::forbid_call(SYS_process_vm_readv, EPERM);
}

int run_rank(const std::string& role) {
  return dist::run_main([&] {
    if (role == "late") {
      const bool is_first = std::getenv("OMPI_COMM_WORLD_RANK") == std::string("0");
      if (!is_first) std::this_thread::sleep_for(seconds(8));
      try {
        dist::init_process_group({.backend = "mpi", .timeout = milliseconds(1500)});
      } catch (const core::Error& error) {
        test::say(error.what());
        throw;
      }
    }
    const bool is_brief = role == "hang" || role == "cut";
    const bool meets_by_mpi = role == "meets";
    stay_far(role);
    dist::init_process_group({.backend = meets_by_mpi ? "gloo" : test::default_backend(),
                              .init_method = meets_by_mpi ? "mpi://" : "env://",
                              .timeout = milliseconds(is_brief ? 1500 : 10'000)});
    if (!test::rank_device().is_cpu()) core::set_default_device(test::rank_device());
    try {
      if (role == "collectives") all_collectives();
      if (role == "cut") sum_until([] {});  // two_machines.sh
      if (role == "killed") sum_until([] { ::raise(SIGKILL); });
      if (role == "restarted") {  // launchers.sh: torchrun starts all again
        all_collectives();
        if (dist::get_rank() == 1 && std::getenv("TORCHELASTIC_RESTART_COUNT") == std::string("0")) ::raise(SIGKILL);
        all_collectives();
      }
      if (role == "exits" || meets_by_mpi) sum_until([] { std::exit(0); });
      if (role == "leaves") sum_until([] { dist::destroy_process_group(), std::exit(0); });
      if (role == "hang") sum_until([] { std::this_thread::sleep_for(seconds(6)), std::exit(0); });
      if (role == "throws") sum_until([] { throw core::Error(core::ErrorCode::value, "bad batch"); });
      if (role == "drift") let_one_rank_drift();
      if (role == "kept") test::keep_gradients();
      if (role == "sparse") test::train_sparse_as_dense();
      if (role == "power_join") test::join_with_power_sgd();
      if (role == "power_wrapped") test::wrap_power_sgd();
      if (role == "power_buckets") test::power_sgd_in_buckets();
      if (role == "static_join") test::join_static_graph();
      if (role.starts_with("sums")) say_sums();
      if (role == "messages") exchange_messages();
      if (role == "words") say_words();
      if (role == "groups") make_groups();
      if (role == "broken") leave_after_an_error();
      if (role == "forks") fork_a_child();
      if (role == "ends") {  // without destroy_process_group, and not all at once
        all_collectives();
        std::this_thread::sleep_for(milliseconds(500 * dist::get_rank()));
        std::exit(0);
      }
      if (role == "exit_beside") sum_until([] { std::exit(7); });
    } catch (const std::exception& error) {
      test::say("time " + std::to_string(now()));
      test::say(error.what());
      throw;
    }
    test::say("done");
    return 0;
  });
}

struct Told {
  double time = 0;
  std::string text;
};
Told told(const test::Ending& ending) {
  Told found;
  std::istringstream lines(ending.report);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("time ")) {
      found.time = std::stod(line.substr(5));
    } else {
      found.text += line;
    }
  }
  return found;
}

class Groups : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string missing;
    if (!test::has_backend(GetParam(), &missing)) GTEST_SKIP() << missing;
  }
  static bool is_mpi() { return GetParam() == std::string("mpi"); }
  static bool is_nccl() { return GetParam() == std::string("nccl"); }
  static std::vector<test::Ending> run(test::RanksOptions options) {
    options.backend = GetParam();
    if (is_nccl()) options.environment.emplace("CKPT_FAKE_GPUS", std::to_string(options.size));
    return test::run_ranks(options);
  }
  void expect_named(const std::string& role, const std::string& pattern, int status_of_rank_1);
  void expect_named(const std::string& role, const std::string& pattern, int status_of_rank_1,
                    const std::map<std::string, std::string>& environment);
};
INSTANTIATE_TEST_SUITE_P(Over, Groups, testing::Values("gloo", "mpi", "nccl"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Groups, ComputeTogetherWithAnyNumberOfRanks) {
  for (const int size : {1, 2, 3, 4, 7}) {
    for (const test::Ending& ending : run({.role = "collectives", .size = size})) {
      EXPECT_EQ(ending.status, 0) << size << " " << ending.report << ending.errors;
    }
  }
}

TEST_P(Groups, MayHaveManyRanks) {
  if (is_nccl()) GTEST_SKIP() << "the simulated NCCL has a thread for every pair";
  for (const test::Ending& ending : run({.role = "collectives", .size = 64})) {
    EXPECT_EQ(ending.status, 0) << ending.report << ending.errors;
  }
}

TEST_P(Groups, MeetInAFileToo) {
  if (is_mpi()) GTEST_SKIP() << "they meet in MPI";
  if (is_nccl()) GTEST_SKIP() << "it is the backend gloo that meets there";
  // The environment says nothing of an address then.
  const test::TempDir folder;
  for (const test::Ending& ending : run({.role = "file",
                                    .arguments = {(folder.path() / "store").string()},
                                    .size = 3,
                                    .environment = {{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}}})) {
    EXPECT_EQ(ending.status, 0) << ending.report << ending.errors;
  }
  EXPECT_TRUE(test::list_folder(folder.path()).empty());
}

/// Every other rank names rank 1 in one sentence, within a second; Gloo's by the sockets between them, too.
void Groups::expect_named(const std::string& role, const std::string& pattern, int status_of_rank_1) {
  expect_named(role, pattern, status_of_rank_1, {});
  if (GetParam() == std::string("gloo")) expect_named(role, pattern, status_of_rank_1, {{"CORE_DIST_NEAR", "0"}});
}

void Groups::expect_named(const std::string& role, const std::string& pattern, int status_of_rank_1,
                          const std::map<std::string, std::string>& environment) {
  const std::vector<test::Ending> endings =
      run({.role = role, .size = 3, .environment = environment, .limit = seconds(40)});
  const double ended = told(endings[1]).time;
  if (!is_mpi()) {  // mpirun has one status for all
    EXPECT_EQ(endings[1].status, status_of_rank_1);
  }
  for (const int rank : {0, 2}) {
    const test::Ending& ending = endings[static_cast<std::size_t>(rank)];
    EXPECT_FALSE(ending.timed_out);
    EXPECT_THAT(told(ending).text,
                MatchesRegex("rank " + std::to_string(rank) +
                             " of 3: all_reduce number [0-9]+ \\(float32, 3\\.9 KiB\\): " + pattern));
    EXPECT_LT(told(ending).time - ended, 1.5);
    if (is_mpi()) continue;
    EXPECT_EQ(ending.status, 1) << ending.errors;
    EXPECT_EQ(std::count(ending.errors.begin(), ending.errors.end(), '\n'), 1) << ending.errors;
  }
}

TEST_P(Groups, NameARankThatIsKilled) {
  expect_named("killed", "rank 1 \\(.+, process [0-9]+\\) is gone", -SIGKILL);
}
TEST_P(Groups, NameARankThatExits) {
  expect_named("exits", "rank 1 \\(.+, process [0-9]+\\) is gone", 0);
  expect_named("exit_beside", "rank 1 \\(.+, process [0-9]+\\) is gone", 7);
}
TEST_P(Groups, NameARankThatLeaves) {
  expect_named("leaves", "rank 1 \\(.+, process [0-9]+\\) has left: it called destroy_process_group", 0);
}
TEST_P(Groups, SayWhatARankThrewThatFailedFirst) {
  expect_named("throws", "rank 1 failed first: ValueError: bad batch", 1);
}

TEST_P(Groups, NameARankThatDoesNotCome) {
  const std::vector<test::Ending> endings = run({.role = "hang", .size = 2, .limit = seconds(40)});
  EXPECT_THAT(told(endings[0]).text,
              MatchesRegex("rank 0 of 2: all_reduce number 3 \\(float32, 3\\.9 KiB\\): Timed out waiting "
                           "1500ms: rank 1 \\(.+\\) has not called it, or cannot be reached"));
}

TEST_P(Groups, TellTorchrunWhatWentWrong) {
  const test::TempDir folder;
  const auto file = folder.path() / "error.json";
  run({.role = "throws", .size = 2, .environment = {{"TORCHELASTIC_ERROR_FILE", file.string()}}});
  EXPECT_THAT(test::read_file(file), HasSubstr("ValueError: bad batch"));
  test::write_file(file, "the first error");  // stays
  run({.role = "throws", .size = 2, .environment = {{"TORCHELASTIC_ERROR_FILE", file.string()}}});
  EXPECT_EQ(test::read_file(file), "the first error");
}

TEST_P(Groups, ExchangeMessages) {
  for (const test::Ending& ending : run({.role = "messages", .size = 2})) {
    EXPECT_EQ(told(ending).text, "done") << ending.errors;
  }
}

TEST_P(Groups, FindARankWhoseParametersDiffer) {
  const std::vector<test::Ending> endings =
      run({.role = "drift", .size = 2, .environment = {{"CORE_DIST_CHECK", "1"}}});
  for (const test::Ending& ending : endings) {
    EXPECT_THAT(told(ending).text, HasSubstr("rank 1 has other values than rank 0 in bias at step 100"));
  }
  for (const test::Ending& ending : run({.role = "drift", .size = 2})) EXPECT_EQ(told(ending).text, "done");
}

TEST_P(Groups, GiveGradientsThatMayBeKept) {
  if (is_nccl()) GTEST_SKIP() << "gradients on GPUs are copied";
  for (const test::Ending& ending : run({.role = "kept", .size = 2})) {
    EXPECT_EQ(told(ending).text, "done") << ending.errors;
  }
}

TEST_P(Groups, TrainSparseTablesAsDenseOnes) {
  if (is_nccl()) GTEST_SKIP() << "NCCL sums no sparse tensors";
  for (const test::Ending& ending : run({.role = "sparse", .size = 3})) {
    EXPECT_EQ(told(ending).text, "done") << ending.errors;
  }
}

TEST_P(Groups, GoOnWithPowerSGDWhereARankHasNoMoreBatches) {
  for (const test::Ending& ending : run({.role = "power_join", .size = 3})) {
    EXPECT_EQ(told(ending).text, "done") << ending.errors;
  }
}

TEST_P(Groups, CompressTwiceWithAHookAroundPowerSGD) {
  for (const test::Ending& ending : run({.role = "power_wrapped", .size = 2})) {
    EXPECT_EQ(told(ending).text, "done") << ending.errors;
  }
}

/// Where PyTorch waits for ever over Gloo.
TEST_P(Groups, CompressSeveralBucketsWithPowerSGD) {
  for (const test::Ending& ending : run({.role = "power_buckets", .size = 3})) {
    EXPECT_EQ(told(ending).text, "done") << ending.errors;
  }
}

TEST_P(Groups, JoinWithAStaticGraphAndARankWithoutABatch) {
  for (const test::Ending& ending : run({.role = "static_join", .size = 3})) {
    EXPECT_EQ(told(ending).text, "done") << ending.errors;
  }
}

TEST(Gloo, HasTheSameBitsThroughMemoryAndThroughSockets) {
  std::string missing;
  if (!test::has_backend("gloo", &missing)) GTEST_SKIP() << missing;
  for (const int size : {2, 3, 4}) {
    const std::vector<test::Ending> near = test::run_ranks({.role = "sums", .size = size, .backend = "gloo"});
    const std::vector<test::Ending> by_sockets =
        test::run_ranks({.role = "sums", .size = size, .environment = {{"CORE_DIST_NEAR", "0"}}, .backend = "gloo"});
    const std::vector<test::Ending> by_choice = test::run_ranks({.role = "sums_far", .size = size, .backend = "gloo"});
    const std::vector<test::Ending> refused =
        test::run_ranks({.role = "sums_refused", .size = size, .backend = "gloo"});
    for (std::size_t rank = 0; rank < near.size(); ++rank) {
      EXPECT_EQ(near[rank].report, by_sockets[rank].report) << near[rank].errors;
      EXPECT_EQ(near[rank].report, by_choice[rank].report) << by_choice[rank].errors;
      EXPECT_EQ(near[rank].report, refused[rank].report) << refused[rank].errors;
      EXPECT_THAT(near[rank].report, testing::EndsWith("done\n"));
    }
  }
}

/// Where both backends are.
TEST(Mpi, HasTheBitsOfGlooAtAnyNumberOfRanks) {
  std::string missing;
  if (!test::has_backend("gloo", &missing) || !test::has_backend("mpi", &missing)) GTEST_SKIP() << missing;
  for (const int size : {1, 2, 3, 4, 5}) {
    const std::vector<test::Ending> by_gloo = test::run_ranks({.role = "sums", .size = size, .backend = "gloo"});
    const std::vector<test::Ending> by_mpi = test::run_ranks({.role = "sums", .size = size, .backend = "mpi"});
    for (std::size_t rank = 0; rank < by_mpi.size(); ++rank) {
      EXPECT_EQ(by_mpi[rank].report, by_gloo[rank].report) << "rank " << rank << " of " << size << by_mpi[rank].errors;
      EXPECT_THAT(by_mpi[rank].report, testing::EndsWith("done\n"));
    }
  }
}

TEST(Mpi, SaysOfListsThatDoNotFitWhatPyTorchDoes) {
  std::string missing;
  if (!test::has_backend("mpi", &missing)) GTEST_SKIP() << missing;
  const std::string said = test::run_ranks({.role = "words", .size = 2, .backend = "mpi"})[0].report;
  EXPECT_EQ(said,
            "All gather: number of output tensors should equal to the world size\n"
            "Tensors are not equal in size or data type\n"
            "Gather: number of output tensors should equal to the world size\n"
            "Scatter: number of input tensors should equal to the world size\n"
            "Number of output tensors are not equal to group size\n"
            "ProcessGroupMPI::broadcast: invalid root rank: 5\n"
            "tag 1073741824 is larger than the backend mpi allows: 1073741823\n"
            "done\n");
}

TEST(Mpi, IsLeftAtOnceAfterAnError) {
  std::string missing;
  if (!test::has_backend("mpi", &missing)) GTEST_SKIP() << missing;
  const test::Ending ending = test::run_ranks({.role = "broken", .size = 2, .backend = "mpi"})[0];
  EXPECT_THAT(told(ending).text, MatchesRegex(".*message truncated.* leftdone")) << ending.errors;
}

TEST(Mpi, IsNotEndedByAChildOfTheProcess) {
  std::string missing;
  if (!test::has_backend("mpi", &missing)) GTEST_SKIP() << missing;
  for (const test::Ending& ending : test::run_ranks({.role = "forks", .size = 2, .backend = "mpi"})) {
    EXPECT_EQ(told(ending).text, "done");
    EXPECT_THAT(ending.errors, testing::Not(HasSubstr("MPI has not come to its end")));
  }
}

TEST(Mpi, WhereGlooMeetsByItNamesARankThatExits) {
  std::string missing;
  if (!test::has_backend("gloo", &missing) || !test::has_backend("mpi", &missing)) GTEST_SKIP() << missing;
  const std::vector<test::Ending> endings =
      test::run_ranks({.role = "meets", .size = 2, .limit = seconds(40), .backend = "mpi"});
  EXPECT_THAT(told(endings[0]).text, MatchesRegex("rank 0 of 2: all_reduce number .* is gone")) << endings[0].errors;
  EXPECT_LT(told(endings[0]).time - told(endings[1]).time, 3);
}

TEST(Mpi, DoesNotWaitForEverForARankThatNeverBegins) {
  std::string missing;
  if (!test::has_backend("mpi", &missing)) GTEST_SKIP() << missing;
  const auto begun = std::chrono::steady_clock::now();
  const test::Ending ending = test::run_ranks({.role = "late", .size = 2, .limit = seconds(30), .backend = "mpi"})[0];
  EXPECT_EQ(told(ending).text, "Timed out after 1 seconds in MPI_Init_thread: not all processes have called it")
      << ending.errors;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(25));
}

TEST(Mpi, MakesAndEndsManyGroups) {
  std::string missing;
  if (!test::has_backend("mpi", &missing)) GTEST_SKIP() << missing;
  for (const test::Ending& ending : test::run_ranks({.role = "groups", .size = 3, .backend = "mpi"})) {
    EXPECT_EQ(told(ending).text, "done") << ending.errors;
  }
}

TEST(Mpi, SaysWhatIsMissing) {
  // The ranks are started one by one, as torchrun does it: with MPI, each is alone.
  const auto said = [](std::map<std::string, std::string> more) {
    more["CKPT_TEST_BACKEND"] = "mpi";
    return test::run_ranks({.role = "collectives", .size = 2, .environment = std::move(more), .backend = "gloo"})[0]
        .errors;
  };
  EXPECT_THAT(said({{"CKPT_DIST_MPI", "/nowhere/libckpt_dist_mpi.so"}}),
              HasSubstr("Distributed package doesn't have MPI built in."));
  std::string missing;
  if (!test::has_backend("mpi", &missing)) GTEST_SKIP() << missing;
  EXPECT_THAT(said({}),
              HasSubstr("the backend mpi needs processes that mpirun started (Debian package: openmpi-bin): MPI "
                        "knows of one process, where the launcher says that there are 2"));
}

TEST(CommFuture, MakesItsTensorOnceHoweverOftenItIsAskedFor) {
  const dist::CommFuture doubled =
      dist::CommFuture(core::ones({2})).then([](const Tensor& value) { return value.mul_(2); });
  const dist::CommFuture again = doubled.then([](const Tensor& value) { return value.mul_(5); });
  EXPECT_EQ(doubled.wait()[0].item<float>(), 2);
  EXPECT_EQ(doubled.wait()[0].item<float>(), 2);
  EXPECT_EQ(again.wait()[0].item<float>(), 10);
  EXPECT_EQ(again.wait()[0].item<float>(), 10);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = test::rank_role(argc, argv);
  const test::RankGpus gpus;
  if (role == "file") {
    return dist::run_main([&] {
      dist::init_process_group({.init_method = "file://" + test::rank_argument(argc, argv, 0)});
      all_collectives();
      return 0;
    });
  }
  if (!role.empty()) return run_rank(role);
  if (argc == 3 && argv[1] == std::string("--has")) return test::has_backend(argv[2]) ? 0 : 1;  // launchers.sh
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
