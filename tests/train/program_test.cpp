// The program `train` as a user meets it: runs, kills, resumes, wrong arguments, full disks, closed pipes.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "libckpt/open_save.h"
#include "tests/cli/program.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using test::Outcome;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

constexpr const char* kText = "/usr/share/common-licenses/GPL-3";

Outcome train(const test::TempDir& dir, const Arguments& arguments, const test::RunOptions& options = {}) {
  return test::run_program(test::built_program("train"), dir.path(), arguments, options);
}

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// 200 points of two classes, named in words, that a line through the origin nearly tells apart.
void write_points(const test::TempDir& dir) {
  std::string text = "x,y,side\n";
  std::uint32_t state = 1;
  const auto next = [&] { return static_cast<int>((state = state * 1664525 + 1013904223) >> 24) - 128; };
  for (int i = 0; i < 200; ++i) {
    const int x = next(), y = next(), noise = next() / 8;
    text += std::to_string(x) + "," + std::to_string(y) + "," + (x + 2 * y + noise > 0 ? "right" : "left") + "\n";
  }
  test::write_file(dir.path() / "points.csv", text);
}

const Arguments kPoints = {"fit", "points.csv", "--hidden", "8", "--threads", "1", "--batch", "8"};

std::string file(const test::TempDir& dir, const std::string& path) {
  return test::read_file(dir.path() / path);
}

/// Until a state lies in the folder.
void wait_for_state(const fs::path& folder) {
  for (int i = 0; i < 5000; ++i) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().filename().string().starts_with("state_")) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::function<void(int)> signal_after_a_state(const fs::path& folder, int signal) {
  return [=](int pid) {
    wait_for_state(folder);
    ::kill(pid, signal);
  };
}

/// Until a state behind a later step lies in the folder.
std::function<void(int)> kill_behind_step(const fs::path& folder, int step) {
  return [=](int pid) {
    const auto is_later = [&](const std::string& name) {
      return name.starts_with("state_") && std::stoi(name.substr(6)) > step;
    };
    for (int i = 0; i < 5000; ++i) {
      const std::vector<std::string> names = test::list_folder(folder);
      if (std::any_of(names.begin(), names.end(), is_later)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ::kill(pid, SIGKILL);
  };
}

TEST(Train, LearnsATableOfItsUsersAndWritesTheRun) {
  test::TempDir dir;
  write_points(dir);
  const Outcome done = train(dir, kPoints + Arguments{"--epochs", "12", "--lr", "0.02", "--out", "run"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("points.csv: 160 rows to learn from, 40 to test on, [2] each, 2 classes"));
  EXPECT_THAT(done.out, HasSubstr("epoch 12/12"));
  EXPECT_THAT(test::list_folder(dir.path() / "run"),
              testing::ElementsAre("best.ckpt", "classes.txt", "config.toml", "epochs.csv", "epochs.svg", "loss.svg",
                                   "state_00000240.ckpt", "steps.csv"));
  EXPECT_THAT(file(dir, "run/epochs.csv"),
              testing::StartsWith("epoch,step,lr,train_loss,train_accuracy,test_loss,test_accuracy\n1,20,0.02,"));
  const Outcome judged = train(dir, {"evaluate", "run"});
  EXPECT_THAT(judged.out, HasSubstr("run/best.ckpt: test loss"));
}

TEST(Train, OtherDataAreMeasuredByTheScaleAndTheClassesOfTheRun) {
  test::TempDir dir;
  write_points(dir);
  ASSERT_EQ(train(dir, kPoints + Arguments{"--epochs", "5", "--lr", "0.02", "--out", "run"}).code, 0);
  std::istringstream points(file(dir, "points.csv"));
  std::string line, held, one_side;
  std::getline(points, line);
  held = one_side = line + "\n";
  for (int row = 0; std::getline(points, line); ++row) {
    if (row % 5 != 4) continue;
    held += line + "\n";
    if (line.ends_with("right")) one_side += line + "\n";
  }
  test::write_file(dir.path() / "held.csv", held);
  EXPECT_EQ(train(dir, {"evaluate", "run", "--data", "held.csv"}).out, train(dir, {"evaluate", "run"}).out);
  test::write_file(dir.path() / "right.csv", one_side);
  EXPECT_THAT(train(dir, {"evaluate", "run", "--data", "right.csv"}).out, HasSubstr("test accuracy 100.00 %"));
  test::write_file(dir.path() / "up.csv", "x,y,side\n1,2,up\n3,4,left\n");
  EXPECT_THAT(train(dir, {"evaluate", "run", "--data", "up.csv"}).err,
              HasSubstr("up.csv: class 'up' is not one of those the model learned: left, right\n"));
  test::write_file(dir.path() / "wide.csv", "x,y,z,side\n1,2,3,left\n3,4,5,left\n");
  const Outcome wide = train(dir, {"evaluate", "run", "--data", "wide.csv"});
  EXPECT_EQ(wide.code, 3);
  EXPECT_THAT(wide.err,
              HasSubstr("wide.csv: rows to test on are float32 [3] where those to learn from are float32 [2]"));
}

TEST(Train, WeightsOfAnotherModelAreNamed) {
  test::TempDir dir;
  write_points(dir);
  ASSERT_EQ(train(dir, kPoints + Arguments{"--epochs", "1", "--out", "run"}).code, 0);
  ASSERT_EQ(train(dir, {"fit", "points.csv", "--hidden", "4", "--epochs", "1", "--out", "other"}).code, 0);
  fs::copy(dir.path() / "other/best.ckpt", dir.path() / "run/other.ckpt");
  const Outcome judged = train(dir, {"evaluate", "run/other.ckpt"});
  EXPECT_EQ(judged.code, 3);
  EXPECT_THAT(judged.err, HasSubstr("train: run/other.ckpt: is not of the model of this run: Error(s) in loading"));
}

TEST(Train, KilledAndResumedItLeavesTheSameCurveAndTheSameWeights) {
  test::TempDir dir;
  write_points(dir);
  const Arguments run =
      kPoints + Arguments{"--epochs", "300", "--schedule", "cosine", "--warmup", "30", "--format", "pth"};
  ASSERT_EQ(train(dir, run + Arguments{"--out", "whole", "-q"}).code, 0);
  const Outcome killed =
      train(dir, run + Arguments{"--out", "torn", "--save-every", "0.003"},
            {.stdout_path = {}, .in_child = {}, .while_running = signal_after_a_state(dir.path() / "torn", SIGKILL)});
  ASSERT_EQ(killed.signal, SIGKILL);
  const Outcome resumed = train(dir, {"resume", "torn", "--save-every", "10"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("goes on from torn/state_"));
  for (const char* name : {"steps.csv", "epochs.csv", "best.pth", "loss.svg", "epochs.svg"}) {
    EXPECT_EQ(file(dir, std::string("torn/") + name), file(dir, std::string("whole/") + name)) << name;
  }
}

TEST(Train, MixedPrecisionIsSaidAndGoesOnFromItsConfig) {
  test::TempDir dir;
  write_points(dir);
  const Arguments run = kPoints + Arguments{"--epochs", "12", "--lr", "0.02", "--amp"};
  const Outcome done = train(dir, run + Arguments{"--out", "run"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("; mixed precision, bf16 and f32; on the CPU\n"));
  EXPECT_THAT(file(dir, "run/config.toml"), HasSubstr("amp = \"bf16\"\n"));
  EXPECT_THAT(train(dir, {"resume", "run", "--epochs", "13"}).out, HasSubstr("; mixed precision, bf16 and f32; "));
  EXPECT_THAT(train(dir, run + Arguments{"f16", "--dry-run"}).out, HasSubstr("; mixed precision, f16 and f32; "));
}

TEST(Train, CtrlCSavesAndSaysHowToGoOn) {
  test::TempDir dir;
  write_points(dir);
  const Arguments run = kPoints + Arguments{"--epochs", "300"};
  ASSERT_EQ(train(dir, run + Arguments{"--out", "whole", "-q"}).code, 0);
  const Outcome stopped =
      train(dir, run + Arguments{"--out", "torn", "--save-every", "0.003"},
            {.stdout_path = {}, .in_child = {}, .while_running = signal_after_a_state(dir.path() / "torn", SIGINT)});
  EXPECT_EQ(stopped.signal, SIGINT);
  EXPECT_THAT(stopped.err, HasSubstr("all of it saved; go on with: train resume torn"));
  ASSERT_EQ(train(dir, {"resume", "torn", "-q", "--save-every", "10"}).code, 0);
  EXPECT_EQ(file(dir, "torn/steps.csv"), file(dir, "whole/steps.csv"));
}

TEST(Train, KeepsTheLastStatesAndGoesOnFromTheOneBeforeADamagedOne) {
  test::TempDir dir;
  write_points(dir);
  ASSERT_EQ(train(dir, kPoints + Arguments{"--epochs", "5", "--keep", "2", "--save-every", "0", "--out", "run"}).code,
            0);
  EXPECT_THAT(test::list_folder(dir.path() / "run"),
              AllOf(testing::Contains("state_00000080.ckpt"), testing::Contains("state_00000100.ckpt"),
                    Not(testing::Contains("state_00000060.ckpt"))));
  const std::string curve = file(dir, "run/steps.csv");
  fs::resize_file(dir.path() / "run/state_00000100.ckpt", 5000);
  const Outcome resumed = train(dir, {"resume", "run"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("trying the state before it"));
  EXPECT_THAT(resumed.out, HasSubstr("goes on from run/state_00000080.ckpt, behind epoch 4, step 80"));
  EXPECT_EQ(file(dir, "run/steps.csv"), curve);
}

TEST(Train, AResumedRunMayBeMadeLonger) {
  test::TempDir dir;
  write_points(dir);
  ASSERT_EQ(train(dir, kPoints + Arguments{"--epochs", "2", "--out", "run", "--state-format", "pth"}).code, 0);
  const Outcome longer = train(dir, {"resume", "run", "--epochs", "4"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_THAT(file(dir, "run/epochs.csv"), HasSubstr("\n4,80,"));
}

TEST(Train, MadeLongerItsScheduleSpansAllEpochsAlsoAfterAKill) {
  test::TempDir dir;
  write_points(dir);
  const Arguments run = kPoints + Arguments{"--schedule", "cosine", "--format", "pth"};
  ASSERT_EQ(train(dir, run + Arguments{"--epochs", "2", "--out", "whole", "-q"}).code, 0);
  fs::copy(dir.path() / "whole", dir.path() / "torn");
  const Outcome longer = train(dir, {"resume", "whole", "--epochs", "300"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_THAT(longer.out, HasSubstr("schedule cosine over 300 epochs in place of 2: goes on at lr 0.0009999\n"));
  EXPECT_THAT(file(dir, "whole/steps.csv"), HasSubstr("\n6000,300,2.741"));  // the last rate of 300 epochs
  const Outcome killed =
      train(dir, {"resume", "torn", "--epochs", "300", "--save-every", "0.003"},
            {.stdout_path = {}, .in_child = {}, .while_running = kill_behind_step(dir.path() / "torn", 40)});
  ASSERT_EQ(killed.signal, SIGKILL);
  EXPECT_THAT(file(dir, "torn/config.toml"), HasSubstr("epochs = 300\n"));
  ASSERT_EQ(train(dir, {"resume", "torn", "-q"}).code, 0);
  for (const char* name : {"steps.csv", "epochs.csv", "best.pth"}) {
    EXPECT_EQ(file(dir, std::string("torn/") + name), file(dir, std::string("whole/") + name)) << name;
  }
  EXPECT_THAT(train(dir, {"resume", "torn", "--epochs", "2"}).out,
              HasSubstr("\nthat is all of it; --epochs N makes it longer\n"));
  EXPECT_THAT(file(dir, "torn/config.toml"), HasSubstr("epochs = 300\n"));
}

TEST(Train, ARunThatEndedBeforeItsFirstStateBeginsAgain) {
  test::TempDir dir;
  write_points(dir);
  ASSERT_EQ(train(dir, kPoints + Arguments{"--epochs", "2", "--out", "whole"}).code, 0);
  fs::create_directory(dir.path() / "torn");
  fs::copy(dir.path() / "whole/config.toml", dir.path() / "torn");
  const Outcome resumed = train(dir, {"resume", "torn"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("torn holds no state yet: begins at the beginning\n"));
  EXPECT_EQ(file(dir, "torn/steps.csv"), file(dir, "whole/steps.csv"));
  EXPECT_EQ(file(dir, "torn/classes.txt"), "left\nright\n");
  fs::remove(dir.path() / "torn/state_00000040.ckpt");
  EXPECT_EQ(
      train(dir, {"resume", "torn"}).err,  // best.ckpt is kept
      "train: torn: holds no state to go on from; `train fit --config torn/config.toml --overwrite` begins the run "
      "again\n");
}

TEST(Train, AConfigWithoutDataIsNoRuns) {
  test::TempDir dir;
  fs::create_directory(dir.path() / "run");
  test::write_file(dir.path() / "run/config.toml", "");
  for (const char* command : {"resume", "evaluate"}) {
    EXPECT_EQ(train(dir, {command, "run"}).err, "train: run/config.toml: names no data, so no run's\n");
  }
}

TEST(Train, StopsEarly) {
  test::TempDir dir;
  write_points(dir);
  const Outcome done = train(
      dir, kPoints + Arguments{"--epochs", "50", "--early-stop", "2", "--min-delta", "10", "--json", "--out", "run"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out,
              AllOf(HasSubstr(R"("stopped":"early","epochs":3,"steps":60)"), HasSubstr(R"("best":{"epoch":1,)")));
}

TEST(Train, SeveralDevicesGiveTheSameCurveAndPlainWeights) {
  test::TempDir dir;
  write_points(dir);
  const Arguments run = kPoints + Arguments{"--epochs", "1", "--seed", "3"};
  ASSERT_EQ(train(dir, run + Arguments{"--out", "one", "--devices", "cpu"}).code, 0);
  const Outcome two = train(dir, run + Arguments{"--out", "two", "--devices", "2", "--format", "safetensors,ckpt"});
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(two.out, HasSubstr("on cuda:0, cuda:1 (logical, host memory)"));
  const auto names = [&](const char* name) {
    std::vector<std::string> keys;
    for (const auto& entry : ckpt::list_entries(ckpt::open(dir.path() / name).root)) keys.push_back(entry.name);
    return keys;
  };
  EXPECT_THAT(names("two/best.safetensors"),
              testing::UnorderedElementsAre("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"));
  EXPECT_THAT(names("two/state_00000020.ckpt"), testing::Contains("model.module.fc1.weight"));
  const auto loss = [&](const char* name) { return std::stod(file(dir, name).substr(file(dir, name).rfind(',') + 1)); };
  EXPECT_NEAR(loss("one/steps.csv"), loss("two/steps.csv"), 1e-5);
}

TEST(Train, TakesOptionsFromAFileAndThoseOfTheCommandLineFirst) {
  test::TempDir dir;
  write_points(dir);
  test::write_file(
      dir.path() / "run.toml",
      "command = \"fit\"\ndata = \"points.csv\"\nepochs = 3\nlr = 5e-3\nin-order = true\nthreads = 1\nout = \"run\"\n");
  const Outcome done = train(dir, {"fit", "--config", "run.toml", "--epochs", "2", "-q"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(file(dir, "run/config.toml"),
              AllOf(HasSubstr("epochs = 2\n"), HasSubstr("in-order = true\n"), HasSubstr("lr = 0.005\n")));
  test::write_file(dir.path() / "bad.toml", "epoch = 3\n");
  const Outcome bad = train(dir, {"fit", "--config", "bad.toml"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.err, "train: bad.toml: 'epoch' is not an option; did you mean 'epochs'?\n");
  test::write_file(dir.path() / "bad.toml", "epochs = [3]\n");
  EXPECT_EQ(train(dir, {"fit", "--config", "bad.toml"}).err,
            "train: bad.toml: the value of 'epochs' is not text, number or boolean\n");
  test::write_file(dir.path() / "bad.toml", "lr = \"fast\"\n");
  EXPECT_EQ(train(dir, {"fit", "--config", "bad.toml"}).err, "train: bad.toml: Could not convert: --lr = fast\n");
  EXPECT_THAT(train(dir, {"text", "--config", "run.toml"}).err, HasSubstr("is a config of `train fit`"));
}

struct Wrong {
  Arguments arguments;
  std::string message;
};

TEST(Train, SaysWhatIsWrongWithItsArguments) {
  test::TempDir dir;
  write_points(dir);
  const Wrong cases[] = {
      {{}, "train: A subcommand is required; see train --help"},
      {{"fti"}, "train: there is no 'fti'; did you mean 'fit'?"},
      {{"fit", "points.csv", "--epoch", "3"}, "there is no '--epoch'; did you mean '--epochs'?"},
      {{"fit", "points.csv", "--epochs", "x"}, "see train fit --help"},
      {{"fit", "points.csv", "--epochs", "0"}, "--epochs is at least 1, not 0"},
      {{"fit", "points.csv", "--model", "resnet18"},
       "resnet18 takes images; for rows of 2 numbers there are mlp and linear"},
      {{"fit", "points.csv", "--model", "lnear"}, "no model is named 'lnear'"},
      {{"fit", "not/there.csv", "--model", "gpt2"}, "gpt2 classifies no images; `train list` names those that do"},
      {{"fit", "points.csv", "--model", "char_lstm"}, "char_lstm continues texts: train text --text FILE --model"},
      {{"fit", "points.csv", "--optimizer", "sdg"}, "no optimizer is named 'sdg'; did you mean 'sgd'?"},
      {{"fit", "points.csv", "--schedule", "cosin"}, "no schedule is named 'cosin'; did you mean 'cosine'?"},
      {{"fit", "points.csv", "--schedule", "multistep", "--milestones", "a"}, "--milestones are epochs with commas"},
      {{"fit", "points.csv", "--amp", "f8"}, "--amp is bf16 or f16, not 'f8'"},
      {{"fit", "points.csv", "--momentum", "0.9"}, "--momentum: adam has none"},
      {{"fit", "points.csv", "--target", "z"}, "--target z: there is no such column; there are x, y, side"},
      {{"fit", "points.csv", "--target", "x"}, "column 2 holds words ('left'); only the target may"},
      {{"fit", "points.csv", "--split", "half"}, "--split takes none, every:N (N from 2) or last:N, not 'half'"},
      {{"fit", "points.csv", "--resize", "32"}, "--resize: points.csv holds no images"},
      {{"fit", "points.csv", "--format", "zip"},
       "--format is ckpt, pth or safetensors (several with commas), not 'zip'"},
      {{"fit", "points.csv", "--devices", "cuda:x"},
       "--devices is cpu, all, a number, or a list such as cuda:1,cuda:0"},
      {{"fit", "points.csv", "--devices", "cuda:7"},
       "--devices cuda:7: there are 0 devices; CORE_LOGICAL_DEVICES=8 gives as many as it needs on host memory"},
      {{"fit", "points.csv", "--devices", "999"}, "--devices 999: there are at most 128"},
      {{"fit", "--config", ""}, "train: --config FILE: which file\n"},
      {{"resume", ""}, "train: RUN is empty: the folder of a run\n"},
      {{"evaluate", ""}, "train: CHECKPOINT is empty: weights or state of a run, or its folder\n"},
      {{"generate", ""}, "train: CHECKPOINT is empty: "},
      {{"evaluate", "nowhere"}, "train: nowhere: no such file or folder\n"},
      {{"fit"},
       "train: DATA is missing: a data set (fashion_mnist, digits, iris, wine, breast_cancer, boston, diabetes), a CSV "
       "file or a folder; see train list\n"},
      {{"fit", ""}, "train: DATA is missing: "},
      {{"fit", "iris_"}, "'iris_' is neither a file nor a data set; did you mean 'iris'?"},
      {{"text"}, "--text FILE: which text is to be learnt"},
      {{"text", "--text", "points.csv", "--model", "gpt2"},
       "'gpt2' continues no texts; there are char_lstm and nanogpt"},
      {{"resume", "nowhere"}, "nowhere: holds no config.toml, so it is not a folder of a run"},
  };
  for (const Wrong& wrong : cases) {
    const Outcome done = train(dir, wrong.arguments);
    EXPECT_NE(done.code, 0) << wrong.message;
    EXPECT_THAT(done.err, HasSubstr(wrong.message));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
  EXPECT_THAT(test::list_folder(dir.path()), testing::ElementsAre("points.csv"));
}

TEST(Train, SaysWhichPackageToInstall) {
  test::TempDir dir;
  const auto nothing = [] {
    ::setenv("SKLEARN_DATA_DIR", "/nowhere", 1);
    ::setenv("FASHION_MNIST_DIR", "/nowhere", 1);
  };
  const Outcome iris = train(dir, {"fit", "iris"}, {.stdout_path = {}, .in_child = nothing, .while_running = {}});
  EXPECT_EQ(iris.code, 4);
  EXPECT_EQ(iris.err,
            "train: /nowhere/iris.csv: the table is not there; install the Debian package python3-sklearn or name the "
            "folder of its tables in SKLEARN_DATA_DIR\n");
  const Outcome fashion =
      train(dir, {"fit", "fashion_mnist"}, {.stdout_path = {}, .in_child = nothing, .while_running = {}});
  EXPECT_THAT(fashion.err, HasSubstr("install the Debian package dataset-fashion-mnist"));
}

TEST(Train, NonsenseInCoreLogicalDevicesIsSaidAsWhatItIs) {
  test::TempDir dir;
  write_points(dir);
  const auto nonsense = [] { ::setenv("CORE_LOGICAL_DEVICES", "two", 1); };
  const Outcome done =
      train(dir, {"fit", "points.csv"}, {.stdout_path = {}, .in_child = nonsense, .while_running = {}});
  EXPECT_EQ(done.code, 2);
  EXPECT_EQ(done.err, "train: CORE_LOGICAL_DEVICES: 'two' where a number from 0 to 128, host:N or opaque:N\n");
}

TEST(Train, KeepsARunThatIsThereUnlessItIsToldTo) {
  test::TempDir dir;
  write_points(dir);
  const Arguments run = kPoints + Arguments{"--epochs", "1", "--out", "run"};
  ASSERT_EQ(train(dir, run).code, 0);
  const Outcome again = train(dir, run);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("run: holds a run already; go on with it by `train resume run`"));
  EXPECT_EQ(train(dir, run + Arguments{"--overwrite"}).code, 0);
}

TEST(Train, SaysWhereItCannotWrite) {
  test::TempDir dir;
  write_points(dir);
  const Outcome done = train(dir, kPoints + Arguments{"--out", "points.csv/run"});
  EXPECT_EQ(done.code, 4);
  EXPECT_THAT(done.err, HasSubstr("points.csv/run: Not a directory"));
}

TEST(Train, SaysThatItHasNoRightToWrite) {
  test::TempDir dir;
  write_points(dir);
  fs::create_directory(dir.path() / "locked");
  fs::permissions(dir.path(), fs::perms(0755));
  fs::permissions(dir.path() / "locked", fs::perms(0555));
  const auto nobody = [] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(127);
  };
  const Outcome done = train(dir, kPoints + Arguments{"--out", "locked/run"},
                             {.stdout_path = {}, .in_child = nobody, .while_running = {}});
  if (done.code == 127) GTEST_SKIP() << "cannot run as another user here";
  EXPECT_EQ(done.code, 4);
  EXPECT_EQ(done.err, "train: locked/run: Permission denied\n");
}

TEST(Train, AFullDiskKeepsTheStateBeforeIt) {
  test::TempDir dir;
  write_points(dir);
  const auto limit = [] {
    const rlimit most = {80000, 80000};
    ::setrlimit(RLIMIT_FSIZE, &most);
  };
  const Arguments run = {"fit",      "points.csv", "--hidden",     "8", "--threads",      "1",   "--batch", "1",
                         "--epochs", "1000",       "--save-every", "0", "--state-format", "pth", "--out",   "run"};
  const Outcome full = train(dir, run, {.stdout_path = {}, .in_child = limit, .while_running = {}});
  EXPECT_EQ(full.code, 4);
  EXPECT_THAT(full.err, AllOf(HasSubstr("large"), HasSubstr("go on with: train resume run")));
  EXPECT_EQ(train(dir, {"resume", "run", "--epochs", "2", "-q"}).code, 0);
}

TEST(Train, AClosedPipeEndsTheRunSaved) {
  test::TempDir dir;
  write_points(dir);
  const auto closed_pipe = [] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(126);
    ::close(ends[0]);
    ::dup2(ends[1], 1);
  };
  const Outcome done = train(dir, kPoints + Arguments{"--epochs", "3", "--out", "run"},
                             {.stdout_path = {}, .in_child = closed_pipe, .while_running = {}});
  EXPECT_EQ(done.code, 4);
  EXPECT_THAT(done.err, HasSubstr("nobody reads the output any more"));
  EXPECT_EQ(train(dir, {"resume", "run", "-q"}).code, 0);
  EXPECT_THAT(file(dir, "run/epochs.csv"), HasSubstr("\n3,60,"));
}

TEST(Train, SaysThatItsOutputCannotBeWritten) {
  test::TempDir dir;
  write_points(dir);
  const test::RunOptions full = {.stdout_path = "/dev/full", .in_child = {}, .while_running = {}};
  const Outcome list = train(dir, {"list"}, full);
  EXPECT_EQ(list.code, 4);
  EXPECT_EQ(list.err, "train: standard output: No space left on device\n");
  const Outcome run = train(dir, kPoints + Arguments{"--epochs", "3", "--out", "run"}, full);
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("train: standard output: No space left on device at step "));
}

TEST(Train, ADryRunSaysThePlanAndWritesNothing) {
  test::TempDir dir;
  write_points(dir);
  const Outcome plan = train(dir, kPoints + Arguments{"--dry-run", "--schedule", "step", "--epochs", "6"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("(fc1): Linear(in_features=2, out_features=8, bias=True)"),
                              HasSubstr("6 epochs of 20 steps, batches of 8; on the CPU"),
                              HasSubstr("0.001 from epoch 1, 0.0001 from epoch 3, 1e-05 from epoch 5"),
                              HasSubstr("nothing was written")));
  EXPECT_THAT(test::list_folder(dir.path()), testing::ElementsAre("points.csv"));
}

TEST(Train, LearnsATextAndContinuesItFromEveryFormat) {
  test::TempDir dir;
  const Outcome done = train(dir, {"text", "--text", kText, "--epochs", "2", "--epoch-steps", "20", "--hidden", "32",
                                   "--format", "ckpt,pth,safetensors", "--out", "run", "--threads", "1"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("31,634 characters to learn from, 3,515 to test on, 76 different"));
  const auto text_of = [&](const std::string& name, const char* seed) {
    return train(dir, {"generate", name, "--prompt", "You may ", "--length", "40", "--seed", seed}).out;
  };
  const std::string text = text_of("run", "1");
  EXPECT_THAT(text, testing::StartsWith("You may "));
  EXPECT_EQ(text.size(), 8U + 40U + 1U);
  for (const char* name : {"run/best.ckpt", "run/best.pth", "run/best.safetensors", "run/state_00000040.ckpt"}) {
    EXPECT_EQ(text_of(name, "1"), text) << name;
  }
  EXPECT_NE(text_of("run", "2"), text);
  EXPECT_THAT(train(dir, {"generate", "run", "--prompt", "\xe2\x82\xac"}).err,
              HasSubstr("the model has never seen the character"));
}

TEST(Train, ATinyGptLearnsAText) {
  test::TempDir dir;
  const Outcome done =
      train(dir, {"text", "--model",       "nanogpt", "--text",   kText, "--layers",  "1",   "--heads",
                  "2",    "--width",       "32",      "--length", "16",  "--dropout", "0.1", "--epochs",
                  "2",    "--epoch-steps", "10",      "--out",    "run", "-q"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Outcome greedy = train(dir, {"generate", "run", "--prompt", "GNU", "--length", "30", "--temperature", "0"});
  EXPECT_EQ(greedy.out.size(), 3U + 30U + 1U);
}

TEST(Train, ListsDataAndModels) {
  test::TempDir dir;
  EXPECT_THAT(train(dir, {"list"}).out,
              AllOf(HasSubstr("fashion_mnist"), HasSubstr("resnet18"), Not(HasSubstr("bert"))));
  EXPECT_THAT(train(dir, {"list", "--json"}).out,
              testing::StartsWith(R"({"schema":1,"data":[{"name":"fashion_mnist",)"));
}

}  // namespace
