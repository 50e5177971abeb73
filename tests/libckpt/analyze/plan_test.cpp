// The memory of a training: what optimizers keep beside what ours hold after a step, and who holds it.

#include "libckpt/analyze/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "libcore/base/error.h"
#include "libcore/core.h"

using testing::HasSubstr;

namespace {

/// "exp_avg float32 [4, 3]" of each, sorted.
std::vector<std::string> sorted(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

std::string text_of(const std::string& name, core::DType dtype, const core::Shape& shape) {
  return name + " " + std::string(core::name(dtype)) + " " + core::to_list(shape);
}

std::vector<std::string> held(const core::ParamState& state) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : state) out.push_back(text_of(name, tensor.dtype(), tensor.sizes()));
  return sorted(out);
}

std::vector<std::string> planned(const std::string& optimizer, const core::Tensor& param) {
  std::vector<std::string> out;
  for (const ckpt::StateSlot& slot : ckpt::optimizer_state_of(optimizer, {"p", param.dtype(), param.sizes()})) {
    out.push_back(text_of(slot.name, slot.dtype, slot.shape));
  }
  return sorted(out);
}

using Params = std::vector<core::Tensor>;
using Make = std::function<std::unique_ptr<core::Optimizer>(const Params&)>;

template <class Kind, class... Options>
Make maker(Options... options) {
  return [=](const Params& params) { return std::make_unique<Kind>(params, options...); };
}

const std::vector<std::pair<std::string, Make>>& optimizers() {
  static const std::vector<std::pair<std::string, Make>> all = {
      {"sgd", maker<core::SGD>(core::SGDOptions{.lr = 0.1})},
      {"sgd+momentum", maker<core::SGD>(core::SGDOptions{.lr = 0.1, .momentum = 0.9})},
      {"Adam", maker<core::Adam>()},
      {"adam+amsgrad", maker<core::Adam>(core::AdamOptions{.amsgrad = true})},
      {"adamw", maker<core::AdamW>()},
      {"rmsprop", maker<core::RMSprop>()},
      {"rmsprop+momentum+centered", maker<core::RMSprop>(core::RMSpropOptions{.momentum = 0.9, .centered = true})},
      {"adagrad", maker<core::Adagrad>()},
      {"adadelta", maker<core::Adadelta>()},
      {"adamax", maker<core::Adamax>()},
      {"nadam", maker<core::NAdam>()},
      {"radam", maker<core::RAdam>()},
      {"asgd", maker<core::ASGD>()},
      {"rprop", maker<core::Rprop>()},
      {"adafactor", maker<core::Adafactor>()},
  };
  return all;
}

void step_once(core::Optimizer& optimizer, const Params& params) {
  for (const core::Tensor& param : params) (param * param).sum().backward();
  optimizer.step();
}

std::uint64_t bytes_at(const ckpt::MemoryPlan& plan, const std::string& what, std::size_t place) {
  std::uint64_t bytes = 0;
  for (const ckpt::PlanPart& part : plan.parts) bytes += part.what == what ? part.bytes[place] : 0;
  return bytes;
}

void expect_error(const std::function<void()>& body, core::ErrorCode code, const std::string& text) {
  try {
    body();
    FAIL() << "no error";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

/// 600 bytes of weights in two parameters, and a buffer of 40.
const std::vector<ckpt::PlanTensor> kModel = {
    {"w", core::DType::f32, {10, 10}}, {"b", core::DType::f32, {50}}, {"running_mean", core::DType::f32, {10}, false}};

}  // namespace

TEST(Plan, KnowsWhatOurOptimizersHold) {
  std::size_t compared = 0;
  for (const auto& [name, make] : optimizers()) {
    for (core::DType dtype : {core::DType::f32, core::DType::f64, core::DType::bf16}) {
      Params params;
      for (const core::Shape& shape : {core::Shape{5}, core::Shape{4, 3}, core::Shape{2, 3, 2, 2}}) {
        params.push_back(core::full(shape, 0.5, {.dtype = dtype}).requires_grad_());
      }
      const std::unique_ptr<core::Optimizer> optimizer = make(params);
      step_once(*optimizer, params);
      for (const core::Tensor& param : params) {
        EXPECT_EQ(planned(name, param), held(optimizer->state_of(param))) << name << " " << core::name(dtype);
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, optimizers().size() * 9);
}

TEST(Plan, KnowsWhatMuonHolds) {
  const Params params = {core::full({4, 3}, 0.5).requires_grad_()};
  core::Muon optimizer(params);
  step_once(optimizer, params);
  EXPECT_EQ(planned("muon", params[0]), held(optimizer.state_of(params[0])));
  expect_error(
      [] {
        ckpt::optimizer_state_of("muon", {"b", core::DType::f32, {3}});
      },
      core::ErrorCode::value, "muon takes matrices alone, and 'b' is [3]");
}

TEST(Plan, EveryOptimizerIsCompared) {
  for (const std::string& name : ckpt::optimizer_names()) {
    const bool there = std::any_of(optimizers().begin(), optimizers().end(), [&](const auto& known) {
      std::string lower = known.first;
      std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
      return lower == name;
    });
    EXPECT_TRUE(there || name == "muon") << name;
  }
}

TEST(Plan, OneDeviceHoldsEverything) {
  const ckpt::MemoryPlan plan = ckpt::plan_memory(kModel, {.optimizer = "adamw"});
  EXPECT_EQ(plan.places, (std::vector<std::string>{"cuda:0", "cpu"}));
  EXPECT_EQ(plan.parameters, 150U);
  EXPECT_EQ(plan.untrained, 10U);
  EXPECT_EQ(plan.lasting, (std::vector<std::uint64_t>{4 * 600 + 40, 8}));  // counters lie on the host
  EXPECT_EQ(plan.most, (std::vector<std::uint64_t>{5 * 600 + 40, 8}));
  const ckpt::MemoryPlan fused = ckpt::plan_memory(kModel, {.optimizer = "adamw", .foreach_step = false});
  EXPECT_EQ(fused.most[0], fused.lasting[0]);
  const ckpt::MemoryPlan host = ckpt::plan_memory(kModel, {.optimizer = "adamw", .devices = 0});
  EXPECT_EQ(host.lasting, (std::vector<std::uint64_t>{4 * 600 + 40 + 8}));
}

TEST(Plan, DataParallelKeepsStateOnTheFirstDevice) {
  const ckpt::MemoryPlan plan = ckpt::plan_memory(kModel, {.optimizer = "adam", .devices = 2});
  EXPECT_EQ(plan.lasting, (std::vector<std::uint64_t>{2440, 0, 8}));
  EXPECT_EQ(bytes_at(plan, "copy of weights", 0), 0U);
  EXPECT_EQ(bytes_at(plan, "copy of weights", 1), 600U);
  EXPECT_EQ(bytes_at(plan, "copy of buffers", 1), 40U);
  EXPECT_EQ(plan.most[1], 600U + 40 + 600);
}

TEST(Plan, ProcessesHoldAllAndShareStateOnlyWithZero) {
  using ckpt::Parallel;
  const ckpt::MemoryPlan all =
      ckpt::plan_memory(kModel, {.optimizer = "adam", .devices = 2, .parallel = Parallel::distributed});
  EXPECT_EQ(all.lasting, (std::vector<std::uint64_t>{3040, 3040, 16}));  // with the buckets
  const ckpt::MemoryPlan zero =
      ckpt::plan_memory(kModel, {.optimizer = "adam", .devices = 2, .parallel = Parallel::zero});
  EXPECT_EQ(bytes_at(zero, "exp_avg", 0), 400U);  // the largest parameter goes first
  EXPECT_EQ(bytes_at(zero, "exp_avg", 1), 200U);
  EXPECT_EQ(bytes_at(zero, "gradients", 1), 600U);
  EXPECT_EQ(bytes_at(zero, "step", 2), 8U);
}

TEST(Plan, TypesChangeWhatIsHeld) {
  const ckpt::MemoryPlan half = ckpt::plan_memory(kModel, {.optimizer = "adam", .dtype = core::DType::bf16});
  EXPECT_EQ(half.lasting[0], 4 * 300U + 20);
  const ckpt::MemoryPlan amp = ckpt::plan_memory(kModel, {.optimizer = "adam", .autocast = core::DType::bf16});
  EXPECT_EQ(bytes_at(amp, "copies that autocast makes", 0), 200U);  // of the matrix alone
  EXPECT_EQ(amp.lasting[0], 2440U);
  std::vector<ckpt::PlanTensor> packed = kModel;
  packed[0].packed = 57;
  packed[0].packed_type = "Q4_0";
  const ckpt::MemoryPlan blocks = ckpt::plan_memory(packed, {.optimizer = "adam"});
  EXPECT_EQ(blocks.packed, 1U);
  EXPECT_EQ(blocks.parameters, 50U);
  EXPECT_EQ(blocks.lasting[0], 57U + 4 * 200 + 40);
}

TEST(Plan, RefusesWhatMakesNoSense) {
  using core::ErrorCode;
  auto plan = [](const ckpt::PlanOptions& options) { return [options] { ckpt::plan_memory(kModel, options); }; };
  expect_error(plan({.optimizer = "adamv"}), ErrorCode::usage,
               "'adamv' is no optimizer whose state is known: sgd, adam");
  expect_error(plan({.optimizer = "adam+momentum"}), ErrorCode::usage, "adam keeps more only with amsgrad");
  expect_error(plan({.optimizer = "rprop+x"}), ErrorCode::usage, "rprop has no option that changes its state");
  expect_error(plan({.devices = 5000}), ErrorCode::usage, "5000 devices: from 0");
  expect_error(plan({.dtype = core::DType::i8}), ErrorCode::usage, "cannot be trained in int8");
  expect_error(plan({.autocast = core::DType::f64}), ErrorCode::usage, "not in float64");
  expect_error(
      [] {
        ckpt::plan_memory({{"w", core::DType::f32, {1LL << 40, 1LL << 20}}});
      },
      ErrorCode::refused, "'w' of shape [1099511627776, 1048576] as float32 is larger than any machine's memory");
}
