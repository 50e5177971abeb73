// The parts of the program `train`: tables, data sets, texts, schedules, and resuming in the middle of an epoch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "libckpt/bridge/training_state.h"
#include "libckpt/checkpoint.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"
#include "tools/support/step_progress.h"
#include "tools/train/csv.h"
#include "tools/train/plan.h"
#include "tools/train/trainer.h"

namespace {

using core::Tensor;
using testing::ElementsAre;
using train::RunOptions;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

// --- Tables.

train::Table table_of(const std::string& text, const train::TableOptions& options = {}) {
  test::TempDir dir;
  test::write_file(dir.path() / "t", text);
  return train::read_table(dir.path() / "t", options);
}

std::string table_error(const std::string& text) {
  test::TempDir dir;
  test::write_file(dir.path() / "t", text);
  const std::string message = error_of([&] { train::read_table(dir.path() / "t"); });
  return message.substr(message.find("/t: ") + 4);
}

TEST(TrainTable, ReadsNamesNumbersAndQuotedWords) {
  const train::Table table = table_of("\"a, b\";kind\n1.5;\"no\"\n-2e1 ; yes\r\n\n");
  EXPECT_THAT(table.names, ElementsAre("a, b", "kind"));
  EXPECT_THAT(table.values, ElementsAre(1.5, 0, -20, 1));
  EXPECT_THAT(table.words[1], ElementsAre("no", "yes"));
}

TEST(TrainTable, ReadsBlanksAndSkipsLinesThatAreNoRows) {
  EXPECT_THAT(table_of("1  2 3\n 4 5\t6\n").values, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(table_of("150,4,setosa\n1,2\n", {.skip = 1}).values, ElementsAre(1, 2));
}

TEST(TrainTable, ReadsWhatSpreadsheetsWrite) {
  const train::Table table = table_of("\xef\xbb\xbfx;y\r\n1;2\r\n3;4\r\n");
  EXPECT_THAT(table.names, ElementsAre("x", "y"));
  EXPECT_THAT(table.values, ElementsAre(1, 2, 3, 4));
}

TEST(TrainTable, NamesTheLineThatIsWrong) {
  EXPECT_EQ(table_error("1,2\n3\n"), "line 2: 1 field where the first row has 2");
  EXPECT_EQ(table_error("1,2\n3,\n"), "line 2: field 2 is empty; rows with missing values must be filled or left out");
  EXPECT_EQ(table_error("a,b\n1,2\n3,x\n5,6\n"), "line 3: 'x' in field 2 (b) is not a number");
  EXPECT_EQ(table_error("a,b\nNA,2\n3,4\n5,6\n"), "line 2: 'NA' in field 1 (a) is not a number");
  EXPECT_EQ(table_error("1,2\nnan,4\n"), "line 2: 'nan' in field 1 is not a number");
  EXPECT_EQ(table_error("a,b\n1,2,3\n"), "line 2: 3 fields where the line of names has 2");
  EXPECT_EQ(table_error("1;2,5\n2;3\n4;5\n"), "line 1: '2,5' in field 2 is not a number: write decimals with a point");
  EXPECT_EQ(table_error("\n"), "holds no row");
  EXPECT_EQ(table_error("a,b\n"), "holds a line of names and no row");
  EXPECT_EQ(table_error(std::string("a\0,\0", 4)), "is not text: has a byte 0, as text in UTF-16 has");
}

TEST(TrainProgress, FitsItsTerminal) {
  const auto line = [](int columns) {
    return cli::progress_line("epoch 1/5", {469, 938, 12.4}, "loss 0.1234", columns);
  };
  EXPECT_EQ(line(80), "epoch 1/5 [###############...............] 469/938, 12 s left, loss 0.1234");
  EXPECT_EQ(line(60), "epoch 1/5 [#######........] 469/938, 12 s left, loss 0.1234");
  EXPECT_EQ(line(48), "epoch 1/5 469/938, 12 s left, loss 0.1234");
  EXPECT_EQ(line(20), "epoch 1/5 469/938, ");
}

// --- Data sets.

/// The tables of Debian's python3-sklearn, as far as the golden data have them.
bool has_tables() {
  const auto iris = test::golden_file("datasets/iris.csv");
  if (iris) ::setenv("SKLEARN_DATA_DIR", iris->parent_path().c_str(), 1);
  return iris.has_value();
}

TEST(TrainData, ShippedTablesAreSplitAndScaledByTheTrainingRows) {
  if (!has_tables()) GTEST_SKIP();
  const train::DataSet iris = train::load_data({.name = "iris"});
  EXPECT_EQ(iris.train.size(), 120);
  EXPECT_EQ(iris.test.size(), 30);
  EXPECT_EQ(iris.classes, 3);
  EXPECT_NEAR(iris.train.inputs.mean({0}).abs().max().item<double>(), 0, 1e-6);
  EXPECT_NEAR(iris.train.inputs.std({0}, 0).max().item<double>(), 1, 1e-6);
  const train::DataSet whole = train::load_data({.name = "boston", .split = "none", .scale = "none"});
  EXPECT_TRUE(whole.test.empty());
  EXPECT_EQ(whole.classes, 0);
  EXPECT_NEAR(whole.train.inputs.to(core::DType::f64).sum().item<double>(), 460946.5552, 0.01);
  EXPECT_NEAR(whole.train.targets.to(core::DType::f64).sum().item<double>(), 11401.6, 0.01);
}

TEST(TrainData, DigitsAreImages) {
  if (!has_tables()) GTEST_SKIP();
  const train::DataSet digits = train::load_data({.name = "digits", .rows = 100});
  EXPECT_EQ(digits.train.inputs.sizes(), (core::Shape{100, 1, 8, 8}));
  EXPECT_EQ(digits.test.size(), 360);
}

std::string be32(std::uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
}

TEST(TrainData, AFolderMayHoldIdxFiles) {
  test::TempDir dir;
  const std::string head = {0, 0, 8};
  test::write_file(dir.path() / "train-images-idx3-ubyte",
                   head + '\3' + be32(5) + be32(2) + be32(2) + std::string(20, '\x80'));
  test::write_file(dir.path() / "train-labels-idx1-ubyte", head + '\1' + be32(5) + std::string{0, 1, 2, 0, 1});
  const train::DataSet data = train::load_data({.name = dir.path().string()});
  EXPECT_EQ(data.train.size(), 4);  // every fifth tests, as there are no test files
  EXPECT_EQ(data.test.size(), 1);
  EXPECT_EQ(data.classes, 3);
  EXPECT_EQ(data.divisor, 255);
  std::filesystem::remove(dir.path() / "train-labels-idx1-ubyte");
  EXPECT_THAT(error_of([&] { train::load_data({.name = dir.path().string()}); }),
              testing::EndsWith(": holds train-images-idx3-ubyte without train-labels-idx1-ubyte (.gz)"));
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& bytes) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  return "\x93NUMPY\x01" + std::string(1, '\0') + std::string{118, 0} + header + "\n" + bytes;
}

TEST(TrainData, AFolderMayHoldNumPyArrays) {
  test::TempDir dir;
  test::write_file(dir.path() / "train_x.npy", npy("|u1", "(2, 3, 3)", std::string(18, '\1')));
  test::write_file(dir.path() / "train_y.npy", npy("<i8", "(2,)", std::string(1, '\1') + std::string(15, '\0')));
  test::write_file(dir.path() / "test_x.npy", npy("|u1", "(1, 3, 3)", std::string(9, '\1')));
  test::write_file(dir.path() / "test_y.npy", npy("<i8", "(1,)", std::string(8, '\0')));
  const train::DataSet data = train::load_data({.name = dir.path().string()});
  EXPECT_EQ(data.row(), (core::Shape{1, 3, 3}));
  EXPECT_EQ(data.classes, 2);
  EXPECT_EQ(data.test.size(), 1);
  EXPECT_EQ(data.train.targets.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0}));
}

TEST(TrainData, RowsToTestOnMustBeLikeThoseToLearnFrom) {
  test::TempDir dir;
  const std::string labels = std::string(1, '\1') + std::string(15, '\0');
  test::write_file(dir.path() / "train_x.npy", npy("|u1", "(2, 3, 3)", std::string(18, '\1')));
  test::write_file(dir.path() / "train_y.npy", npy("<i8", "(2,)", labels));
  const auto error_with = [&](const std::string& x_shape, std::size_t bytes, char label) {
    test::write_file(dir.path() / "test_x.npy", npy("|u1", x_shape, std::string(bytes, '\1')));
    test::write_file(dir.path() / "test_y.npy", npy("<i8", "(1,)", label + std::string(7, '\0')));
    const std::string message = error_of([&] { train::load_data({.name = dir.path().string()}); });
    return message.substr(std::min(message.size(), dir.path().string().size()));
  };
  EXPECT_EQ(error_with("(1, 3, 3)", 9, '\2'),
            ": class 2 in the rows to test on, where those to learn from have 0 to 1");
  EXPECT_EQ(error_with("(1, 2, 3)", 6, '\0'),
            ": rows to test on are uint8 [1, 2, 3] where those to learn from are uint8 [1, 3, 3]");
  EXPECT_EQ(error_with("(2, 3, 3)", 18, '\0'),
            ": test_x.npy [2, 3, 3] and test_y.npy [1] do not belong together: there is a target a row");
}

// --- Texts.

TEST(TrainText, SymbolsAreCodePointsInOrder) {
  const train::Symbols symbols(
      "b\xc3\xa4"
      "a\xf0\x9f\x98\x80");
  EXPECT_EQ(symbols.text(), "ab\xc3\xa4\xf0\x9f\x98\x80");
  EXPECT_THAT(symbols.encode("\xc3\xa4"
                             "b\xf0\x9f\x98\x80"),
              ElementsAre(2, 1, 3));
  EXPECT_EQ(symbols.decode({3, 0}),
            "\xf0\x9f\x98\x80"
            "a");
  EXPECT_EQ(error_of([&] { symbols.encode("ax"); }), "the model has never seen the character 'x'");
  EXPECT_EQ(error_of([] { train::Symbols("\xff"); }), "the text is not UTF-8");
}

TEST(TrainText, TooShortATextIsRefused) {
  test::TempDir dir;
  test::write_file(dir.path() / "t", "to be or not to be");
  EXPECT_THAT(error_of([&] { train::load_text((dir.path() / "t").string(), 64); }),
              testing::HasSubstr("18 characters are too few for a --length of 64"));
}

// --- Training.

/// 100 points of three classes.
train::DataSet points() {
  train::DataSet data{.name = "points", .classes = 3};
  core::manual_seed(5);
  const auto rows = [](std::int64_t n) {
    train::Rows made{core::empty({n, 3}), core::empty({n}, {.dtype = core::DType::i64})};
    for (std::int64_t i = 0; i < n; ++i) {
      made.targets.mutable_data<std::int64_t>()[i] = i % 3;
      for (std::int64_t k = 0; k < 3; ++k) {
        made.inputs.mutable_data<float>()[3 * i + k] =
            static_cast<float>((i * 7 + k * 5) % 11) / 11 + (i % 3 == k ? 1 : 0);
      }
    }
    return made;
  };
  data.train = rows(100);
  data.test = rows(30);
  return data;
}

RunOptions options_for(const train::DataSet& data, const std::string& schedule) {
  RunOptions o;
  o.epochs = 4;
  o.batch = 8;
  o.schedule = schedule;
  o.milestones = "2,3";
  if (schedule != "onecycle" && schedule != "restarts") o.warmup = 5;
  o.optimizer = schedule == "onecycle" ? "sgd" : "adam";
  if (o.optimizer == "sgd") o.momentum = 0.9;
  o.patience = 0;
  o.min_delta = 0;
  fill_in(o, data);
  return o;
}

std::unique_ptr<train::Task> new_task(const RunOptions& o, const train::DataSet& data) {
  train::choose_devices(o.devices);
  core::manual_seed(0);
  return make_task(o, data);
}

void expect_same_curve(const train::Curve& a, const train::Curve& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.rates, b.rates);
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (std::size_t i = 0; i < a.epochs.size(); ++i) {
    EXPECT_EQ(a.epochs[i].loss, b.epochs[i].loss);
    EXPECT_EQ(a.epochs[i].accuracy, b.epochs[i].accuracy);
    EXPECT_EQ(a.epochs[i].test->loss, b.epochs[i].test->loss);
  }
}

class Resume : public testing::TestWithParam<const char*> {};

TEST_P(Resume, InTheMiddleOfAnEpochTheCurveGoesOnToTheBit) {
  test::TempDir dir;
  const train::DataSet data = points();
  const RunOptions o = options_for(data, GetParam());
  const auto whole_task = new_task(o, data);
  train::Trainer whole(*whole_task, o);
  EXPECT_EQ(whole.run({}), train::Stop::done);

  const auto torn_task = new_task(o, data);
  train::Trainer torn(*torn_task, o);
  EXPECT_EQ(torn.run({.stop = [&] { return torn.step() == 30; }}), train::Stop::asked);
  torn.save(dir.path() / "state.pth");

  const auto task = new_task(o, data);
  train::Trainer again(*task, o);
  again.resume(dir.path() / "state.pth");
  EXPECT_EQ(again.step_in_epoch(), 4);
  EXPECT_EQ(again.run({}), train::Stop::done);
  expect_same_curve(again.curve(), whole.curve());
  EXPECT_EQ(again.best_epoch(), whole.best_epoch());
}

TEST_P(Resume, MadeLongerItHasTheRatesOfARunThatWasPlannedSo) {
  test::TempDir dir;
  const train::DataSet data = points();
  const RunOptions o = options_for(data, GetParam());
  const auto torn_task = new_task(o, data);
  train::Trainer torn(*torn_task, o);
  EXPECT_EQ(torn.run({.stop = [&] { return torn.step() == 30; }}), train::Stop::asked);
  torn.save(dir.path() / "state.pth");

  RunOptions longer = o;
  longer.epochs = 8;
  const auto task = new_task(longer, data);
  train::Trainer again(*task, longer);
  again.resume(dir.path() / "state.pth");
  EXPECT_EQ(again.planned_before(), 4);
  EXPECT_EQ(again.run({}), train::Stop::done);

  const auto whole_task = new_task(longer, data);
  train::Trainer whole(*whole_task, longer);
  whole.run({});
  const auto from_30 = [](const train::Curve& curve) {
    return std::vector<double>(curve.rates.begin() + 30, curve.rates.end());
  };
  EXPECT_EQ(from_30(again.curve()), from_30(whole.curve()));
  EXPECT_EQ(again.curve().rates[0], torn.curve().rates[0]);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Resume,
                         testing::Values("none", "step", "multistep", "exponential", "cosine", "restarts", "poly",
                                         "plateau", "onecycle"),
                         [](const auto& schedule) { return std::string(schedule.param); });

TEST(TrainDevices, ARunOnThreeDevicesResumesOnThem) {
  test::TempDir dir;
  const train::DataSet data = points();
  RunOptions o = options_for(data, "none");
  o.devices = "3";
  const auto whole_task = new_task(o, data);
  train::Trainer whole(*whole_task, o);
  whole.run({});
  const auto torn_task = new_task(o, data);
  train::Trainer torn(*torn_task, o);
  torn.run({.stop = [&] { return torn.step() == 17; }});
  torn.save(dir.path() / "state.ckpt");
  const auto task = new_task(o, data);
  train::Trainer again(*task, o);
  again.resume(dir.path() / "state.ckpt");
  again.run({});
  expect_same_curve(again.curve(), whole.curve());
  EXPECT_EQ(again.best_state().keys().front(), "fc1.weight");
}

/// A text whose batches, and dropout, draw from the generator in every step.
TEST(TrainText, ARunResumesInTheMiddleOfAnEpochToTheBit) {
  test::TempDir dir;
  RunOptions o;
  o.is_text = true;
  o.text = "/usr/share/common-licenses/GPL-3";
  o.model = "nanogpt";
  o.layers = 1;
  o.heads = 2;
  o.width = 16;
  o.length = 8;
  o.dropout = 0.2;
  o.epochs = 2;
  o.epoch_steps = 6;
  fill_in_text(o);
  const train::TextData text = train::load_text(o.text, *o.length);
  const auto begin = [&] {
    core::manual_seed(0);
    return make_text_task(o, text);
  };
  const auto whole_task = begin();
  train::Trainer whole(*whole_task, o);
  whole.run({});
  const auto torn_task = begin();
  train::Trainer torn(*torn_task, o);
  torn.run({.stop = [&] { return torn.step() == 4; }});
  torn.save(dir.path() / "state.ckpt");
  const auto task = begin();
  train::Trainer again(*task, o);
  again.resume(dir.path() / "state.ckpt");
  again.run({});
  expect_same_curve(again.curve(), whole.curve());
}

// --- Mixed precision.

class MixedPrecision : public testing::TestWithParam<const char*> {
 protected:
  /// What a state says of the scaler, "" where it has none.
  static std::string scaler_in(const std::filesystem::path& state) {
    const ckpt::Checkpoint checkpoint = ckpt::open(state);
    const ckpt::Value* scaler = checkpoint.root.find("scaler");
    if (scaler == nullptr) return "";
    const core::OptionMap map = ckpt::to_option_map(*scaler);
    return std::to_string(map.number("scale")) + " " + std::to_string(map.integer("_growth_tracker"));
  }
};

TEST_P(MixedPrecision, LearnsAsF32DoesAndResumesToTheBit) {
  test::TempDir dir;
  const train::DataSet data = points();
  RunOptions o = options_for(data, "cosine");
  const auto full_task = new_task(o, data);
  train::Trainer full(*full_task, o);
  full.run({});
  o.amp = GetParam();
  o.clip = 1;
  const auto whole_task = new_task(o, data);
  train::Trainer whole(*whole_task, o);
  whole.run({});
  whole.save(dir.path() / "whole.ckpt");
  EXPECT_NE(whole.curve().losses, full.curve().losses);
  EXPECT_NEAR(*whole.curve().epochs.back().test->accuracy, *full.curve().epochs.back().test->accuracy, 0.05);
  for (const auto& [name, tensor] : whole.best_state()) EXPECT_EQ(tensor.dtype(), core::DType::f32) << name;

  const auto torn_task = new_task(o, data);
  train::Trainer torn(*torn_task, o);
  torn.run({.stop = [&] { return torn.step() == 30; }});
  torn.save(dir.path() / "torn.ckpt");
  const auto task = new_task(o, data);
  train::Trainer again(*task, o);
  again.resume(dir.path() / "torn.ckpt");
  again.run({});
  again.save(dir.path() / "again.ckpt");
  expect_same_curve(again.curve(), whole.curve());
  EXPECT_EQ(scaler_in(dir.path() / "again.ckpt"), scaler_in(dir.path() / "whole.ckpt"));
  EXPECT_EQ(scaler_in(dir.path() / "whole.ckpt").empty(), o.amp == "bf16");
}

INSTANTIATE_TEST_SUITE_P(Types, MixedPrecision, testing::Values("bf16", "f16"),
                         [](const auto& type) { return std::string(type.param); });

/// A loss whose scaled gradients are infinite in f16.
TEST(TrainMixedPrecision, AStepWithInfiniteGradientsIsLeftOutWithoutAWarning) {
  train::DataSet data = points();
  data.train.inputs.mul_(1000);
  RunOptions o = options_for(data, "none");
  o.amp = "f16";
  std::string warned;
  const core::WarningHandler before = core::set_warning_handler([&](const std::string& text) { warned += text; });
  const auto task = new_task(o, data);
  const Tensor first = task->model().parameters()[0].detach().clone();
  train::Trainer trainer(*task, o);
  std::vector<double> moved;
  trainer.run(
      {.after_step = [&] { moved.push_back((task->model().parameters()[0].detach() - first).norm().item<double>()); }});
  core::set_warning_handler(before);
  EXPECT_EQ(moved.front(), 0);
  EXPECT_GT(moved.back(), 0);
  EXPECT_EQ(warned, "");
}

TEST(TrainSchedule, FollowsItsPlan) {
  const train::DataSet data = points();
  const auto rate_of = [&](const std::string& schedule, std::int64_t warmup, std::size_t step) {
    RunOptions o = options_for(data, schedule);
    o.warmup = warmup;
    o.lr = 1;
    o.optimizer = "sgd";
    o.momentum = 0;
    const auto task = new_task(o, data);
    train::Trainer trainer(*task, o);
    trainer.run({});
    return trainer.curve().rates.at(step);  // 13 steps an epoch
  };
  EXPECT_DOUBLE_EQ(rate_of("none", 9, 0), 0.1);
  EXPECT_DOUBLE_EQ(rate_of("none", 9, 4), 0.5);
  EXPECT_DOUBLE_EQ(rate_of("none", 9, 20), 1);
  EXPECT_NEAR(rate_of("cosine", 0, 26), 0.5, 1e-12);
  EXPECT_NEAR(rate_of("multistep", 0, 26), 0.1, 1e-12);
  EXPECT_NEAR(rate_of("multistep", 0, 39), 0.01, 1e-12);
  EXPECT_NEAR(rate_of("onecycle", 0, 0), 0.04, 1e-12);
}

TEST(Train, StopsAtALossThatIsNoNumber) {
  const train::DataSet data = points();
  RunOptions o = options_for(data, "none");
  o.optimizer = "sgd";
  o.warmup = 0;
  o.lr = 1e30;
  const auto task = new_task(o, data);
  train::Trainer trainer(*task, o);
  EXPECT_THAT(error_of([&] { trainer.run({}); }), testing::HasSubstr("is not a number; try a lower --lr, or --clip 1"));
}

TEST(Train, ClippingBoundsTheStep) {
  const train::DataSet data = points();
  RunOptions o = options_for(data, "none");
  o.optimizer = "sgd";
  o.warmup = 0;
  o.lr = 1;
  o.clip = 1e-3;
  o.epochs = 1;
  const auto task = new_task(o, data);
  const Tensor before = task->model().parameters()[0].detach().clone();
  train::Trainer trainer(*task, o);
  trainer.run({});
  EXPECT_LE((task->model().parameters()[0].detach() - before).norm().item<double>(), 13e-3);
}

TEST(TrainModel, SaysWhichSizeAModelWants) {
  train::DataSet data{.name = "images", .classes = 2};
  data.train = {core::zeros({2, 1, 8, 8}), core::zeros({2}, {.dtype = core::DType::i64})};
  RunOptions o;
  o.model = "lenet5";
  EXPECT_THAT(
      error_of([&] { make_model(o, data); }),
      testing::AllOf(testing::HasSubstr("lenet5 does not take images of [1, 8, 8]"), testing::HasSubstr("--resize")));
  o.resize = 28;
  EXPECT_NE(make_model(o, data), nullptr);
  o.model = "bert_base";
  EXPECT_EQ(error_of([&] { make_model(o, data); }), "bert_base classifies no images; `train list` names those that do");
}

}  // namespace
