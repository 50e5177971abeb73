// Times the large steps of a GPU; one JSON line each, which gpu_peer.py sets beside PyTorch's times.
// usage: gpu_bench [--scale 1] [--only NAME] [--device cuda:0] [--once]
// --once runs each step a single time, for sanitizers and profilers. Exit status: 0; 1 where a step failed; 2 for wrong
// arguments.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "libcore/backend/device_registry.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/iterate.h"
#include "tests/gpu/large_steps.h"

namespace {

struct Options {
  core::Device device{"cuda:0"};
  double scale = 1;
  std::string only;
  bool once = false;
};

class Timer {
 public:
  explicit Timer(const Options& options) : options_(options) {}

  void operator()(const std::string& name, const std::function<void()>& step) {
    if (name.find(options_.only) == std::string::npos) return;
    try {
      print(name, options_.once ? run_once(step) : median_of_groups(step));
    } catch (const core::Error& error) {
      failed(name, error.what());
      // A logical device has the CPU's kernels: fewer in 16 bits.
      if (error.code() != core::ErrorCode::not_implemented) failures_ = true;
    }
  }

  void failed_group(const std::string& name, const std::string& text) {
    failures_ = true;
    failed(name, text);
  }

  bool failures() const { return failures_; }

 private:
  static void failed(const std::string& name, std::string text) {
    for (char& c : text) c = c == '"' || c == '\n' || c == '\\' ? ' ' : c;
    std::printf("{\"name\": \"%s\", \"error\": \"%s\"}\n", name.c_str(), text.substr(0, 300).c_str());
    std::fflush(stdout);
  }

  struct Times {
    double microseconds = 0;
    double spread = 1;  ///< slowest group / fastest
  };

  double seconds_of(const std::function<void()>& step, int count) const {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) step();
    core::cuda::synchronize(options_.device);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / count;
  }

  Times run_once(const std::function<void()>& step) const { return {.microseconds = 1e6 * seconds_of(step, 1)}; }

  /// Of 7 groups after a warm-up, each of about 30 ms.
  Times median_of_groups(const std::function<void()>& step) const {
    seconds_of(step, 3);
    const int count = std::clamp(static_cast<int>(0.03 / std::max(1e-6, seconds_of(step, 1))), 1, 200);
    std::vector<double> seconds;
    for (int i = 0; i < 7; ++i) seconds.push_back(seconds_of(step, count));
    std::sort(seconds.begin(), seconds.end());
    return {.microseconds = 1e6 * seconds[3], .spread = seconds[6] / seconds[0]};
  }

  static void print(const std::string& name, const Times& times) {
    std::printf("{\"name\": \"%s\", \"us\": %.2f, \"spread\": %.3f}\n", name.c_str(), times.microseconds, times.spread);
    std::fflush(stdout);
  }

  const Options& options_;
  bool failures_ = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--once") {
      options.once = true;
    } else if (word == "--scale" && has_value) {
      options.scale = std::atof(argv[++i]);
    } else if (word == "--only" && has_value) {
      options.only = argv[++i];
    } else if (word == "--device" && has_value) {
      options.device = core::Device(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: gpu_bench [--scale 1] [--only NAME] [--device cuda:0] [--once]\n");
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  core::manual_seed(0);
  Timer timer(options);
  const bench::LargeSteps steps(options.device, options.scale, std::ref(timer));
  for (const auto& [name, add] : bench::large_step_groups()) {
    try {
      add(steps);
    } catch (const std::exception& error) {
      timer.failed_group(name, error.what());
    }
    core::cuda::empty_cache();
  }
  return timer.failures() ? 1 : 0;
}
