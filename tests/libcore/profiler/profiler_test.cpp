// The profiler: what is an event, how events nest, schedules, the table and the trace.
#include "libcore/profiler/profiler.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "libcore/base/warning.h"
#include "libcore/data/dataset.h"
#include "libcore/data/loader.h"
#include "libcore/module/linear.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

namespace prof = core::profiler;
using core::Tensor;
using prof::FunctionEvent;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

/// A step of a training, from the loader to the optimizer.
void train_step() {
  core::Linear first(4, 8), last(8, 2);
  core::SGD optimizer({first.weight, first.bias, last.weight, last.bias}, {.lr = 0.1});
  const Tensor labels = core::zeros({6}, {.dtype = core::DType::i64});
  for (auto& [x, y] : core::DataLoader(core::TensorDataset(core::ones({6, 4}), labels), {.batch_size = 6})) {
    optimizer.zero_grad();
    core::cross_entropy(last(core::relu(first(x))), y).backward();
    optimizer.step();
  }
}

std::vector<FunctionEvent> events_of(const std::function<void()>& work, prof::ProfileOptions options = {}) {
  prof::profile profile(std::move(options));
  work();
  profile.stop();
  return profile.events();
}

const FunctionEvent& find(const std::vector<FunctionEvent>& events, const std::string& name) {
  for (const FunctionEvent& event : events) {
    if (event.name == name) return event;
  }
  throw std::runtime_error("no event " + name);
}

std::string parent_of(const std::vector<FunctionEvent>& events, const FunctionEvent& event) {
  return event.cpu_parent ? events.at(*event.cpu_parent).name : "";
}

TEST(Profiler, NamesWhatATrainingStepDoes) {
  const auto events = events_of(train_step);
  std::set<std::string> names;
  for (const FunctionEvent& event : events) names.insert(event.name);
  for (const char* name :
       {"aten::linear", "aten::addmm", "aten::relu", "aten::cross_entropy_loss", "aten::_log_softmax",
        "aten::nll_loss_forward", "AddmmBackward0", "autograd::engine::evaluate_function: AddmmBackward0",
        "torch::autograd::AccumulateGrad", "aten::mm", "Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"}) {
    EXPECT_THAT(names, Contains(name));
  }
}

TEST(Profiler, NestsEventsAndTakesTheInnerTimeOff) {
  const auto events = events_of([] {
    const prof::record_function scope("outer");
    train_step();
  });
  EXPECT_EQ(parent_of(events, find(events, "aten::addmm")), "aten::linear");
  EXPECT_EQ(parent_of(events, find(events, "aten::linear")), "outer");
  EXPECT_EQ(parent_of(events, find(events, "AddmmBackward0")), "autograd::engine::evaluate_function: AddmmBackward0");
  std::map<std::size_t, double> inside;
  for (const FunctionEvent& event : events) {
    if (event.cpu_parent) inside[*event.cpu_parent] += event.cpu_time_total;
  }
  for (const auto& [place, time] : inside) {
    EXPECT_NEAR(events[place].self_cpu_time_total, events[place].cpu_time_total - time, 1e-6) << events[place].name;
    EXPECT_GE(events[place].self_cpu_time_total, 0) << events[place].name;
  }
  EXPECT_TRUE(find(events, "outer").is_user_annotation);
}

TEST(Profiler, FindsTheOperationOfABackwardNode) {
  const Tensor x = core::ones({3}).requires_grad_();
  const auto events = events_of([&] { (core::exp(x) * 2).sum().backward(); });
  const auto number = find(events, "ExpBackward0").sequence_nr;
  ASSERT_TRUE(number.has_value());
  EXPECT_EQ(find(events, "aten::exp").sequence_nr, number);
  EXPECT_NE(find(events, "aten::mul").sequence_nr, number);
}

TEST(Profiler, RecordsSizesOnlyWhereAsked) {
  const auto work = [] { core::ones({2, 3}) + core::ones({3}); };
  EXPECT_THAT(find(events_of(work), "aten::add").input_shapes, IsEmpty());
  EXPECT_THAT(find(events_of(work, {.record_shapes = true}), "aten::add").input_shapes,
              ElementsAre(core::Shape{2, 3}, core::Shape{3}));
}

TEST(Profiler, CountsMemoryByTheOperationThatTakesIt) {
  Tensor kept;
  const auto events = events_of(
      [&] {
        const prof::record_function scope("all");
        kept = core::exp(core::ones({256}));
      },
      {.profile_memory = true});
  EXPECT_EQ(find(events, "aten::exp").self_cpu_memory_usage, 1024);
  EXPECT_EQ(find(events, "all").cpu_memory_usage, 1024);  // the ones are given back
  EXPECT_EQ(find(events, "all").self_cpu_memory_usage, 1024 - 1024);
}

TEST(Profiler, InPlaceOperationsHaveAnUnderscore) {
  const auto events = events_of([] { core::ones({3}).add_(core::ones({3})); });
  EXPECT_EQ(find(events, "aten::add_").name, "aten::add_");
}

TEST(Profiler, RecordsAllThreads) {
  const auto events = events_of([] {
    core::exp(core::ones({3}));
    std::thread([] { core::log(core::ones({3})); }).join();
  });
  EXPECT_NE(find(events, "aten::exp").thread, find(events, "aten::log").thread);
}

TEST(Profiler, RecordsNothingBeforeAndBehind) {
  core::exp(core::ones({3}));
  prof::profile profile;
  profile.stop();
  core::exp(core::ones({3}));
  EXPECT_THAT(profile.events(), IsEmpty());
  EXPECT_FALSE(core::detail::profiling.load());
}

TEST(Profiler, WhatIsOpenAtTheEndEndsThere) {
  prof::profile profile;
  const prof::record_function scope("open");
  profile.stop();
  EXPECT_GE(find(profile.events(), "open").cpu_time_total, 0);
}

TEST(Profiler, AnnotationsMayEndOutOfOrder) {
  const auto events = events_of([] {
    auto first = std::make_unique<prof::record_function>("first");
    const prof::record_function second("second");
    first.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  EXPECT_EQ(parent_of(events, find(events, "second")), "first");
  EXPECT_GT(find(events, "second").cpu_time_total, find(events, "first").cpu_time_total);
  EXPECT_GE(find(events, "first").self_cpu_time_total, 0);
}

TEST(Profiler, AnnotationsMayEndInAnotherThread) {
  const auto events = events_of([] {
    auto handed = std::make_unique<prof::record_function>("handed");
    std::thread([&] {
      const prof::record_function scope("other");  // as far down in its thread's list as the one that is ended
      handed.reset();
      core::exp(core::ones({3}));
    }).join();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  const FunctionEvent &handed = find(events, "handed"), &other = find(events, "other"),
                      &exp = find(events, "aten::exp");
  EXPECT_LT(handed.start + handed.cpu_time_total, exp.start);
  EXPECT_GT(other.start + other.cpu_time_total, exp.start);
}

TEST(Profiler, IsOneAtATime) {
  prof::profile first;
  EXPECT_EQ(test::message_of([] { prof::profile second; }), "Profiler is already enabled on this thread.");
  EXPECT_TRUE(core::detail::profiling.load());
}

TEST(Profiler, HasNothingBeforeItStops) {
  const prof::profile profile;
  EXPECT_EQ(test::message_of([&] { (void)profile.events(); }), "Profiler must be initialized before accessing events");
  EXPECT_EQ(test::message_of([&] { (void)profile.key_averages(); }),
            "Profiler must be initialized before getting key averages");
  EXPECT_EQ(test::message_of([&] { profile.export_chrome_trace("trace.json"); }),
            "Profiler must be initialized before exporting chrome trace");
}

TEST(ProfilerSchedule, IsPyTorchs) {
  const auto actions = [](const prof::Schedule& schedule) {
    std::string text;
    for (std::int64_t step = 0; step < 14; ++step) text += "nwrs"[static_cast<int>(schedule(step))];
    return text;
  };
  EXPECT_EQ(actions(prof::schedule({.wait = 1, .warmup = 1, .active = 3})), "nwrrsnwrrsnwrr");
  EXPECT_EQ(actions(prof::schedule({.wait = 1, .warmup = 1, .active = 2, .repeat = 2, .skip_first = 2})),
            "nnnwrsnwrsnnnn");
  EXPECT_EQ(test::message_of([] { prof::schedule({.active = 0}); }),
            "Invalid profiler schedule arguments. Got wait=0 (need >= 0), warmup=0 (need >= 0), active=0 (need > 0), "
            "repeat=0 (need >= 0), skip_first=0 (need >= 0).");
}

TEST(ProfilerSchedule, HandsOverEachCycle) {
  std::vector<std::string> cycles;
  const auto keep = [&](prof::profile& profile) {
    std::string steps;
    for (const FunctionEvent& event : profile.events()) {
      if (event.name.starts_with("ProfilerStep")) steps += event.name + " ";
    }
    cycles.push_back(steps + std::to_string(profile.step_num()));
  };
  prof::profile profile(
      {.schedule = prof::schedule({.wait = 1, .warmup = 1, .active = 2, .repeat = 2}), .on_trace_ready = keep});
  for (int step = 0; step < 10; ++step) {
    core::exp(core::ones({3}));
    profile.step();
  }
  profile.stop();
  EXPECT_THAT(cycles, ElementsAre("ProfilerStep#2 ProfilerStep#3 4", "ProfilerStep#6 ProfilerStep#7 8"));
}

TEST(ProfilerSchedule, KeepsNoWarmUp) {
  prof::profile profile({.schedule = prof::schedule({.warmup = 1, .active = 1})});
  for (const char* name : {"warm", "kept"}) {
    { const prof::record_function scope(name); }
    profile.step();
  }
  { const prof::record_function scope("warm again"); }
  profile.stop();
  std::vector<std::string> names;
  for (const FunctionEvent& event : profile.events()) names.push_back(event.name);
  EXPECT_THAT(names, ElementsAre("ProfilerStep#1", "kept"));
}

// The texts are those of torch.autograd.profiler_util for the same rows.
TEST(ProfilerTable, IsPyTorchs) {
  const std::vector<prof::FunctionEventAvg> rows = {
      {"aten::linear", 3, 1500.25, 100.125, 2048, -512},
      {"autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 2, 2000001.5, 7.75, 3 << 20, 5},
      {"aten::mm", 7, 30.5, 30.5, -(std::int64_t{2} << 30), 0}};
  const std::string dashes = "------------  ", name(55, '-');
  std::string rule = name + "  ";
  for (int i = 0; i < 8; ++i) rule += dashes;
  const std::string pad(40, ' ');
  EXPECT_EQ(
      prof::EventAverages(rows, true).table("self_cpu_time_total", 2),
      rule + "\n" + std::string(51, ' ') +
          "Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg       CPU Mem  Self CPU Mem    "
          "# of Calls  \n" +
          rule + "\n" + std::string(43, ' ') +
          "aten::linear        72.36%     100.125us      1084.19%       1.500ms     500.083us       2.00 KB        "
          "-512 B             3  \n" +
          std::string(47, ' ') +
          "aten::mm        22.04%      30.500us        22.04%      30.500us       4.357us      -2.00 GB           0 "
          "B             7  \n" +
          rule + "\nSelf CPU time total: 138.375us\n");
  EXPECT_THAT(
      prof::EventAverages(rows, false).table(),
      testing::HasSubstr("autograd::engine::evaluate_function: torch::autograd...         5.60%       7.750us   "
                         "1445348.87%        2.000s        1.000s             2  \n"));
  EXPECT_EQ(test::message_of([&] { prof::EventAverages(rows, false).table("time"); }),
            "'FunctionEventAvg' object has no attribute 'time'");
}

TEST(ProfilerTable, AveragesByNameOrBySizes) {
  prof::profile profile({.record_shapes = true});
  for (const std::int64_t size : {2, 3, 3}) core::exp(core::ones({size}));
  profile.stop();
  const auto counts = [](const prof::EventAverages& averages) {
    std::vector<std::int64_t> out;
    for (const prof::FunctionEventAvg& row : averages.rows()) {
      if (row.key == "aten::exp") out.push_back(row.count);
    }
    return out;
  };
  EXPECT_THAT(counts(profile.key_averages()), ElementsAre(3));
  EXPECT_THAT(counts(profile.key_averages(true)), ElementsAre(1, 2));
}

using Objects = std::vector<simdjson::dom::object>;

Objects of_phase(simdjson::dom::element trace, std::string_view phase) {
  Objects found;
  for (const simdjson::dom::element event : trace["traceEvents"]) {
    if (std::string_view(event["ph"]) == phase) found.push_back(event);
  }
  return found;
}

TEST(ChromeTrace, HasEveryEventItsArrowsAndItsMemory) {
  const test::TempDir folder;
  const std::string path = (folder.path() / "trace.json").string();
  prof::profile profile({.record_shapes = true, .profile_memory = true});
  {
    const prof::record_function scope("a \"name\"\n");
    train_step();
  }
  profile.stop();
  profile.export_chrome_trace(path);
  EXPECT_THAT(test::list_folder(folder.path()), ElementsAre("trace.json"));

  simdjson::dom::parser parser;
  const simdjson::dom::element trace = parser.load(path);
  std::map<std::string, simdjson::dom::object> by_name;
  for (const auto& event : of_phase(trace, "X")) by_name.emplace(std::string(std::string_view(event["name"])), event);
  EXPECT_EQ(of_phase(trace, "X").size(), profile.events().size() + 1);  // and the whole
  EXPECT_EQ(std::string_view(by_name.at("a \"name\"\n")["cat"]), "user_annotation");
  const simdjson::dom::object addmm = by_name.at("aten::addmm");
  EXPECT_EQ(std::string_view(addmm["cat"]), "cpu_op");
  EXPECT_EQ(simdjson::minify(simdjson::dom::element(addmm["args"]["Input Dims"])), "[[8],[6,4],[8,4]]");
  EXPECT_EQ(simdjson::minify(simdjson::dom::element(addmm["args"]["Input type"])), R"(["float","float","float"])");
  const Objects from = of_phase(trace, "s"), to = of_phase(trace, "f");
  ASSERT_EQ(from.size(), to.size());
  ASSERT_GE(from.size(), 5U);
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(std::int64_t(from[i]["id"]), std::int64_t(to[i]["id"]));
    EXPECT_LT(double(from[i]["ts"]), double(to[i]["ts"]));
  }
  std::int64_t total = 0;
  for (const auto& event : of_phase(trace, "i")) {
    if (std::string_view(event["name"]) != "[memory]") continue;
    total += std::int64_t(event["args"]["Bytes"]);
    EXPECT_EQ(std::int64_t(event["args"]["Total Allocated"]), total);
  }
}

TEST(ChromeTrace, NamesOfAnyBytesAreJson) {
  const test::TempDir folder;
  const std::string path = (folder.path() / "trace.json").string();
  prof::profile profile;
  { const prof::record_function scope("caf\xe9 \xc3\xa9"); }
  profile.stop();
  profile.export_chrome_trace(path);
  simdjson::dom::parser parser;
  const simdjson::dom::element trace = parser.load(path);
  EXPECT_EQ(std::string_view(of_phase(trace, "X").front()["name"]), "caf\\xe9 \xc3\xa9");
}

TEST(ChromeTrace, WritesThroughLinksAndIntoPipes) {
  const test::TempDir folder;
  const std::string file = (folder.path() / "trace.json").string(), link = (folder.path() / "link.json").string();
  test::write_file(file, "old");
  std::filesystem::create_symlink("trace.json", link);
  prof::profile profile;
  profile.stop();
  profile.export_chrome_trace(link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_GT(std::filesystem::file_size(file), 100U);
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  profile.export_chrome_trace(pipe);
  char first = 0;
  EXPECT_EQ(::read(reader, &first, 1), 1);
  EXPECT_EQ(first, '{');
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(ChromeTrace, LeavesNothingBehindWhereItCannotBeWritten) {
  const test::TempDir folder;
  prof::profile profile;
  profile.stop();
  const std::string path = (folder.path() / "missing" / "trace.json").string();
  EXPECT_EQ(test::message_of([&] { profile.export_chrome_trace(path); }),
            path + ": the trace cannot be written: No such file or directory");
  EXPECT_EQ(test::message_of([&] { profile.export_chrome_trace("trace.json.gz"); }),
            "trace.json.gz: traces are written uncompressed; give a name that ends in .json");
  EXPECT_THAT(test::list_folder(folder.path()), IsEmpty());
}

TEST(ChromeTrace, HandlerNamesAFileForEachRecording) {
  const test::TempDir folder;
  const std::string runs = (folder.path() / "runs").string();
  {
    const prof::profile profile({.on_trace_ready = prof::tensorboard_trace_handler(runs, "worker")});
    core::exp(core::ones({3}));
  }
  ASSERT_EQ(test::list_folder(runs).size(), 1U);
  EXPECT_THAT(test::list_folder(runs)[0], testing::MatchesRegex("worker\\.[0-9]+\\.pt\\.trace\\.json"));
}

}  // namespace
