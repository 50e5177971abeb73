// Trains LeNet on Fashion-MNIST under DataParallel, saves weights and training state, resumes, evaluates.
// tools/demo.sh runs it beside the ckpt tool. Settings and results to compare with: `--rows 10000 --epochs 2`.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "libckpt/bridge.h"
#include "libckpt/io/atomic_file.h"
#include "libcore/core.h"
#include "samples/support/fashion.h"
#include "tools/support/line_chart.h"
#include "tools/support/step_progress.h"
#include "zoo/lenet.h"

namespace {

using core::Tensor;

struct TrainOptions {
  std::int64_t rows = 60000;
  std::int64_t epochs = 1;
  std::int64_t batch = 64;
  std::uint64_t seed = 0;
  double lr = 0.05;
  double momentum = 0.9;
  bool plain = false;
  bool quiet = false;
  std::string resume;
  std::string state;
  std::string weights;
  std::string log;
  std::string svg;
};

struct EvaluateOptions {
  std::string file;
  std::string map;
  bool parallel = false;
  bool strict = false;
};

/// A LeNet as it is, or under DataParallel on all devices; both answer to forward().
struct Net {
  explicit Net(bool plain) {
    if (plain) {
      module = std::make_shared<zoo::LeNet5>();
    } else {
      module = std::make_shared<core::DataParallel<zoo::LeNet5>>(zoo::LeNet5());
    }
    if (!plain && core::cuda::is_available()) device = core::Device("cuda:0");
    module->to(device);
  }
  Tensor forward(const Tensor& x) { return module->call(x.to(device)); }

  std::shared_ptr<core::Module> module;
  core::Device device;
};

void write_text(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  ckpt::AtomicFile file(path);
  file.write(core::as_bytes(text));
  file.commit();
}

std::string percent(std::int64_t right, std::int64_t total) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f %% (%lld of %lld)",
                100.0 * static_cast<double>(right) / static_cast<double>(total), static_cast<long long>(right),
                static_cast<long long>(total));
  return text;
}

/// One training run: the model, its optimizer, and the losses of the steps done by this process.
class Run {
 public:
  explicit Run(const TrainOptions& options)
      : options_(options),
        train_(zoo::fashion_mnist("train"), options.rows),
        test_(zoo::fashion_mnist("t10k")),
        net_((core::manual_seed(options.seed), options.plain)),
        optimizer_(net_.module->parameters(), {.lr = options.lr, .momentum = options.momentum}) {}

  void go() {
    if (!options_.resume.empty()) resume();
    core::DataLoader loader(train_, {.batch_size = options_.batch, .shuffle = true});
    while (progress_.epoch < options_.epochs) epoch(loader);
    save();
  }

 private:
  void resume() {
    progress_ = ckpt::resume_training(options_.resume, *net_.module, optimizer_);
    if (!options_.quiet) {
      std::cout << options_.resume << ": resumed behind epoch " << progress_.epoch << ", step " << progress_.step
                << '\n';
    }
  }

  template <class Loader>
  void epoch(const Loader& loader) {
    ++progress_.epoch;
    cli::Progress bar("epoch " + std::to_string(progress_.epoch), loader.size(), !options_.quiet);
    net_.module->train();
    double loss_sum = 0;
    std::int64_t right = 0;
    for (auto& [images, labels] : loader) {
      auto [loss, hits] = step(images, labels);
      loss_sum += static_cast<double>(loss) * static_cast<double>(images.size(0));
      right += hits;
      bar.advance("loss " + std::to_string(loss));
    }
    marks_.push_back(losses_.size());
    report(loss_sum / static_cast<double>(train_.size()), right);
  }

  /// Forward, loss on the gathered output, backward, update. Returns the loss and how many were right.
  std::pair<float, std::int64_t> step(const Tensor& images, const Tensor& labels) {
    Tensor target = labels.to(net_.device);             // (n)
    Tensor logits = net_.forward(images);               // (n, 10)
    Tensor loss = core::cross_entropy(logits, target);  // 0-dim
    optimizer_.zero_grad();
    loss.backward();
    optimizer_.step();
    ++progress_.step;
    float value = loss.item<float>();
    losses_.push_back(value);
    char line[64];
    std::snprintf(line, sizeof line, "%lld %a\n", static_cast<long long>(progress_.step), static_cast<double>(value));
    log_ += line;
    return {value, logits.detach().argmax(1).eq(target).sum().item<std::int64_t>()};
  }

  void report(double train_loss, std::int64_t right) {
    if (options_.quiet) return;
    net_.module->eval();
    std::int64_t test_right = samples::count_right(test_, [&](const Tensor& x) { return net_.forward(x); });
    std::printf("epoch %lld: train loss %.4f, accuracy %s; test accuracy %s\n", static_cast<long long>(progress_.epoch),
                train_loss, percent(right, train_.size()).c_str(), percent(test_right, test_.size()).c_str());
    std::fflush(stdout);
  }

  void save() {
    if (!options_.state.empty()) ckpt::save_training(options_.state, *net_.module, optimizer_, progress_);
    if (!options_.weights.empty()) ckpt::save(net_.module->state_dict(), options_.weights);
    write_text(options_.log, log_);
    cli::ChartOptions chart{.title = "LeNet on Fashion-MNIST", .x_label = "step", .y_label = "loss", .marks = marks_};
    if (!options_.svg.empty()) write_text(options_.svg, cli::loss_curve_svg(chart, losses_));
  }

  TrainOptions options_;
  samples::FashionMnist train_;
  samples::FashionMnist test_;
  Net net_;
  core::SGD optimizer_;
  ckpt::TrainingProgress progress_;
  std::vector<float> losses_;
  std::vector<std::size_t> marks_;
  std::string log_;
};

void evaluate(const EvaluateOptions& options) {
  samples::FashionMnist test(zoo::fashion_mnist("t10k"));
  Net net(!options.parallel);
  ckpt::MapLocation map = options.map.empty() ? ckpt::MapLocation() : ckpt::MapLocation(options.map);
  if (options.strict) {
    net.module->load_state_dict(ckpt::load(options.file, {.map_location = map}));
  } else {
    std::cout << ckpt::load_into(*net.module, options.file, {.map_location = map});
  }
  net.module->eval();
  std::int64_t right = samples::count_right(test, [&](const Tensor& x) { return net.forward(x); });
  std::cout << "accuracy " << percent(right, test.size()) << '\n';
}

std::string at_least_1(const std::string& text) {
  const bool is_less = text.starts_with('-') || text.find_first_not_of('0') == std::string::npos;
  return is_less ? "at least 1 is needed, not " + text : "";
}

void add_train(CLI::App& app, TrainOptions& o) {
  CLI::App* train = app.add_subcommand("train", "Train, and save weights and training state");
  train->add_option("--rows", o.rows, "use the first N images")->check(at_least_1)->capture_default_str();
  train->add_option("--epochs", o.epochs, "stop behind epoch N")->check(at_least_1)->capture_default_str();
  train->add_option("--batch", o.batch, "images a step")->check(at_least_1)->capture_default_str();
  train->add_option("--seed", o.seed, "of all random numbers")->capture_default_str();
  train->add_option("--lr", o.lr, "learning rate")->capture_default_str();
  train->add_option("--momentum", o.momentum, "of SGD")->capture_default_str();
  train->add_flag("--plain", o.plain, "without DataParallel, on the CPU");
  train->add_flag("--quiet", o.quiet, "print nothing while training");
  train->add_option("--resume", o.resume, "go on from this training state");
  train->add_option("--state", o.state, "write the training state here");
  train->add_option("--weights", o.weights, "write the model's state dict here");
  train->add_option("--log", o.log, "write step and loss (hexadecimal) here");
  train->add_option("--svg", o.svg, "draw the loss curve here");
  train->callback([&o] { Run(o).go(); });
}

void add_evaluate(CLI::App& app, EvaluateOptions& o) {
  CLI::App* evaluate_command = app.add_subcommand("evaluate", "Accuracy of a checkpoint on the test images");
  evaluate_command->add_option("file", o.file, "checkpoint")->required();
  evaluate_command->add_flag("--parallel", o.parallel, "load into DataParallel");
  evaluate_command->add_flag("--strict", o.strict, "keys must fit as they are, as in PyTorch");
  evaluate_command->add_option("--map", o.map, "map_location");
  evaluate_command->callback([&o] { evaluate(o); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("LeNet on Fashion-MNIST: trains, saves, resumes, evaluates", "fashion_lenet");
  app.require_subcommand(1);
  TrainOptions train_options;
  EvaluateOptions evaluate_options;
  add_train(app, train_options);
  add_evaluate(app, evaluate_options);
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || !std::cout.flush()) {
      throw core::Error(core::ErrorCode::io, std::string("standard output: ") + std::strerror(errno));
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const core::Error& error) {
    std::cerr << "fashion_lenet: " << error.what() << '\n';
    return 1;
  }
}
