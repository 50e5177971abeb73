// The backend nccl, between processes with simulated GPUs and a simulated NCCL (rank_gpus.h): what no other backend
// has, and how it fails. What all backends do is group_test's. This program starts itself as the ranks.
#include <gmock/gmock.h>
#include <signal.h>

#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/nccl_rank.h"
#include "libcore/backend/streams.h"
#include "libcore/base/error.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "tests/libcore/dist/rank_gpus.h"
#include "tests/libcore/dist/ranks.h"
#include "tests/support/message_of.h"

namespace {

namespace dist = core::distributed;
using core::Device;
using core::DType;
using core::Tensor;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

// --- Ranks

void begin(const std::string& backend = "nccl", milliseconds timeout = seconds(20)) {
  dist::init_process_group({.backend = backend, .timeout = timeout});
}
Tensor here(const Tensor& tensor) {
  return tensor.to(test::rank_device());
}
std::vector<double> values(const Tensor& tensor) {
  return tensor.cpu().to_vector<double>();
}
std::string text_of(const Tensor& tensor) {
  std::ostringstream text;
  for (const double value : values(tensor)) text << (text.tellp() == 0 ? "" : " ") << value;
  return text.str();
}
/// What the call says when it fails.
void say_error(const std::function<void()>& call) {
  try {
    call();
    test::say("nothing");
  } catch (const core::Error& error) {
    test::say(std::string(core::python_name(error.code())) + ": " + error.what());
  }
}

void reduce_in_every_way() {
  begin();
  const double rank = dist::get_rank();
  const auto sum = [&](DType dtype, dist::ReduceOp op, double factor = 1) {
    const Tensor tensor = here(core::full({2}, rank + 2, {.dtype = dtype}));
    dist::all_reduce(tensor, {.op = op, .factor = factor});
    test::say(text_of(tensor));
  };
  sum(DType::f32, dist::ReduceOp::avg);
  sum(DType::bf16, dist::ReduceOp::avg);
  sum(DType::i32, dist::ReduceOp::avg);
  sum(DType::f16, dist::ReduceOp::product);
  sum(DType::f64, dist::ReduceOp::premul_sum, 0.5);
  const Tensor flags = here(core::tensor({rank == 0 ? 1.0 : 0.0, 0.0}).to(DType::boolean));
  dist::all_reduce(flags);
  test::say(text_of(flags.to(DType::f32)));
  const Tensor complex = here(core::full({1}, rank + 1).to(DType::c64));
  dist::all_reduce(complex);
  test::say(std::to_string(static_cast<int>(complex.cpu().to(DType::f32).item<double>())));
}

void refuse() {
  begin();
  say_error([] { dist::all_reduce(core::ones({2})); });
  say_error([] { dist::broadcast(core::ones({2}), 0); });
  say_error([] { dist::all_reduce(here(core::ones({2}, {.dtype = DType::i32})), {.op = dist::ReduceOp::bor}); });
  say_error([] { dist::all_reduce(here(core::zeros({2}, {.dtype = DType::boolean})), {.op = dist::ReduceOp::avg}); });
  say_error([] { dist::broadcast(here(core::ones({2}, {.dtype = DType::i16})), 0); });
  say_error([] {
    dist::all_reduce(here(core::ones({2}, {.dtype = DType::i32})), {.op = dist::ReduceOp::premul_sum, .factor = 2});
  });
  say_error([] { dist::all_gather({here(core::ones({2}))}, here(core::ones({2}))); });
}

/// Parts of other sizes from each rank; what is no whole block in memory; nothing at all.
void gather_uneven() {
  begin();
  const int rank = dist::get_rank();
  std::vector<Tensor> outputs;
  for (int q = 0; q < dist::get_world_size(); ++q) outputs.push_back(here(core::zeros({q})));
  dist::all_gather(outputs, here(core::full({rank}, rank + 1.0)));
  for (const Tensor& output : outputs) test::say(text_of(output));
  const Tensor turned = here(core::arange(0, 6).to(DType::f32)).view({2, 3}).t();
  dist::all_reduce(turned);
  test::say(text_of(turned));
}

void take_each_its_own_device() {
  begin("cpu:gloo,cuda:nccl");
  test::say(dist::get_backend());
  const Tensor on_cpu = core::ones({1});
  const Tensor on_gpu = here(core::ones({1}));
  const dist::Work first = dist::all_reduce(on_cpu, {.async_op = true});
  dist::all_reduce(on_gpu);
  first.wait();
  test::say(text_of(on_cpu) + " " + text_of(on_gpu) + " " + on_gpu.device().str());
  test::say(dist::broadcast_object("word", 0));
  test::say(dist::default_group()->own_device().str());
}

/// Without a backend: NCCL for GPUs, where each rank has one.
void choose() {
  begin("");
  const Tensor on_cpu = core::ones({1});
  const Tensor on_gpu = here(core::ones({1}));
  dist::all_reduce(on_cpu);
  dist::all_reduce(on_gpu);
  test::say(text_of(on_cpu) + " " + text_of(on_gpu));
  test::say(dist::default_group()->exchanges_on(on_gpu.device()) ? "nccl" : "gloo");
}

/// Each the backend that the environment gives it; "-": none.
void choose_by_name() {
  const std::string both = std::getenv("CKPT_BACKENDS");
  const std::string mine =
      std::getenv("RANK") == std::string("0") ? both.substr(0, both.find(' ')) : both.substr(both.find(' ') + 1);
  say_error([&] {
    begin(mine == "-" ? "" : mine);
    test::say(dist::default_group()->exchanges_on(test::rank_device()) ? "nccl" : "gloo");
  });
}

/// Work of the caller's stream that has not been done yet comes before; what follows comes after.
void come_in_order() {
  begin();
  const core::cuda::Stream side(test::rank_device());
  const core::cuda::StreamGuard guard(side);
  for (int step = 0; step < 3; ++step) {
    const Tensor pinned = core::pin_memory(core::full({5}, step + dist::get_rank() + 1.0));
    const Tensor tensor = pinned.to({.device = test::rank_device(), .non_blocking = true});
    const dist::Work work = dist::all_reduce(tensor, {.async_op = true});
    work.wait();
    test::say(text_of(tensor));
  }
}

/// Many at once, and both ways.
void send_before_receiving() {
  begin();
  const int rank = dist::get_rank();
  const int size = dist::get_world_size();
  std::vector<dist::Work> works;
  std::vector<Tensor> got;
  for (int q = 0; q < size; ++q) {
    for (int n = 0; q != rank && n < 3; ++n) works.push_back(dist::isend(here(core::full({2}, 10.0 * rank + n)), q));
  }
  for (int q = 0; q < size; ++q) {
    for (int n = 0; q != rank && n < 3; ++n) {
      got.push_back(here(core::zeros({2})));
      works.push_back(dist::irecv(got.back(), q));
    }
  }
  for (const dist::Work& work : works) work.wait();
  std::string all;
  for (const Tensor& tensor : got) all += std::to_string(static_cast<int>(values(tensor)[1])) + " ";
  test::say(all);
}

void use_and_leave() {
  begin();
  test::say("alive " + std::to_string(test::nccl_communicators_alive()));
  dist::all_reduce(here(core::ones({1})));
  const dist::Group pair = dist::new_group({0, 1});
  test::say("alive " + std::to_string(test::nccl_communicators_alive()));
  dist::all_reduce(here(core::ones({1})), {.group = pair});
  test::say("alive " + std::to_string(test::nccl_communicators_alive()));
  dist::barrier();
  dist::destroy_process_group();
}

/// One rank does not come; afterwards the group is of no use, and its communicator aborted.
void time_out() {
  begin("nccl", milliseconds(1500));
  dist::all_reduce(here(core::ones({1})));
  if (dist::get_rank() == 1) return std::this_thread::sleep_for(seconds(4));
  say_error([] { dist::all_reduce(here(core::ones({1}))); });
  say_error([] { dist::all_reduce(here(core::ones({1}))); });
  test::say("aborted " + std::to_string(test::nccl_communicators_aborted()));
}

/// A rank that is gone is said by NCCL itself, before its number is known.
void see_an_end() {
  test::let_nccl_see_ends();
  begin();
  dist::all_reduce(here(core::ones({1})));
  // Not while the other is about to ask what became of the first.
  if (dist::get_rank() == 0) dist::default_group()->store().set("seen", "");
  dist::default_group()->store().wait({"seen"});
  if (dist::get_rank() == 1) ::raise(SIGKILL);
  say_error([] { dist::all_reduce(here(core::ones({1}))); });
  test::say("aborted " + std::to_string(test::nccl_communicators_aborted()));
}

void fit_in_no_message() {
  begin("nccl", milliseconds(1500));
  if (dist::get_rank() == 0) {
    say_error([] { dist::send(here(core::ones({2})), 1); });
  } else {
    say_error([] { dist::recv(here(core::ones({3})), 0); });
  }
}

/// One of both in host memory, of which NCCL knows nothing.
void lie_apart() {
  begin("cpu:gloo,cuda:nccl");
  const Tensor two = core::ones({2});
  const Tensor four = core::ones({4});
  say_error([&] { dist::all_gather_into_tensor(four, here(two)); });
  say_error([&] { dist::all_gather_into_tensor(here(four), two); });
  say_error([&] { dist::reduce_scatter_tensor(two, here(four)); });
  say_error([&] { dist::reduce_scatter_tensor(here(two), four); });
  say_error([&] { dist::all_to_all_single(four, here(four)); });
  say_error([&] { dist::all_to_all_single(here(four), four); });
}

/// What a rank sends to itself has no room: neither copied behind the end, nor waited for.
void send_itself_too_much() {
  begin("cpu:gloo,cuda:nccl");
  const int rank = dist::get_rank();
  const std::vector<std::int64_t> in = rank == 0 ? std::vector<std::int64_t>{2, 0} : std::vector<std::int64_t>{1, 1};
  const std::vector<std::int64_t> out{1, 1};
  const auto exchange = [&](const Tensor& to, const Tensor& from) {
    dist::all_to_all_single(to, from, {.output_split_sizes = out, .input_split_sizes = in});
  };
  if (rank == 1) return;
  say_error([&] { exchange(core::zeros({2}), core::ones({2})); });
  say_error([&] { exchange(here(core::zeros({2})), here(core::ones({2}))); });
  say_error([&] { dist::all_to_all({core::zeros({1}), core::zeros({1})}, {core::ones({3}), core::ones({1})}); });
}

/// As many elements in another shape, which NCCL would add up.
void differ_in_shape() {
  begin();
  say_error([] { dist::all_reduce(here(core::ones({2 + dist::get_rank(), 3 - dist::get_rank()}))); });
}

const std::map<std::string, void (*)()>& roles() {
  static const std::map<std::string, void (*)()> all{
      {"begin", [] { begin(); }},
      {"reduce", reduce_in_every_way},
      {"refuse", refuse},
      {"uneven", gather_uneven},
      {"both", take_each_its_own_device},
      {"choose", choose},
      {"name", choose_by_name},
      {"order", come_in_order},
      {"messages", send_before_receiving},
      {"leave", use_and_leave},
      {"time_out", time_out},
      {"end", see_an_end},
      {"unfit", fit_in_no_message},
      {"apart", lie_apart},
      {"itself", send_itself_too_much},
      {"shapes", differ_in_shape},
      {"join", [] { begin(), dist::all_reduce(here(core::ones({1}))); }},
      {"pairs",
       [] {
         say_error([] { begin("cpu:gloo,cuda"); });
         say_error([] { begin("cpu:gloo,cpu:nccl"); });
       }},
  };
  return all;
}

int run_rank(const std::string& role) {
  return dist::run_main([&] {
    roles().at(role)();
    test::say("done");
    return 0;
  });
}

// --- What they are like

std::vector<test::Ending> run(const std::string& role, int size,
                              const std::map<std::string, std::string>& environment = {}) {
  test::RanksOptions options{.role = role, .size = size, .environment = environment, .limit = seconds(60)};
  options.backend = "nccl";
  options.environment.emplace("CKPT_FAKE_GPUS", std::to_string(size));
  return test::run_ranks(options);
}
void expect_all(const std::vector<test::Ending>& endings, const std::string& report) {
  for (const test::Ending& ending : endings) {
    EXPECT_EQ(ending.report, report + "done\n") << ending.errors;
    EXPECT_EQ(ending.status, 0) << ending.errors;
  }
}

TEST(Nccl, ReducesAsPyTorchDoes) {
  // Of 2 and 3: means, a mean of whole numbers, a product, half of the sum; or; a complex sum.
  expect_all(run("reduce", 2), "2.5 2.5\n2.5 2.5\n2 2\n6 6\n2.5 2.5\n1 0\n3\n");
}

TEST(Nccl, RefusesWhatItDoesNotHaveInPyTorchsWords) {
  expect_all(run("refuse", 2),
             "RuntimeError: No backend type associated with device type cpu\n"
             "RuntimeError: No backend type associated with device type cpu\n"
             "ValueError: Cannot use ReduceOp.BOR with NCCL\n"
             "TypeError: Cannot use ReduceOp.AVG with Boolean inputs\n"
             "TypeError: Input tensor data type is not supported for NCCL process group: Short\n"
             "ValueError: PreMulSum Data type must be half, float, bfloat16 or double\n"
             "ValueError: Tensor list input to scatter/gather must match number of collective participants\n");
}

TEST(Nccl, GathersPartsOfOtherSizes) {
  expect_all(run("uneven", 3), "\n2\n3 3\n0 9 3 12 6 15\n");
}

TEST(Nccl, StandsBesideGloo) {
  const std::vector<test::Ending> endings = run("both", 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(endings[rank].report, "cpu:gloo,cuda:nccl\n2 2 cuda:" + std::to_string(rank) + "\nword\ncpu\ndone\n")
        << endings[rank].errors;
  }
}

// Rank 0 serves the store: it does not end before the others have met there. Without that some of these runs fail.
TEST(Nccl, RanksMayEndAtOnce) {
  for (int i = 0; i < 25; ++i) expect_all(run("begin", 3), "");
}

TEST(Nccl, IsChosenWhereEachRankHasAGpu) {
  expect_all(run("choose", 2), "2 2\nnccl\n");
  expect_all(run("choose", 2, {{"CKPT_FAKE_GPUS", "1"}, {"LOCAL_WORLD_SIZE", "2"}}), "2 2\ngloo\n");
  expect_all(run("choose", 2, {{"CKPT_FAKE_GPUS", "1"}}), "2 2\ngloo\n");  // started without a launcher
  expect_all(run("choose", 2, {{"CKPT_FAKE_NCCL", "none"}}), "2 2\ngloo\n");
}

TEST(Nccl, IsNotChosenWhereOnlySomeRanksHaveAGpu) {
  const auto choose_with = [](std::map<std::string, std::string> environment) {
    environment["LOCAL_WORLD_SIZE"] = "2";
    const std::vector<test::Ending> endings = run("choose", 2, environment);
    expect_all(endings, "2 2\ngloo\n");
    EXPECT_EQ(endings[1].errors, "");
    return endings[0].errors;
  };
  const std::string start =
      ".*tensors on GPUs go through the memory of the host, as not all ranks can use nccl: rank [01] \\(.+, process "
      "[0-9]+\\) takes gloo, ";
  const std::string able = "and nccl for GPUs, as none was named";
  const std::string next = "; rank 1 \\(.+, process [0-9]+\\) takes gloo, ";
  const auto unable = [](const std::string& why) {
    return "as none was named and nccl cannot be used \\(" + why + "\\)";
  };
  const std::string few = unable("1 GPU for 2 processes of this machine");
  EXPECT_THAT(choose_with({{"CKPT_FAKE_GPUS", "2,1"}}), MatchesRegex(start + able + next + few + "\n"));
  EXPECT_THAT(choose_with({{"CKPT_FAKE_GPUS", "1,2"}}), MatchesRegex(start + few + next + able + "\n"));
  EXPECT_THAT(choose_with({{"CKPT_FAKE_NCCL", "yes,none"}}),
              MatchesRegex(start + able + next + unable("Distributed package doesn't have NCCL built in: .*") + "\n"));
}

TEST(Nccl, IsWantedByAllRanksOrByNone) {
  const auto said = [](const std::string& backends, const std::string& gpus = "2") {
    const std::vector<test::Ending> endings =
        run("name", 2, {{"CKPT_BACKENDS", backends}, {"CKPT_FAKE_GPUS", gpus}, {"LOCAL_WORLD_SIZE", "2"}});
    EXPECT_EQ(endings[0].report, endings[1].report) << endings[0].errors << endings[1].errors;
    return endings[0].report;
  };
  const auto refused = [](const std::string& first, const std::string& second) {
    const std::string rank = "\\(.+, process [0-9]+\\) takes ";
    return MatchesRegex("RuntimeError: the ranks do not take the same backend, .+: rank 0 " + rank + first +
                        "; rank 1 " + rank + second +
                        "; name one in init_process_group, the same on all ranks\ndone\n");
  };
  EXPECT_THAT(said("gloo nccl"), refused("gloo", "nccl"));
  EXPECT_THAT(said("- nccl"), refused("gloo, and nccl for GPUs, as none was named", "nccl"));
  EXPECT_THAT(said("cpu:gloo,cuda:nccl -", "2,1"), refused("cpu:gloo,cuda:nccl", "gloo, as none was named and .+"));
  EXPECT_EQ(said("cpu:gloo,cuda:nccl cuda:nccl,cpu:gloo"), "nccl\nnothing\ndone\n");
  EXPECT_EQ(said("- cpu:gloo,cuda:nccl"), "nccl\nnothing\ndone\n");
  EXPECT_EQ(said("gloo -"), "gloo\nnothing\ndone\n");
}

/// Where only one machine lacks what the named backend needs, all hear of it, and nobody waits for that rank.
TEST(Nccl, IsRefusedOnAllRanksWhereOneCannotUseIt) {
  const auto begun = std::chrono::steady_clock::now();
  const auto said = [](const std::string& backends) {
    const std::vector<test::Ending> endings =
        run("name", 3, {{"CKPT_BACKENDS", backends}, {"CKPT_FAKE_GPUS", "3"}, {"CKPT_FAKE_NCCL", "yes,none,none"}});
    for (const test::Ending& ending : endings) EXPECT_EQ(ending.report, endings[0].report) << ending.errors;
    return endings[0].report;
  };
  const auto refused = MatchesRegex(
      "RuntimeError: the backend nccl is named, which not all ranks can use: rank 1 \\(.+, process [0-9]+\\), rank 2 "
      "\\(.+, process [0-9]+\\): Distributed package doesn't have NCCL built in: libnccl.so.2 cannot be loaded; "
      "install the package libnccl2\ndone\n");
  EXPECT_THAT(said("nccl nccl"), refused);
  EXPECT_THAT(said("nccl cpu:gloo,cuda:nccl"), refused);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(15));
}

TEST(Nccl, ComesAfterWhatTheCallersStreamStillHasToDo) {
  expect_all(run("order", 2, {{"CKPT_FAKE_STREAMS", "lazy"}}), "3 3 3 3 3\n5 5 5 5 5\n7 7 7 7 7\n");
}

TEST(Nccl, SendsToManyBeforeItReceives) {
  const std::vector<test::Ending> endings = run("messages", 3);
  EXPECT_EQ(endings[0].report, "10 11 12 20 21 22 \ndone\n") << endings[0].errors;
  EXPECT_EQ(endings[1].report, "0 1 2 20 21 22 \ndone\n") << endings[1].errors;
  EXPECT_EQ(endings[2].report, "0 1 2 10 11 12 \ndone\n") << endings[2].errors;
}

TEST(Nccl, MakesCommunicatorsWhenTheyAreNeeded) {
  expect_all(run("leave", 2), "alive 0\nalive 1\nalive 2\n");
}

TEST(Nccl, AbortsWhatTakesTooLong) {
  const test::Ending first = run("time_out", 2)[0];
  EXPECT_THAT(first.report,
              MatchesRegex("RuntimeError: rank 0 of 2: all_reduce number 1 \\(float32, 4 B\\): Timed out waiting "
                           "1500ms: rank 1 \\(.+, process [0-9]+\\) has not called it, or cannot be reached\n"
                           "RuntimeError: rank 0 of 2: all_reduce number 2 .*: the group works no more since an error: "
                           ".*\naborted 1\ndone\n"));
}

TEST(Nccl, NamesTheRankWhoseEndItWasToldOf) {
  const test::Ending first = run("end", 2)[0];
  EXPECT_THAT(first.report, MatchesRegex("RuntimeError: rank 0 of 2: all_reduce number 1 \\(float32, 4 B\\): rank 1 "
                                         "\\(.+, process [0-9]+\\) is gone\naborted 1\ndone\n"));
}

TEST(Nccl, LetsNoMessageInThatDoesNotFit) {
  std::string all;
  for (const test::Ending& ending : run("unfit", 2)) {
    EXPECT_THAT(ending.report, StartsWith("RuntimeError: rank ")) << ending.errors;
    all += ending.report;
  }
  // The other may be told first that this one has left.
  EXPECT_THAT(all, HasSubstr(": the message has 8 bytes where it is sent and 12 where it is received\n"));
}

TEST(Nccl, RefusesTensorsOfTwoDevices) {
  const test::Ending first = run("apart", 2)[0];
  const std::string start = "ValueError: Tensors must be CUDA and dense, on one GPU: the output is on ";
  const std::string on_cpu = start + "cpu and the input on cuda:0\n";
  const std::string on_gpu = start + "cuda:0 and the input on cpu\n";
  EXPECT_EQ(first.report, on_cpu + on_gpu + on_cpu + on_gpu + on_cpu + on_gpu + "done\n") << first.errors;
}

TEST(Nccl, SendsARankNoMoreThanItHasRoomFor) {
  const test::Ending first = run("itself", 2)[0];
  const std::string end = " of them: inLengthPerRank[myRank] == outLengthPerRank[myRank]\n";
  const std::string start = "RuntimeError: rank 0 sends itself ";
  EXPECT_EQ(first.report, start + "8 bytes, and has room for 4" + end + start + "8 bytes, and has room for 4" + end +
                              start + "12 bytes, and has room for 4" + end + "done\n")
      << first.errors;
}

TEST(Nccl, AddsUpNothingThatDiffers) {
  std::string all;
  for (const test::Ending& ending : run("shapes", 2)) {
    EXPECT_THAT(ending.report, StartsWith("RuntimeError: ")) << ending.errors;
    all += ending.report;
  }
  EXPECT_THAT(all, HasSubstr("Collectives differ in the following aspects:   Tensor Tensor shapes: "));
}

TEST(Nccl, SaysWhenTwoRanksHaveOneGpu) {
  for (const test::Ending& ending : run("join", 2, {{"CKPT_FAKE_GPUS", "1"}})) {
    EXPECT_EQ(ending.status, 1);
    EXPECT_THAT(ending.errors,
                AllOf(HasSubstr("all_reduce number 0 (float32, 4 B): NCCL Error 5: invalid usage"),
                      MatchesRegex(".*Duplicate GPU detected : rank [01] and rank [01] both on CUDA device 0+.*\n"),
                      HasSubstr("start no more ranks than there are GPUs, and let each use cuda:LOCAL_RANK")));
  }
}

TEST(Nccl, SaysWhatIsMissing) {
  const auto said = [](const std::map<std::string, std::string>& environment) {
    return run("begin", 1, environment)[0].errors;
  };
  EXPECT_EQ(said({{"CKPT_FAKE_NCCL", "none"}}),
            "Distributed package doesn't have NCCL built in: libnccl.so.2 cannot be loaded; install the package "
            "libnccl2\n");
  EXPECT_EQ(said({{"CKPT_FAKE_NCCL", "old"}}),
            "Distributed package doesn't have NCCL built in: libnccl.so.2 is version 2.13.4, where 2.14 is the first "
            "that will do; install a newer package libnccl2\n");
  const std::string without_gpu = said({{"CKPT_FAKE_GPUS", "0"}});
  EXPECT_THAT(without_gpu, core::cuda::is_built()
                               ? HasSubstr("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
                               : HasSubstr("Distributed package doesn't have NCCL built in"));
}

TEST(Nccl, SaysWhatIsWrongWithAPairOfDeviceAndBackend) {
  const std::string said = run("pairs", 1)[0].report;
  EXPECT_THAT(said,
              StartsWith("ValueError: Invalid device:backend pairing: cuda. The custom backend string argument is "
                         "invalid: cpu:gloo,cuda."));
  EXPECT_THAT(said, HasSubstr("ValueError: Duplicate device type cpu in backend string: nccl."));
}

// --- Of the machine

/// With as many ranks as there are GPUs, two at most.
TEST(NcclOnGpus, ReduceGatherAndSend) {
  if (const std::string why = core::nccl::why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  const int size = std::min(core::cuda::device_count(), 2);
  const auto run_here = [size](const std::string& role) {
    test::RanksOptions options{.role = role, .size = size, .limit = seconds(60)};
    options.backend = "nccl";
    return test::run_ranks(options);
  };
  expect_all(run_here("reduce"),
             size == 1 ? "2 2\n2 2\n2 2\n2 2\n1 1\n1 0\n1\n" : "2.5 2.5\n2.5 2.5\n2 2\n6 6\n2.5 2.5\n1 0\n3\n");
  expect_all(run_here("uneven"), size == 1 ? "\n0 3 1 4 2 5\n" : "\n2\n0 6 2 8 4 10\n");
  expect_all(run_here("order"), size == 1 ? "1 1 1 1 1\n2 2 2 2 2\n3 3 3 3 3\n" : "3 3 3 3 3\n5 5 5 5 5\n7 7 7 7 7\n");
  EXPECT_EQ(run_here("messages")[0].report, size == 1 ? "\ndone\n" : "10 11 12 \ndone\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = test::rank_role(argc, argv);
  const test::RankGpus gpus;
  if (!role.empty()) return run_rank(role);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
