#include "libckpt/bridge/training_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/bridge/training_state.h"
#include "libcore/base/error.h"
#include "libcore/module/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/averaged_model.h"
#include "libcore/optim/grad_scaler.h"
#include "libcore/optim/schedule.h"
#include "libcore/optim/schedule_group.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libckpt/bridge/models.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::TrainingParts;
using core::Tensor;
using test::TempDir;
using test::TwoLayers;
using testing::ElementsAre;

/// Two networks against each other, each with an optimizer, and what a program keeps beside them.
struct Duel {
  TwoLayers generator, critic;
  core::Adam optimizer_g{generator.parameters(), {.lr = 0.01}};
  core::SGD optimizer_c{critic.parameters(), {.lr = 0.1, .momentum = 0.9}};
  core::StepLR schedule{optimizer_g, {.step_size = 2}};
  core::ReduceLROnPlateau plateau{optimizer_c, {.patience = 0}};
  core::AveragedModel<TwoLayers> average{generator, {.average = core::ema_average(0.9)}};
  double best = 10;
  std::int64_t seen = 0;
  bool warm = false;
  std::string phase = "first";
  ckpt::Value log;

  TrainingParts parts() {
    TrainingParts parts;
    parts.add("generator", generator).add("critic", critic).add("average", average);
    parts.add("optimizer_g", optimizer_g).add("optimizer_c", optimizer_c);
    parts.add("schedule", schedule).add("plateau", plateau);
    parts.add("best", best).add("seen", seen).add("warm", warm).add("phase", phase).add("log", log);
    return parts;
  }

  /// Everything that later steps depend on shows in the losses.
  std::vector<float> train(int steps) {
    std::vector<float> losses;
    for (int i = 0; i < steps; ++i) {
      const Tensor x = core::randn({5, 3});
      const Tensor loss_c = core::mse_loss(critic(x), generator(x).detach());
      optimizer_c.zero_grad();
      loss_c.backward();
      optimizer_c.step();
      const Tensor loss_g = core::mse_loss(generator(x), critic(x).detach());
      optimizer_g.zero_grad();
      loss_g.backward();
      optimizer_g.step();
      average.update_parameters(generator);
      schedule.step();
      plateau.step(loss_c.item<double>());
      losses.insert(losses.end(), {loss_c.item<float>(), loss_g.item<float>(), average(x).sum().item<float>()});
    }
    return losses;
  }
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

class PartsIn : public testing::TestWithParam<const char*> {};

TEST_P(PartsIn, ContinueTheSameLossesBitForBit) {
  TempDir dir;
  const auto file = dir.path() / (std::string("run") + GetParam());
  core::manual_seed(5);
  Duel duel;
  duel.train(3);
  duel.best = 0.25;
  duel.seen = 1234567890123;
  duel.warm = true;
  duel.phase = "second";
  duel.log = ckpt::Value::list({1, 2.5, "x"});
  ckpt::save_training(file, duel.parts(), {.epoch = 1, .step = 3, .extra = "note"});
  const std::vector<float> expected = duel.train(4);

  core::manual_seed(77);
  Duel other;
  other.train(1);
  const ckpt::TrainingProgress progress = ckpt::resume_training(file, other.parts());
  EXPECT_EQ(progress.epoch, 1);
  EXPECT_EQ(progress.step, 3);
  EXPECT_EQ(progress.extra, ckpt::Value("note"));
  EXPECT_EQ(other.best, 0.25);
  EXPECT_EQ(other.seen, 1234567890123);
  EXPECT_TRUE(other.warm);
  EXPECT_EQ(other.phase, "second");
  EXPECT_EQ(other.log, duel.log);
  EXPECT_EQ(other.train(4), expected);
}
INSTANTIATE_TEST_SUITE_P(Formats, PartsIn, testing::Values(".ckpt", ".pth"));

TEST(TrainingParts, StandInTheFileUnderTheirNamesInTheirOrder) {
  TempDir dir;
  Duel duel;
  ckpt::save_training(dir.path() / "run.pth", duel.parts());
  std::vector<std::string> names;
  const ckpt::Checkpoint checkpoint = ckpt::open(dir.path() / "run.pth");
  for (const auto& [key, value] : checkpoint.root.as_dict().items) names.push_back(key.as_text());
  EXPECT_THAT(names,
              ElementsAre("epoch", "step", "generator", "critic", "average", "optimizer_g", "optimizer_c", "schedule",
                          "plateau", "best", "seen", "warm", "phase", "log", "rng_state", "cuda_rng_state"));
}

TEST(TrainingParts, AScalerIsOneOfThem) {
  TempDir dir;
  core::GradScaler scaler("cpu", {.init_scale = 512, .growth_interval = 7}), other("cpu");
  ckpt::save_training(dir.path() / "run.pth", TrainingParts().add("scaler", scaler));
  const auto saved = ckpt::open(dir.path() / "run.pth");
  const auto& items = saved.root.as_dict().items.at(2).second.as_dict().items;  // after epoch and step
  std::vector<std::string> names;
  for (const auto& [key, value] : items) names.push_back(key.as_text());
  EXPECT_THAT(names, ElementsAre("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"));
  ckpt::resume_training(dir.path() / "run.pth", TrainingParts().add("scaler", other));
  EXPECT_EQ(other.get_scale(), 512);
  EXPECT_EQ(other.get_growth_interval(), 7);
}

TEST(TrainingParts, OfOneModelAndOneOptimizerAreThePlainFile) {
  TempDir dir;
  TwoLayers model;
  core::SGD optimizer(model.parameters(), {.lr = 0.1});
  TrainingParts parts;
  parts.add("model", model).add("optimizer", optimizer);
  ckpt::save_training(dir.path() / "parts.ckpt", parts, {.epoch = 2});
  ckpt::save_training(dir.path() / "plain.ckpt", model, optimizer, {.epoch = 2});
  TwoLayers other;
  core::SGD fresh(other.parameters(), {.lr = 0.5});
  EXPECT_EQ(ckpt::resume_training(dir.path() / "parts.ckpt", other, fresh).epoch, 2);
  EXPECT_EQ(ckpt::resume_training(dir.path() / "plain.ckpt", parts).epoch, 2);
  EXPECT_EQ(fresh.param_groups()[0].lr(), 0.1);
}

TEST(TrainingParts, AMissingOneIsNamedBeforeAnythingChanges) {
  TempDir dir;
  TwoLayers model;
  TrainingParts saved;
  saved.add("generator", model);
  ckpt::save_training(dir.path() / "run.ckpt", saved);
  Duel duel;
  const std::vector<float> before = duel.generator.fc1.weight.to_vector<float>();
  EXPECT_EQ(message_of([&] { ckpt::resume_training(dir.path() / "run.ckpt", duel.parts()); }),
            "no 'critic' in the file, which has epoch, step, generator, rng_state, cuda_rng_state");
  EXPECT_EQ(duel.generator.fc1.weight.to_vector<float>(), before);
}

TEST(TrainingParts, NamesAreTakenOnce) {
  TwoLayers model;
  double epoch = 0;
  TrainingParts parts;
  parts.add("model", model);
  EXPECT_EQ(message_of([&] { parts.add("model", model); }),
            "a part of the run cannot be called 'model', as another part is");
  EXPECT_EQ(message_of([&] { parts.add("epoch", epoch); }),
            "a part of the run cannot be called 'epoch', which is a name of the run itself");
}

TEST(TrainingParts, AVariableOfAnotherKindIsNamed) {
  TempDir dir;
  std::string text = "x";
  double number = 3;
  std::int64_t whole = 4;
  TrainingParts saved, asked, taken;
  saved.add("best", text).add("count", whole);
  ckpt::save_training(dir.path() / "run.ckpt", saved);
  asked.add("best", number);
  EXPECT_EQ(message_of([&] { ckpt::resume_training(dir.path() / "run.ckpt", asked); }),
            "the value is a str and was read as a float");
  taken.add("count", number);
  ckpt::resume_training(dir.path() / "run.ckpt", taken);
  EXPECT_EQ(number, 4.0);
}

TEST(TrainingParts, AnythingElseIsWhatItsFunctionsSay) {
  TempDir dir;
  int loaded = 0;
  TrainingParts parts;
  parts.add(
      "loader",
      [] {
        return ckpt::Value::dict({{"position", 17}});
      },
      [&](const ckpt::Value& value) { loaded = static_cast<int>(value.find("position")->as_integer()); });
  ckpt::save_training(dir.path() / "run.ckpt", parts);
  ckpt::resume_training(dir.path() / "run.ckpt", parts);
  EXPECT_EQ(loaded, 17);
}

TEST(TrainingParts, GoToARunAndComeBackFromItsNewestStep) {
  TempDir dir;
  ckpt::Run run(dir.path() / "run");
  TwoLayers model;
  double best = 0.5;
  TrainingParts parts;
  parts.add("model", model).add("best", best);
  ckpt::save_training(run, parts, {.step = 10});
  best = 0.25;
  ckpt::save_training(run, parts, {.step = 20});
  best = 7;
  const auto progress = ckpt::resume_latest(run, parts);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->step, 20);
  EXPECT_EQ(best, 0.25);
}

}  // namespace
