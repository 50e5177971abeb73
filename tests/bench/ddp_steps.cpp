// ddp_steps WIDTHS BATCH STEPS [MIB]: steps of DistributedDataParallel on Gloo, started by a launcher as the ranks.
// WIDTHS is the perceptron, as 32,64,64,10, MIB the cap of a bucket (by default 1 for the first, 25). Prints one JSON
// line, seconds of the median step: with the gradients summed over the ranks (and the processor time of all threads of
// a rank in a step), under no_sync() (and its backward pass alone), and summing as many bytes as the gradients have by
// themselves, in buckets one after the other; then 64 MiB at once. ddp_table.py sets it beside PyTorch.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "libcore/core.h"
#include "libcore/dist.h"

namespace {

namespace dist = core::distributed;
using Clock = std::chrono::steady_clock;

constexpr int kWarm = 5;                                    // steps that are not measured
constexpr std::int64_t kMiB = 1 << 18, kLarge = 64 * kMiB;  // floats

std::vector<std::int64_t> numbers(const std::string& list) {
  std::vector<std::int64_t> out;
  std::istringstream text(list);
  for (std::string number; std::getline(text, number, ',');) out.push_back(std::stoll(number));
  return out;
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double median_of(std::vector<double> taken) {
  std::sort(taken.begin(), taken.end());
  return taken[taken.size() / 2];
}

double median_seconds(int steps, const std::function<void()>& step) {
  for (int i = 0; i < kWarm; ++i) step();  // buckets are rebuilt behind the first
  std::vector<double> taken;
  for (int i = 0; i < steps; ++i) {
    dist::barrier();
    const Clock::time_point start = Clock::now();
    step();
    taken.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return median_of(std::move(taken));
}

/// `cap`: of a bucket, in MiB; 0: as by default.
int run(const std::vector<std::int64_t>& widths, std::int64_t batch, int steps, int cap) {
  dist::init_process_group({.backend = "gloo"});
  core::manual_seed(0);
  core::Sequential net;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) net.append(core::ReLU());
    net.append(core::Linear(widths[i], widths[i + 1]));
  }
  dist::DistributedDataParallelOptions options;
  if (cap > 0) options.bucket_cap_mb = cap;
  dist::DistributedDataParallel model(net, options);
  core::SGD optimizer(net.parameters(), {.lr = 0.01});
  const core::Tensor x = core::randn({batch, widths.front()});
  const core::Tensor y = core::zeros({batch}, {.dtype = core::DType::i64});
  std::vector<double> backward;
  const auto step = [&] {
    optimizer.zero_grad();
    const core::Tensor loss = core::cross_entropy(model(x), y);
    const Clock::time_point start = Clock::now();
    loss.backward();
    backward.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    optimizer.step();
  };
  const double before = processor_seconds();
  const double summed = median_seconds(steps, step);
  const double processor = (processor_seconds() - before) / (kWarm + steps);
  double alone = 0;
  {
    const auto scope = model.no_sync();
    backward.clear();
    alone = median_seconds(steps, step);
  }
  std::int64_t floats = 0;
  for (const auto& parameter : net.parameters()) floats += parameter.numel();
  std::vector<core::Tensor> buckets;
  for (std::int64_t left = floats; left > 0; left -= buckets.back().numel()) {
    buckets.push_back(core::zeros({std::min(left, kMiB * (cap > 0 ? cap : buckets.empty() ? 1 : 25))}));
  }
  const double sums = median_seconds(steps, [&] {
    for (core::Tensor& bucket : buckets) dist::all_reduce(bucket);
  });
  core::Tensor large = core::zeros({kLarge});
  const double large_sum = median_seconds(std::min(steps, 20), [&] { dist::all_reduce(large); });
  if (dist::get_rank() == 0) {
    std::printf(
        "{\"parameters\": %lld, \"ddp_s\": %.7f, \"cpu_s\": %.7f, \"no_sync_s\": %.7f, \"backward_s\": %.7f, "
        "\"all_reduce_s\": %.7f, \"large_s\": %.7f}\n",
        static_cast<long long>(floats), summed, processor, alone, median_of(backward), sums, large_sum);
  }
  dist::destroy_process_group();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return std::fprintf(stderr, "ddp_steps WIDTHS BATCH STEPS [MIB]\n"), 2;
  const int cap = argc == 5 ? std::atoi(argv[4]) : 0;
  return dist::run_main([&] { return run(numbers(argv[1]), std::atoll(argv[2]), std::atoi(argv[3]), cap); });
}
