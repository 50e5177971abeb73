// Schedules: closed forms, resuming, warnings, and the state of those that hold others. Literals of PyTorch 2.15.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/module/parameter.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/schedule_cycle.h"
#include "libcore/optim/schedule_group.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::LRScheduler;
using core::Optimizer;
using test::message_of;
using testing::DoubleEq;
using testing::ElementsAre;

/// What is warned while it lives.
struct Warnings {
  std::vector<std::string> texts;
  core::WarningHandler before;
  Warnings() {
    before = core::set_warning_handler([this](const std::string& text) { texts.push_back(text); });
  }
  ~Warnings() { core::set_warning_handler(before); }
};

struct Training {
  core::SGD optimizer{{core::Parameter(core::zeros({1}))}, {.lr = 0.5, .momentum = 0.9}};
  double lr() const { return optimizer.param_groups()[0].lr(); }
};

using Make = std::function<std::unique_ptr<LRScheduler>(Optimizer&)>;

/// The rate at epoch 7, gone to at once, and after one more step.
std::pair<double, double> jump(const Make& make) {
  const Warnings warnings;
  Training training;
  const auto schedule = make(training.optimizer);
  training.optimizer.step();
  schedule->step(7);
  const double there = training.lr();
  schedule->step();
  return {there, training.lr()};
}

template <class Schedule, class... Args>
Make make(Args... args) {
  return [=](Optimizer& optimizer) { return std::make_unique<Schedule>(optimizer, args...); };
}

testing::Matcher<std::pair<double, double>> rates(double a, double b) {
  return testing::Pair(DoubleEq(a), DoubleEq(b));
}

TEST(Schedule, JumpsByItsClosedForm) {
  using namespace core;
  EXPECT_THAT(jump(make<StepLR>(StepLR::Options{3, 0.5})), rates(0.125, 0.125));
  EXPECT_THAT(jump(make<MultiStepLR>(MultiStepLR::Options{{2, 5, 9}, 0.1})), rates(0.005000000000000001, 0.005));
  EXPECT_THAT(jump(make<ConstantLR>(ConstantLR::Options{0.5, 10})), rates(0.25, 0.25));
  EXPECT_THAT(jump(make<LinearLR>(LinearLR::Options{0.25, 1.0, 8})), rates(0.453125, 0.5));
  EXPECT_THAT(jump(make<ExponentialLR>(0.9)), rates(0.23914845000000004, 0.21523360500000005));
  EXPECT_THAT(jump(make<PolynomialLR>(PolynomialLR::Options{10, 2.0})),
              rates(0.04500000000000001, 0.01999999999999999));
  EXPECT_THAT(jump(make<CosineAnnealingLR>(CosineAnnealingLR::Options{10, 0.01})),
              rates(0.11099261318834411, 0.05679083637813791));
}

TEST(Schedule, JumpsByItsStepWhereItHasNoClosedForm) {
  using namespace core;
  const EpochFunction inverse = [](std::int64_t epoch) { return 1.0 / (1.0 + static_cast<double>(epoch)); };
  EXPECT_THAT(jump(make<LambdaLR>(inverse)), rates(0.0625, 0.05555555555555555));
  EXPECT_THAT(jump(make<CosineAnnealingWarmRestarts>(CosineAnnealingWarmRestarts::Options{4, 2})),
              rates(0.34567085809127246, 0.25));
  EXPECT_THAT(jump(make<OneCycleLR>(OneCycleLR::Options{.max_lr = 1.0, .total_steps = 20})),
              rates(0.9504846320134737, 0.89091617757105));
  EXPECT_THAT(jump(make<CyclicLR>(CyclicLR::Options{.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 5})),
              rates(0.06400000000000002, 0.046));
}

TEST(CosineAnnealingWarmRestarts, GoesToAnyPlaceInAnEpoch) {
  Training training;
  core::CosineAnnealingWarmRestarts schedule(training.optimizer, {.T_0 = 4, .T_mult = 2});
  schedule.step_at(5.5);
  EXPECT_DOUBLE_EQ(training.lr(), 0.45786740307563634);
  EXPECT_EQ(schedule.state_dict().number("T_cur"), 1.5);
  EXPECT_EQ(schedule.state_dict().integer("T_i"), 8);
}

TEST(Schedule, ResumesFromAnEpoch) {
  Training first;
  core::StepLR schedule(first.optimizer, {.step_size = 3, .gamma = 0.5});
  for (int i = 0; i < 4; ++i) {
    first.optimizer.step();
    schedule.step();
  }
  Training second;
  second.optimizer.load_state_dict(first.optimizer.state_dict());
  core::StepLR resumed(second.optimizer, {.step_size = 3, .gamma = 0.5}, 4);
  EXPECT_EQ(second.lr(), 0.25);
  EXPECT_EQ(resumed.last_epoch(), 5);
  second.optimizer.step();
  resumed.step();
  EXPECT_EQ(second.lr(), 0.125);
}

TEST(Schedule, WarnsOnceWhenItGoesFirst) {
  const Warnings warnings;
  Training training;
  training.optimizer.step();  // steps before there was a schedule do not count
  core::ExponentialLR schedule(training.optimizer, 0.9);
  schedule.step();
  schedule.step();
  EXPECT_EQ(warnings.texts.size(), 1U);
  core::ExponentialLR other(training.optimizer, 0.9);
  training.optimizer.step();
  other.step();
  EXPECT_EQ(warnings.texts.size(), 1U);
}

TEST(Schedule, TakesANumberForEachGroup) {
  std::vector<core::ParamGroup> groups;
  for (int i = 0; i < 2; ++i) groups.push_back({.params = {core::Parameter(core::zeros({1}))}});
  core::SGD optimizer(groups, {.lr = 0.1});
  core::CyclicLR::Options options{
      .base_lr = {0.1, 0.2}, .max_lr = {1.0, 2.0}, .step_size_up = 2, .cycle_momentum = false};
  core::CyclicLR schedule(optimizer, options);
  optimizer.step();
  schedule.step();
  EXPECT_THAT(schedule.last_lr(), ElementsAre(DoubleEq(0.55), DoubleEq(1.1)));
  options.base_lr = std::vector<double>{0.1};
  EXPECT_EQ(message_of([&] { core::CyclicLR(optimizer, options); }),
            "base_lr must have the same length as optimizer.param_groups. base_lr has 1 values, param_groups has 2.");
  EXPECT_EQ(message_of([&] { core::ReduceLROnPlateau(optimizer, {.min_lr = std::vector<double>{0.1}}); }),
            "expected 2 min_lrs, got 1");
  EXPECT_EQ(message_of([&] { core::LambdaLR(optimizer, std::vector<core::EpochFunction>{}); }),
            "Expected 2 lr_lambdas, but got 0");
}

TEST(Schedule, OfTheMomentumNeedsAMomentum) {
  core::Adagrad optimizer({core::Parameter(core::zeros({1}))});
  EXPECT_EQ(message_of([&] { core::CyclicLR(optimizer, {}); }),
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
  EXPECT_EQ(message_of([&] { core::OneCycleLR(optimizer, {.total_steps = 2}); }),
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled");
}

/// The rates of five more epochs.
std::vector<double> go_on(Training& training, LRScheduler& schedule) {
  std::vector<double> seen;
  for (int i = 0; i < 5; ++i) {
    training.optimizer.step();
    schedule.step();
    seen.push_back(training.lr());
  }
  return seen;
}

/// Six epochs, then a fresh schedule with the state goes on as the old one.
void expect_resumes(const Make& make_schedule) {
  Training first;
  const auto schedule = make_schedule(first.optimizer);
  go_on(first, *schedule);
  Training second;
  const auto resumed = make_schedule(second.optimizer);
  second.optimizer.load_state_dict(first.optimizer.state_dict());
  resumed->load_state_dict(schedule->state_dict());
  EXPECT_EQ(resumed->last_lr(), schedule->last_lr());
  EXPECT_EQ(go_on(second, *resumed), go_on(first, *schedule));
}

TEST(Schedule, EveryKindResumesFromItsState) {
  using namespace core;
  expect_resumes(make<MultiStepLR>(MultiStepLR::Options{{2, 6, 6}, 0.5}));
  expect_resumes(make<LinearLR>(LinearLR::Options{0.25, 1.0, 8}));
  expect_resumes(make<PolynomialLR>(PolynomialLR::Options{10, 2.0}));
  expect_resumes(make<CosineAnnealingWarmRestarts>(CosineAnnealingWarmRestarts::Options{4, 2}));
  expect_resumes(make<OneCycleLR>(OneCycleLR::Options{.max_lr = 1.0, .total_steps = 20, .three_phase = true}));
  expect_resumes(make<CyclicLR>(CyclicLR::Options{.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 3}));
  expect_resumes([](Optimizer& optimizer) -> std::unique_ptr<LRScheduler> {
    std::vector<std::shared_ptr<LRScheduler>> parts = {std::make_shared<ConstantLR>(optimizer),
                                                       std::make_shared<ExponentialLR>(optimizer, 0.9)};
    return std::make_unique<SequentialLR>(optimizer, parts, std::vector<std::int64_t>{4});
  });
  expect_resumes([](Optimizer& optimizer) -> std::unique_ptr<LRScheduler> {
    std::vector<std::shared_ptr<LRScheduler>> parts = {std::make_shared<ConstantLR>(optimizer),
                                                       std::make_shared<ExponentialLR>(optimizer, 0.9)};
    return std::make_unique<ChainedScheduler>(parts);
  });
}

TEST(ReduceLROnPlateau, ResumesFromItsState) {
  Training first, second;
  core::ReduceLROnPlateau schedule(first.optimizer, {.factor = 0.5, .patience = 1});
  for (double metric : {1.0, 1.0, 1.0}) schedule.step(metric);
  core::ReduceLROnPlateau resumed(second.optimizer, {.mode = "max", .patience = 9});
  second.optimizer.load_state_dict(first.optimizer.state_dict());
  resumed.load_state_dict(schedule.state_dict());
  for (double metric : {1.0, 1.0, 0.5}) {
    schedule.step(metric);
    resumed.step(metric);
  }
  EXPECT_EQ(second.lr(), first.lr());
  EXPECT_EQ(first.lr(), 0.125);
}

TEST(JoinedSchedules, BelongToOneOptimizer) {
  Training one, other;
  std::vector<std::shared_ptr<LRScheduler>> parts = {std::make_shared<core::ConstantLR>(one.optimizer),
                                                     std::make_shared<core::ConstantLR>(other.optimizer)};
  EXPECT_THAT(
      message_of([&] { core::SequentialLR(one.optimizer, parts, {1}); }),
      testing::StartsWith("SequentialLR expects all schedulers to belong to the same optimizer, but got scheduler "
                          "ConstantLR at index 1 has SGD ("));
  EXPECT_EQ(message_of([] { core::ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>>()); }),
            "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.");
}

}  // namespace
