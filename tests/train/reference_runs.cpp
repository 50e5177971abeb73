// Every training run that PyTorch recorded (zoo/runs/reference_runs.json), run again with the same seed, model, data
// and options on one thread. Compared: the first ten losses, the history and the final parameters; in the five runs
// that make rounding grow, the history within PyTorch's own scatter (pytorch_scatter.h). Prints a table, with the
// processor seconds of both for a reader: a machine is too noisy to fail for them. With --means the accuracies of
// sixteen seeds are compared on the average. Use: golden_reference_runs [--means | NAME...]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "libcore/core.h"
#include "tests/support/golden_json.h"
#include "tests/train/pytorch_scatter.h"
#include "tests/zoo/formula.h"
#include "tools/train/plan.h"
#include "tools/train/trainer.h"

namespace {

using test::Json;
using train::RunOptions;

/// What the history of a run allows that gives the same numbers in every form of PyTorch.
constexpr double kLoss = 2e-4;      ///< relative
constexpr double kAccuracy = 0.15;  ///< percent points
/// Of a run that makes rounding grow: how many deviations of PyTorch's own results, and at least how much.
constexpr double kDeviations = 4;
constexpr double kLeastLoss = 2e-4;
constexpr double kLeastAccuracy = 0.05;

const test::ScatterRow* scatter_of(const std::string& run, std::int64_t epoch) {
  for (const test::ScatterRow& row : test::kScatter) {
    if (row.run == run && row.epoch == epoch) return &row;
  }
  return nullptr;
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

Rerun run_again(Json run, std::int64_t seed) {
  Rerun rerun{.options = options_of(run), .data = {}, .text = {}, .task = {}, .trainer = {}};
  RunOptions& o = rerun.options;
  o.seed = seed;
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
  double worst_loss = 0;  ///< of the history
  std::string why = {};

  void near(const std::string& what, double ours, double theirs, double allowed, double distance) {
    if (distance <= allowed) return;
    char text[160];
    std::snprintf(text, sizeof text, "%s: %.8g where PyTorch has %.8g; ", what.c_str(), ours, theirs);
    why += text;
  }
  /// `spread`: of PyTorch's own results, null where they do not scatter.
  void loss(const std::string& what, double ours, double theirs, const test::Spread* spread = nullptr) {
    worst_loss = std::max(worst_loss, relative(ours, theirs));
    const double allowed = spread == nullptr ? 0 : kDeviations * spread->deviation / spread->mean;
    const double middle = spread == nullptr ? theirs : spread->mean;
    near(what, ours, middle, std::max(allowed, spread == nullptr ? kLoss : kLeastLoss), relative(ours, middle));
  }
  /// 0 .. 1.
  void accuracy(const std::string& what, double ours, double theirs, const test::Spread* spread = nullptr) {
    const double allowed = spread == nullptr ? kAccuracy : std::max(kDeviations * spread->deviation, kLeastAccuracy);
    const double middle = spread == nullptr ? 100 * theirs : spread->mean;
    near(what, 100 * ours, middle, allowed, std::abs(100 * ours - middle));
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

void history_of_epoch(Json row, const train::EpochRow& ours, const test::ScatterRow* scatter, Verdict& verdict) {
  const std::string epoch = " of epoch " + std::to_string(ours.epoch);
  const auto spread = [&](test::Spread test::ScatterRow::*one) { return scatter ? &(scatter->*one) : nullptr; };
  using Row = test::ScatterRow;
  verdict.loss("training loss" + epoch, ours.loss, test::number(row["train_loss"]), spread(&Row::train_loss));
  if (test::has(row, "train_accuracy")) {
    verdict.accuracy("training accuracy" + epoch, *ours.accuracy, test::number(row["train_accuracy"]),
                     spread(&Row::train_accuracy));
  }
  if (test::has(row, "test_loss")) {
    verdict.loss("test loss" + epoch, ours.test->loss, test::number(row["test_loss"]), spread(&Row::test_loss));
  }
  if (test::has(row, "test_accuracy")) {
    verdict.accuracy("test accuracy" + epoch, *ours.test->accuracy, test::number(row["test_accuracy"]),
                     spread(&Row::test_accuracy));
  }
}

void history(Json run, const Rerun& rerun, Verdict& verdict) {
  const train::Curve& curve = rerun.trainer->curve();
  for (Json row : test::items(run["history"])) {
    if (!rerun.options.is_text) {
      const std::int64_t epoch = test::integer(row["epoch"]);
      history_of_epoch(row, curve.epochs.at(static_cast<std::size_t>(epoch - 1)),
                       scatter_of(test::text(run["name"]), epoch), verdict);
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

/// Sums of magnitudes of the final parameters. Only of runs that do not make rounding grow.
void checksums(Json run, const Rerun& rerun, Verdict& verdict) {
  if (!test::has(run, "checksums") || scatter_of(test::text(run["name"]), 1) != nullptr) return;
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
  Verdict verdict;
  const Rerun rerun = run_again(run, test::integer(run["seed"]));
  const double worst_first = first_losses(run, rerun.trainer->curve(), verdict);
  history(run, rerun, verdict);
  checksums(run, rerun, verdict);
  const double theirs = test::number(seconds[name]);
  totals.ours += rerun.trainer->seconds();
  totals.theirs += theirs;
  print_row(run, rerun, worst_first, verdict.worst_loss, theirs);
  results.check(name, verdict.why.empty(), verdict.why);
}

/// One run says little where rounding grows; sixteen seeds say whether results are as good on the whole. The order of
/// the rows and the initial weights of a seed are PyTorch's, so seeds are compared in pairs.
void check_mean(Json run, const test::SeedRow& seeds, test::GoldenRun& results) {
  double sum = 0, squares = 0, theirs = 0;
  for (std::size_t seed = 0; seed < seeds.right.size(); ++seed) {
    const Rerun rerun = run_again(run, static_cast<std::int64_t>(seed));
    const double their = 100.0 * static_cast<double>(seeds.right[seed]) / test::kTestRows;
    const double difference = 100 * *rerun.trainer->curve().epochs.back().test->accuracy - their;
    sum += difference;
    squares += difference * difference;
    theirs += their;
  }
  const auto n = static_cast<double>(seeds.right.size());
  const double mean = sum / n, error = std::sqrt(std::max(0.0, squares / n - mean * mean) / (n - 1));
  std::printf("%-28s %8.3f %% %8.3f %% %+8.3f, standard error %.3f\n", seeds.run, (theirs + sum) / n, theirs / n, mean,
              error);
  std::fflush(stdout);
  char why[120];
  std::snprintf(why, sizeof why, "%.3f points below PyTorch's mean, with a standard error of %.3f", -mean, error);
  results.check(seeds.run, mean >= -std::max(3 * error, kLeastAccuracy), why);
}

void check_means(Json root, test::GoldenRun& results) {
  std::printf("%-28s %10s %10s %8s\n", "test accuracy, mean", "ours", "PyTorch", "by");
  for (const test::SeedRow& seeds : test::kSeeds) {
    for (Json run : test::items(root["runs"])) {
      if (test::text(run["name"]) != seeds.run) continue;
      test::guarded(results, seeds.run, [&] { check_mean(run, seeds, results); });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::set<std::string> only(argv + 1, argv + argc);
  const auto tables = test::golden_file("datasets/iris.csv"), times = test::golden_file("zoo/runs/seconds.json");
  if (tables) ::setenv("SKLEARN_DATA_DIR", tables->parent_path().c_str(), 0);
  core::set_num_threads(1);
  if (only.contains("--means"))
    return test::golden_main("reference_means", "zoo/runs/reference_runs.json", check_means);
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
  });
}
