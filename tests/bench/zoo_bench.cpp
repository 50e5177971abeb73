// Times the forward pass of a model of the zoo: eval mode, no gradients, inputs of the usual size.
// usage: zoo_bench MODEL [--batch N] [--threads N] [--rounds N] [--serve]
//        zoo_bench --list
// Prints a JSON line with the smallest time of a pass. With --serve it answers every line of standard input with the
// nanoseconds of one pass, so that two programs can take turns (zoo_table.py).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/threads.h"
#include "libcore/data/dataset.h"
#include "libcore/ops/loss.h"
#include "libcore/tensor/iterate.h"
#include "libcore/tensor/random.h"
#include "zoo/autoencoder.h"
#include "zoo/capsnet.h"
#include "zoo/word2vec.h"
#include "zoo/zoo.h"

namespace {

using core::Tensor;

/// Seconds. One thread is timed by the processor time it takes, which other programs do not lengthen.
double now(int threads) {
  if (threads == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr double kWarmBelow = 1e8;  // nanoseconds of a pass, before which one that is not timed fills the caches

struct Options {
  std::string model;
  std::int64_t batch = 1;
  int threads = 1;
  int rounds = 20;
  bool serve = false;
};

bool starts_with_any(const std::string& name, std::initializer_list<const char*> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](const char* start) { return name.rfind(start, 0) == 0; });
}

/// A batch as the model takes it.
Tensor input_for(const std::string& name, std::int64_t batch) {
  if (starts_with_any(name, {"gpt2", "distilgpt2", "nanogpt_gpt2", "bert", "llama"})) {
    return core::randint(0, 30000, {batch, 128});
  }
  if (name == "nanogpt_shakespeare_char") return core::randint(0, 65, {batch, 256});
  if (name.rfind("char_", 0) == 0) return core::randint(0, 40, {batch, 64});
  if (name == "bilstm_classifier") return core::randn({batch, 32, 12});
  if (name.rfind("encoder_classifier", 0) == 0) return core::randn({batch, 32, 16});
  if (name == "simple_rnn") return core::randn({32, batch, 10});
  if (name == "step_rnn") return core::randn({batch, 32, 10});
  if (starts_with_any(name, {"mlp", "autoencoder"})) return core::randn({batch, 784});
  if (starts_with_any(name, {"lenet5", "mnist_net", "batchnorm_net"})) return core::randn({batch, 1, 28, 28});
  if (name.rfind("capsnet", 0) == 0) return core::randn({batch, 1, 28, 28});
  if (name == "vae") return core::randn({batch, 784});
  if (name == "word2vec") return core::randint(0, 500, {batch, 11});
  if (name == "cifar_net") return core::randn({batch, 3, 32, 32});
  const std::int64_t side = name.rfind("inception", 0) == 0 ? 299 : 224;
  return core::randn({batch, 3, side, side});
}

/// One pass; some models take or give more than a tensor.
Tensor forward(core::Module& model, const Tensor& x) {
  if (auto* vae = dynamic_cast<zoo::VAE*>(&model)) return std::get<0>((*vae)(x));
  if (auto* capsules = dynamic_cast<zoo::CapsNet*>(&model)) return std::get<1>((*capsules)(x));
  if (auto* words = dynamic_cast<zoo::Word2Vec*>(&model)) return (*words)(x.select(1, 0), x.slice(1, 1));
  return model.call(x);
}

/// Nanoseconds of one pass. Passes that are too short to be timed are repeated.
double time_pass(core::Module& model, const Tensor& x, int repeats, int threads) {
  const double begin = now(threads);
  for (int i = 0; i < repeats; ++i) forward(model, x).contiguous().raw_data();
  return (now(threads) - begin) * 1e9 / repeats;
}

std::int64_t count_parameters(core::Module& model) {
  std::int64_t count = 0;
  for (const Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

int run(const Options& options) {
  core::set_num_threads(options.threads);
  core::manual_seed(0);
  auto model = zoo::make(options.model);
  model->eval();
  const Tensor x = input_for(options.model, options.batch);
  core::NoGradGuard no_grad;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 2; ++i) least = std::min(least, time_pass(*model, x, 1, options.threads));
  const int repeats = std::clamp(static_cast<int>(5e6 / std::max(least, 1.0)), 1, 1000);
  if (options.serve) {
    std::printf("{\"parameters\": %lld, \"keys\": %zu}\n", static_cast<long long>(count_parameters(*model)),
                model->state_dict().keys().size());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      if (least < kWarmBelow) time_pass(*model, x, 1, options.threads);
      std::printf("%.0f\n", time_pass(*model, x, repeats, options.threads));
      std::fflush(stdout);
    }
    return 0;
  }
  for (int i = 0; i < options.rounds; ++i) least = std::min(least, time_pass(*model, x, repeats, options.threads));
  std::printf("{\"model\": \"%s\", \"batch\": %lld, \"threads\": %d, \"ns\": %.0f}\n", options.model.c_str(),
              static_cast<long long>(options.batch), options.threads, least);
  return 0;
}

int usage() {
  std::fputs("usage: zoo_bench MODEL [--batch N] [--threads N] [--rounds N] [--serve]\n       zoo_bench --list\n",
             stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--list") {
      for (const zoo::Model& model : zoo::list()) std::puts(std::string(model.name).c_str());
      return 0;
    } else if (word == "--serve") {
      options.serve = true;
    } else if (word == "--batch" && has_value) {
      options.batch = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--threads" && has_value) {
      options.threads = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--rounds" && has_value) {
      options.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (options.model.empty() && word.rfind("--", 0) != 0) {
      options.model = word;
    } else {
      return usage();
    }
  }
  if (options.model.empty()) return usage();
  try {
    return run(options);
  } catch (const core::Error& error) {
    std::fprintf(stderr, "zoo_bench: %s\n", error.what());
    return 1;
  }
}
