#include "libckpt/bridge/training_state.h"

#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "libcore/module/dropout.h"
#include "libcore/module/loss.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libckpt/bridge/models.h"
#include "tests/support/temp_dir.h"

namespace {

using test::TempDir;

struct Noisy : core::ModuleOf<Noisy> {
  core::Linear fc1{3, 8};
  core::Dropout drop{0.5};
  core::Linear fc2{8, 1};
  void members(core::Members& m) override { m.child("fc1", fc1).child("drop", drop).child("fc2", fc2); }
  core::Tensor forward(const core::Tensor& x) { return fc2(drop(fc1(x))); }
};

/// Losses of `steps` steps on random data, all drawn from the default generator.
std::vector<float> train(Noisy& model, core::Optimizer& optimizer, int steps) {
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) {
    core::Tensor x = core::randn({5, 3});
    core::Tensor loss = core::mse_loss(model(x), core::ones({5, 1}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<float>());
  }
  return losses;
}

class Resume : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path file() const { return dir_.path() / (std::string("run") + GetParam()); }
  TempDir dir_;
};

TEST_P(Resume, ContinuesTheSameLossesBitForBit) {
  core::manual_seed(3);
  Noisy model;
  core::Adam optimizer(model.parameters(), {.lr = 0.01});
  train(model, optimizer, 4);
  ckpt::save_training(file(), model, optimizer, {.epoch = 2, .step = 4});
  std::vector<float> expected = train(model, optimizer, 5);

  core::manual_seed(99);
  Noisy other;
  core::Adam fresh(other.parameters(), {.lr = 0.5});
  ckpt::TrainingProgress progress = ckpt::resume_training(file(), other, fresh);
  EXPECT_EQ(progress.epoch, 2);
  EXPECT_EQ(progress.step, 4);
  EXPECT_EQ(fresh.param_groups()[0].lr(), 0.01);
  EXPECT_EQ(train(other, fresh, 5), expected);
}

TEST_P(Resume, ResumingTwiceGivesTheSameBytes) {
  Noisy model;
  core::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  train(model, optimizer, 2);
  ckpt::save_training(file(), model, optimizer, {.epoch = 1, .step = 2});
  Noisy other;
  core::SGD fresh(other.parameters(), {.lr = 0.1, .momentum = 0.9});
  ckpt::TrainingProgress progress = ckpt::resume_training(file(), other, fresh);
  auto again = dir_.path() / (std::string("again") + GetParam());
  ckpt::save_training(again, other, fresh, progress);
  auto before = ckpt::list_entries(ckpt::open(file()).root);
  auto after = ckpt::list_entries(ckpt::open(again).root);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_EQ(ckpt::read_all(*before[i].entry->bytes), ckpt::read_all(*after[i].entry->bytes)) << before[i].name;
  }
}

TEST_P(Resume, KeepsWhatTheProgramAdds) {
  Noisy model;
  core::SGD optimizer(model.parameters(), {.lr = 0.1});
  ckpt::Dict extra;
  extra.items.emplace_back(ckpt::Value::text("best"), ckpt::Value::real(0.75));
  ckpt::save_training(file(), model, optimizer, {.extra = ckpt::Value::dict(extra)});
  EXPECT_EQ(ckpt::resume_training(file(), model, optimizer).extra, ckpt::Value::dict(extra));
}

TEST(ResumeLatest, GoesOnFromTheNewestStepThatIsWhole) {
  TempDir dir;
  ckpt::Run run(dir.path() / "a");
  Noisy model;
  core::SGD optimizer(model.parameters(), {.lr = 0.1});
  EXPECT_FALSE(ckpt::resume_latest(run, model, optimizer)) << "nothing there yet";
  ckpt::save_training(run, model, optimizer, {.epoch = 1, .step = 2}, {{"loss", 0.5}});
  ckpt::StepFile newest = ckpt::save_training(run, model, optimizer, {.epoch = 2, .step = 4});
  EXPECT_EQ(ckpt::resume_latest(run, model, optimizer)->step, 4);
  std::filesystem::resize_file(newest.path, std::filesystem::file_size(newest.path) / 2);
  ckpt::Report report;
  EXPECT_EQ(ckpt::resume_latest(run, model, optimizer, {.open = {.report = &report}})->step, 2);
  EXPECT_EQ(report.warnings.size(), 1U);
  std::filesystem::resize_file(run.path_of(2), 100);
  EXPECT_THROW(ckpt::resume_latest(run, model, optimizer), core::Error) << "that is no fresh start";
}

INSTANTIATE_TEST_SUITE_P(Formats, Resume, testing::Values(".ckpt", ".pth", ".dcp"));

TEST(TrainingState, LayoutIsThatOfPyTorchPrograms) {
  TempDir dir;
  test::TwoLayers model;
  core::Adam optimizer(model.parameters(), {.lr = 0.01});
  ckpt::save_training(dir.path() / "run.pth", model, optimizer, {.epoch = 1});
  ckpt::Checkpoint checkpoint = ckpt::open(dir.path() / "run.pth");
  const ckpt::Value& group = ckpt::value_at(checkpoint.root, "optimizer.param_groups.0");
  EXPECT_EQ(ckpt::step_text(group.as_dict().items.front().first), "lr");
  EXPECT_EQ(ckpt::step_text(group.as_dict().items.back().first), "params");
  EXPECT_TRUE(group.find("betas")->is(ckpt::Value::Kind::tuple));
  EXPECT_TRUE(group.find("foreach")->is_null());
  EXPECT_EQ(ckpt::value_at(checkpoint.root, "rng_state").as_entry().shape, (core::Shape{5056}));
}

ckpt::Value with_item(const ckpt::Value& dict, std::string_view name, ckpt::Value fresh) {
  ckpt::Dict out = dict.as_dict();
  std::erase_if(out.items, [&](const auto& item) { return ckpt::step_text(item.first) == name; });
  out.items.emplace_back(ckpt::Value::text(std::string(name)), std::move(fresh));
  return ckpt::Value::dict(std::move(out));
}

/// A training file whose optimizer was given the parameters of Noisy from the last to the first: what stood at number 0
/// stands at number 3, and `names` (of the parameters as Noisy has them) say so, in param_names or as keys.
void turn_round(const std::filesystem::path& path, const std::vector<std::string>& names, bool keyed_by_names) {
  ckpt::Checkpoint file = ckpt::open(path);
  const ckpt::Value& optimizer = *file.root.find("optimizer");
  ckpt::Dict state = optimizer.find("state")->as_dict();
  ckpt::Value::List params, listed;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[names.size() - 1 - i];
    auto number = ckpt::Value::integer(static_cast<std::int64_t>(i));
    params.push_back(keyed_by_names ? ckpt::Value::text(name) : number);
    listed.push_back(ckpt::Value::text(name));
    state.items[names.size() - 1 - i].first = params.back();
  }
  ckpt::Value group = with_item(ckpt::value_at(optimizer, "param_groups.0"), "params", ckpt::Value::list(params));
  if (!keyed_by_names) group = with_item(group, "param_names", ckpt::Value::list(listed));
  ckpt::Value turned =
      with_item(with_item(optimizer, "state", ckpt::Value::dict(state)), "param_groups", ckpt::Value::list({group}));
  file.root = with_item(file.root, "optimizer", turned);
  ckpt::save(file, path);
}

/// Losses of a run that goes on, as it was saved and after its file was turned round.
std::pair<std::vector<float>, std::vector<float>> losses_when_turned(const std::vector<std::string>& names,
                                                                     bool keyed_by_names) {
  TempDir dir;
  core::manual_seed(3);
  Noisy model;
  core::Adam optimizer(model.parameters(), {.lr = 0.01});
  train(model, optimizer, 4);
  ckpt::save_training(dir.path() / "run.pth", model, optimizer);
  std::vector<float> expected = train(model, optimizer, 5);
  turn_round(dir.path() / "run.pth", names, keyed_by_names);
  Noisy other;
  core::Adam fresh(other.parameters(), {.lr = 0.01});
  ckpt::resume_training(dir.path() / "run.pth", other, fresh);
  return {expected, train(other, fresh, 5)};
}

TEST(TrainingState, StateGoesByNameWhereTheFileListsItInAnotherOrder) {
  auto [expected, resumed] = losses_when_turned({"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}, false);
  EXPECT_EQ(resumed, expected);
}

TEST(TrainingState, StateGoesByNamesWithAWrapperBeforeThem) {
  auto [expected, resumed] =
      losses_when_turned({"module.fc1.weight", "module.fc1.bias", "module.fc2.weight", "module.fc2.bias"}, false);
  EXPECT_EQ(resumed, expected);
}

TEST(TrainingState, StateGoesByNameInTheOneOfSeveralModelsThatHasTheParameters) {
  TempDir dir;
  core::manual_seed(3);
  test::TwoLayers other;
  Noisy model;
  core::Adam optimizer(model.parameters(), {.lr = 0.01});
  train(model, optimizer, 4);
  ckpt::TrainingParts parts;
  parts.add("other", other).add("model", model).add("optimizer", optimizer);
  ckpt::save_training(dir.path() / "run.pth", parts);
  const std::vector<float> expected = train(model, optimizer, 5);
  turn_round(dir.path() / "run.pth", {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}, false);
  ckpt::resume_training(dir.path() / "run.pth", parts);
  EXPECT_EQ(train(model, optimizer, 5), expected);
}

TEST(TrainingState, StateKeyedByNamesIsTaken) {
  auto [expected, resumed] = losses_when_turned({"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}, true);
  EXPECT_EQ(resumed, expected);
}

TEST(TrainingState, StateGoesByOrderWhereTheNamesAreOfAnotherModel) {
  TempDir dir;
  Noisy model;
  core::Adam optimizer(model.parameters(), {.lr = 0.01});
  train(model, optimizer, 1);
  ckpt::save_training(dir.path() / "run.pth", model, optimizer);
  turn_round(dir.path() / "run.pth", {"a.weight", "a.bias", "b.weight", "b.bias"}, false);
  Noisy other;
  core::Adam fresh(other.parameters(), {.lr = 0.01});
  ckpt::resume_training(dir.path() / "run.pth", other, fresh);
  core::OptimizerState state = fresh.state_dict();
  bool of_last = false;
  for (const auto& [name, value] : state.state.front().second)
    of_last |= name == "exp_avg" && value.sizes() == core::Shape{1};
  EXPECT_TRUE(of_last);  // what the file has first, the state of fc2.bias, as PyTorch's load_state_dict does it
}

TEST(TrainingState, StateKeyedByOtherNamesIsRefused) {
  TempDir dir;
  Noisy model;
  core::Adam optimizer(model.parameters(), {.lr = 0.01});
  train(model, optimizer, 1);
  ckpt::save_training(dir.path() / "run.pth", model, optimizer);
  turn_round(dir.path() / "run.pth", {"a.weight", "fc1.bias", "fc2.weight", "fc2.bias"}, true);
  try {
    ckpt::resume_training(dir.path() / "run.pth", model, optimizer);
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::key);
    EXPECT_NE(error.message().find("the model has no 'a.weight'"), std::string::npos) << error.message();
  }
}

TEST(TrainingState, PlainWeightsAreRefusedByName) {
  TempDir dir;
  test::TwoLayers model;
  core::SGD optimizer(model.parameters(), {.lr = 0.1});
  ckpt::save(model.state_dict(), dir.path() / "net.ckpt");
  try {
    ckpt::resume_training(dir.path() / "net.ckpt", model, optimizer);
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.message(), "no 'model' in the file, so it is not a training state");
  }
}

TEST(TrainingState, AFlippedByteIsNoticedWhenResuming) {
  TempDir dir;
  test::TwoLayers model;
  core::SGD optimizer(model.parameters(), {.lr = 0.1});
  auto path = dir.path() / "run.ckpt";
  ckpt::save_training(path, model, optimizer, {}, {.codec = ckpt::Codec::none});
  std::string content = test::read_file(path);
  const float* weight = model.fc1.weight.data<float>();
  std::size_t at = content.find(std::string(reinterpret_cast<const char*>(weight), 12));
  ASSERT_NE(at, std::string::npos);
  content[at] = static_cast<char>(content[at] ^ 1);
  test::write_file(path, content);
  EXPECT_THROW(ckpt::resume_training(path, model, optimizer), core::Error);
}

}  // namespace
