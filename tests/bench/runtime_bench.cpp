// Times one step of the runtime: median nanoseconds over samples of at least 0.2 ms, after a warm-up.
// usage: runtime_bench --step NAME [--threads N] [--budget-s SECONDS] [--device cpu|cuda] [--serve] | --list
// On a device a sample ends with a synchronisation, and steps that train are replayed as one CUDA graph ("graph" says
// so). Where a step cannot run here the line is {"step": ..., "ok": null, "reason": ...} and the exit status 1.
// --serve: prints {} when it is warm, then for each line that it reads the nanoseconds per step of one sample of 5 ms;
// of processor time with one thread, by the clock on the wall with several (speed_table.py).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "libcore/core.h"
#include "tests/bench/bench_steps.h"

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Options {
  std::string step;
  int threads = 1;
  double budget = 2;
  core::Device device;
  bool serve = false;
};

/// Everything that was started on the device is done.
void finish(core::Device device) {
  if (device.is_cuda()) core::cuda::synchronize(device);
}

/// Nanoseconds of `inner` steps, each. Processor time where one thread does all: nothing else that runs adds to it.
double time_of(const bench::Step& step, int inner, bool by_processor) {
  const std::clock_t ticks = std::clock();
  const auto start = Clock::now();
  for (int i = 0; i < inner; ++i) step();
  const double seconds = by_processor ? static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC : since(start);
  return seconds / inner * 1e9;
}

int serve(const bench::Step& step, const Options& options) {
  const auto begin = Clock::now();
  for (int warm = 0; warm < 3 || since(begin) < 0.3; ++warm) step();
  double best = time_of(step, 3, false);
  for (int i = 0; i < 4; ++i) best = std::min(best, time_of(step, 3, false));
  const int inner = std::max(1, static_cast<int>(5e6 / best));
  std::puts("{}");
  std::fflush(stdout);
  const bool by_processor = options.threads == 1 && !options.step.starts_with("dp_two");
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%.1f\n", time_of(step, inner, by_processor));
    std::fflush(stdout);
  }
  return 0;
}

int cannot_run(const Options& options, const std::string& reason) {
  std::printf("{\"step\": \"%s\", \"device\": \"%s\", \"ok\": null, \"reason\": \"%s\"}\n", options.step.c_str(),
              options.device.str().c_str(), reason.c_str());
  return 1;
}

int time_step(const bench::StepKind& kind, const Options& options) {
  if (options.device.is_cuda() && !core::cuda::is_available()) return cannot_run(options, "no CUDA device");
  core::set_num_threads(options.threads);
  core::manual_seed(0);
  bench::Step step = kind.make(options.device);
  if (!step) return cannot_run(options, "needs a CUDA device");
  if (options.serve) return serve(step, options);
  bench::wants_value = !options.device.is_cuda();
  double check = 0;
  int warm = 0;
  auto begin = Clock::now();
  for (; warm < 3 || since(begin) < options.budget / 4; ++warm) check = step(), finish(options.device);
  int inner = std::max(1, static_cast<int>(2e-4 / (since(begin) / warm)));
  std::vector<double> samples;
  begin = Clock::now();
  while (samples.size() < 5 || since(begin) < options.budget) {
    auto start = Clock::now();
    for (int i = 0; i < inner; ++i) check = step();
    finish(options.device);
    samples.push_back(since(start) / inner * 1e9);
  }
  std::sort(samples.begin(), samples.end());
  bench::wants_value = true;
  if (options.device.is_cuda()) check = step();
  std::printf("{\"step\": \"%s\", \"ns\": %.1f, \"min\": %.1f, \"max\": %.1f, \"samples\": %zu, \"check\": %.6g",
              options.step.c_str(), samples[samples.size() / 2], samples.front(), samples.back(), samples.size(),
              check);
  if (options.device.is_cuda()) {
    std::printf(", \"device\": \"%s\", \"graph\": \"%s\"", options.device.str().c_str(), bench::graph_note().c_str());
  }
  std::puts("}");
  return std::isfinite(check) ? 0 : 1;
}

int list_steps() {
  for (bench::StepTable (*table)() : bench::all_tables) {
    for (const bench::StepKind& kind : table()) {
      std::printf("%-20s %s\n", std::string(kind.name).c_str(), std::string(kind.about).c_str());
    }
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--list") return list_steps();
    if (name == "--serve") {
      options.serve = true;
      continue;
    }
    if (i + 1 == arguments.size()) return 2;
    const std::string& value = arguments[++i];
    if (name == "--step") options.step = value;
    if (name == "--threads") options.threads = std::max(1, std::atoi(value.c_str()));
    if (name == "--budget-s") options.budget = std::atof(value.c_str());
    if (name == "--device") options.device = core::Device(value);
  }
  for (bench::StepTable (*table)() : bench::all_tables) {
    for (const bench::StepKind& kind : table()) {
      if (kind.name == options.step) return time_step(kind, options);
    }
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int status = run({argv + 1, argv + argc});
    if (status == 2) {
      std::fputs(
          "usage: runtime_bench --step NAME [--threads N] [--budget-s SECONDS] [--device cpu] [--serve] | --list\n",
          stderr);
    }
    return status;
  } catch (const core::Error& error) {
    std::fprintf(stderr, "runtime_bench: %s\n", error.what());
    return 1;
  }
}
