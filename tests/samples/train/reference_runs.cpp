// Every training run that PyTorch recorded (zoo/runs/reference_runs.json), run again with the same seed, model, data
// and options on one thread. Compared: the first ten losses, the history, the final parameters where a run amplifies
// rounding little, and accuracy within the scatter where it amplifies it; and in all less processor time. Prints a
// table of both. Use: golden_reference_runs [NAME...]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "libcore/core.h"
#include "samples/train/plan.h"
#include "samples/train/trainer.h"
#include "tests/support/golden_json.h"
#include "tests/zoo/formula.h"

namespace {

using test::Json;
using train::RunOptions;

/// What a run's history allows. A run whose steps amplify rounding says little by itself after hundreds of them:
/// PyTorch's own results scatter when the initial weights are disturbed by 1e-7 of their size (tests/zoo/
/// fashion_accuracy_test.cpp has the numbers for LeNet-5).
struct Tolerance {
  double loss = 2e-4;      ///< of the history, relative
  double accuracy = 0.15;  ///< of the history, percent points
};

Tolerance tolerance_of(const std::string& name) {
  if (name.starts_with("fashion_lenet5")) return {.loss = 0.4, .accuracy = 7};
  if (name.starts_with("fashion_capsnet")) return {.loss = 0.02, .accuracy = 1};
  if (name.starts_with("fashion_mlp")) return {.loss = 0.02, .accuracy = 1};
  if (name.starts_with("gpl3")) return {.loss = 0.005, .accuracy = 0};
  return {};
}

void choose_model(RunOptions& o, const std::string& name) {
  const auto is = [&](const char* part) { return name.find(part) != std::string::npos; };
  o.model = is("lenet5") ? "lenet5" : is("capsnet") ? "capsnet" : is("mlp") ? "mlp" : "linear";
  if (o.model == "capsnet") {
    o.channels = 32;
    o.types = 8;
  }
  if (o.model == "mlp") o.hidden = is("fashion") ? 256 : is("digits") ? 64 : 16;
}

void choose_data(RunOptions& o, const std::string& name) {
  for (const char* data : {"digits", "iris", "wine", "breast_cancer", "boston", "diabetes"}) {
    if (name.starts_with(data)) o.data = data;
  }
  if (name.starts_with("fashion")) {
    o.data = "fashion_mnist";
    o.rows = 10000;
  }
  if (o.data == "boston") o.split = "none";
  if (name == "boston_linear_raw") o.scale = "none";
}

void choose_optimizer(RunOptions& o, Json run) {
  const std::string name = test::text(run["optimizer"]);
  o.optimizer = name == "SGD" ? "sgd" : name == "Adam" ? "adam" : "adamw";
  const Json given = run["options"];
  o.lr = test::number(given["lr"]);
  if (test::has(given, "momentum")) o.momentum = test::number(given["momentum"]);
  if (test::has(given, "weight_decay")) o.weight_decay = test::number(given["weight_decay"]);
  if (test::has(given, "betas")) {
    o.beta1 = test::numbers(given["betas"]).at(0);
    o.beta2 = test::numbers(given["betas"]).at(1);
  }
  o.seed = test::integer(run["seed"]);
  o.batch = test::integer(run["batch"]);
}

RunOptions options_of(Json run) {
  const std::string name = test::text(run["name"]);
  RunOptions o;
  choose_optimizer(o, run);
  o.is_text = name.starts_with("gpl3");
  if (o.is_text) {
    o.text = "/usr/share/common-licenses/GPL-3";
    o.model = name == "gpl3_gpt" ? "nanogpt" : "char_lstm";
    o.length = test::integer(run["length"]);
    o.clip = test::number(run["clip_norm"]);
    o.epoch_steps = 50;
    o.epochs = test::integer(run["steps"]) / 50;
    return o;
  }
  choose_model(o, name);
  choose_data(o, name);
  o.in_order = !test::boolean(run["shuffle"]);
  o.epochs = test::integer(run["epochs"]);
  return o;
}

/// Beginnings of the rows of a batch, by the formula of the golden data.
train::Offsets offsets_of(Json run) {
  const auto batch = test::integer(run["batch"]);
  const auto seed = static_cast<std::uint32_t>(test::integer(run["seed"]));
  return [=](std::int64_t step, std::int64_t limit) {
    const core::Tensor tokens = core::empty({batch}, {.dtype = core::DType::i64});
    test::fill_tokens(tokens, {.tensor = static_cast<std::uint32_t>(196608 + step), .seed = seed}, limit);
    return tokens.to_vector<std::int64_t>();
  };
}

/// A run and what it needs to stay alive.
struct Rerun {
  RunOptions options;
  train::DataSet data;
  train::TextData text;
  std::unique_ptr<train::Task> task;
  std::unique_ptr<train::Trainer> trainer;
};

Rerun run_again(Json run) {
  Rerun rerun{.options = options_of(run), .data = {}, .text = {}, .task = {}, .trainer = {}};
  RunOptions& o = rerun.options;
  if (o.is_text) {
    fill_in_text(o);
    rerun.text = train::load_text(o.text, *o.length);
  } else {
    rerun.data = train::load_data({.name = o.data, .split = o.split, .scale = o.scale, .rows = o.rows.value_or(0)});
    fill_in(o, rerun.data);
  }
  core::manual_seed(static_cast<std::uint64_t>(*o.seed));
  rerun.task = o.is_text ? make_text_task(o, rerun.text, offsets_of(run)) : make_task(o, rerun.data);
  rerun.trainer = std::make_unique<train::Trainer>(*rerun.task, o);
  rerun.trainer->run({});
  return rerun;
}

double relative(double ours, double theirs) {
  return std::abs(ours - theirs) / std::max(1e-12, std::abs(theirs));
}

/// Collects what is too far away.
struct Verdict {
  Tolerance tolerance;
  double worst_loss = 0;  ///< of the history
  std::string why;

  void near(const std::string& what, double ours, double theirs, double allowed, double distance) {
    if (distance <= allowed) return;
    char text[160];
    std::snprintf(text, sizeof text, "%s: %.8g where PyTorch has %.8g; ", what.c_str(), ours, theirs);
    why += text;
  }
  void loss(const std::string& what, double ours, double theirs) {
    worst_loss = std::max(worst_loss, relative(ours, theirs));
    near(what, ours, theirs, tolerance.loss, relative(ours, theirs));
  }
  void accuracy(const std::string& what, double ours, double theirs) {
    near(what, ours, theirs, tolerance.accuracy, 100 * std::abs(ours - theirs));
  }
};

double first_losses(Json run, const train::Curve& curve, Verdict& verdict) {
  const std::vector<double> theirs = test::numbers(run["first_losses"]);
  double worst = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const double ours = static_cast<double>(curve.losses.at(i));
    worst = std::max(worst, relative(ours, theirs[i]));
    verdict.near("loss " + std::to_string(i + 1), ours, theirs[i], 1e-5, relative(ours, theirs[i]));
  }
  return worst;
}

void history_of_epoch(Json row, const train::EpochRow& ours, Verdict& verdict) {
  const std::string epoch = " of epoch " + std::to_string(ours.epoch);
  verdict.loss("training loss" + epoch, ours.loss, test::number(row["train_loss"]));
  if (test::has(row, "train_accuracy")) {
    verdict.accuracy("training accuracy" + epoch, *ours.accuracy, test::number(row["train_accuracy"]));
  }
  if (test::has(row, "test_loss")) verdict.loss("test loss" + epoch, ours.test->loss, test::number(row["test_loss"]));
  if (test::has(row, "test_accuracy")) {
    verdict.accuracy("test accuracy" + epoch, *ours.test->accuracy, test::number(row["test_accuracy"]));
  }
}

void history(Json run, const Rerun& rerun, Verdict& verdict) {
  const train::Curve& curve = rerun.trainer->curve();
  for (Json row : test::items(run["history"])) {
    if (!rerun.options.is_text) {
      history_of_epoch(row, curve.epochs.at(static_cast<std::size_t>(test::integer(row["epoch"]) - 1)), verdict);
      continue;
    }
    const auto step = test::integer(row["step"]);
    const std::string at = " of step " + std::to_string(step);
    verdict.loss("loss" + at, static_cast<double>(curve.losses.at(static_cast<std::size_t>(step - 1))),
                 test::number(row["train_loss"]));
    if (step % 50 != 0) continue;
    verdict.loss("held-out loss" + at, curve.epochs.at(static_cast<std::size_t>(step / 50 - 1)).test->loss,
                 test::number(row["held_loss"]));
  }
}

/// Sums of magnitudes of the final parameters. Only of runs whose losses agree closely to the end.
void checksums(Json run, const Rerun& rerun, Verdict& verdict) {
  if (!test::has(run, "checksums") || verdict.tolerance.loss > 1e-3) return;
  std::size_t i = 0;
  const core::StateDict state = rerun.task->model().state_dict();
  const std::vector<Json> rows = test::items(run["checksums"]);
  for (const auto& [name, tensor] : state) {
    const std::vector<Json> row = test::items(rows.at(i++));
    const double ours = tensor.to(core::DType::f64).abs().sum().item<double>(), theirs = test::number(row.at(2));
    verdict.near("sum of magnitudes of " + name, ours, theirs, 2e-4, relative(ours, theirs));
  }
}

struct Totals {
  double ours = 0, theirs = 0;
};

std::string result_text(bool has_accuracy, double accuracy, double loss) {
  char text[32];
  std::snprintf(text, sizeof text, has_accuracy ? "%.2f %%" : "%.4f", has_accuracy ? 100 * accuracy : loss);
  return text;
}

void print_row(Json run, const Rerun& rerun, double worst_first, double worst_loss, double their_seconds) {
  const Json last = test::items(run["history"]).back();
  const train::EpochRow& ours = rerun.trainer->curve().epochs.back();
  const bool accuracy = test::has(last, "test_accuracy");
  const char* loss_key = test::has(last, "test_loss")   ? "test_loss"
                         : test::has(last, "held_loss") ? "held_loss"
                                                        : "train_loss";
  const std::string mine =
      result_text(accuracy, ours.test && accuracy ? *ours.test->accuracy : 0, ours.test ? ours.test->loss : ours.loss);
  const std::string their = result_text(accuracy, accuracy ? test::number(last["test_accuracy"]) : 0,
                                        accuracy ? 0 : test::number(last[loss_key]));
  std::printf("%-28s %10s %10s %9.1e %9.1e %8.3f %8.3f %6.1fx\n", test::text(run["name"]).c_str(), mine.c_str(),
              their.c_str(), worst_first, worst_loss, rerun.trainer->seconds(), their_seconds,
              their_seconds / rerun.trainer->seconds());
  std::fflush(stdout);
}

void check_run(Json run, Json seconds, test::GoldenRun& results, Totals& totals) {
  const std::string name = test::text(run["name"]);
  Verdict verdict{.tolerance = tolerance_of(name), .worst_loss = 0, .why = {}};
  const Rerun rerun = run_again(run);
  const double worst_first = first_losses(run, rerun.trainer->curve(), verdict);
  history(run, rerun, verdict);
  checksums(run, rerun, verdict);
  const double theirs = test::number(seconds[name]);
  totals.ours += rerun.trainer->seconds();
  totals.theirs += theirs;
  print_row(run, rerun, worst_first, verdict.worst_loss, theirs);
  results.check(name, verdict.why.empty(), verdict.why);
}

bool is_optimised() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
  return false;
#else
  return true;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const std::set<std::string> only(argv + 1, argv + argc);
  const auto tables = test::golden_file("datasets/iris.csv"), times = test::golden_file("zoo/runs/seconds.json");
  if (tables) ::setenv("SKLEARN_DATA_DIR", tables->parent_path().c_str(), 0);
  core::set_num_threads(1);
  return test::golden_main("reference_runs", "zoo/runs/reference_runs.json", [&](Json root, test::GoldenRun& results) {
    const test::GoldenJson seconds(*times);
    Totals totals;
    std::printf("%-28s %10s %10s %9s %9s %8s %8s\n", "run", "ours", "PyTorch", "first 10", "history", "s", "s there");
    for (Json run : test::items(root["runs"])) {
      const std::string name = test::text(run["name"]);
      if (!only.empty() && !only.contains(name)) continue;
      test::guarded(results, name, [&] { check_run(run, seconds.root()["seconds"], results, totals); });
    }
    std::printf("processor seconds of the training loops: %.2f, of PyTorch's %.2f\n", totals.ours, totals.theirs);
    if (is_optimised()) results.check("time", totals.ours < totals.theirs, "slower than the recorded runs");
  });
}
