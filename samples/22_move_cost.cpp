// What moving data to a device costs: time by size from pageable and from pinned memory and back, one large tensor
// against many small ones, and when the trip pays. Tutorial 000 asks. Times are the best of several; of one thread.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using core::Tensor;

constexpr std::int64_t kFloats = 4;  // bytes of one

/// Seconds that one call of `work` takes, the device's part included.
template <class Work>
double seconds(const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9, total = 0;
  for (int i = 0; i < 3 || (total < 0.05 && i < 1000); ++i) {
    auto begin = Clock::now();
    work();
    core::cuda::synchronize();
    double took = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, took);
    total += took;
  }
  return best;
}

std::string size_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", bytes, units[unit]);
  return text;
}

/// Time = latency + bytes / rate.
struct Cost {
  double latency = 0;  ///< s
  double rate = 0;     ///< bytes/s
};

struct Row {
  double pageable, pinned, back;  ///< s
};

Row measure(std::int64_t bytes, core::Device device) {
  Tensor host = core::ones({bytes / kFloats});
  Tensor pinned = core::pin_memory(host), there = host.to(device);
  return {.pageable = seconds([&] { (void)host.to(device); }),
          .pinned = seconds([&] { (void)pinned.to({.device = device, .non_blocking = true}); }),
          .back = seconds([&] { (void)there.cpu(); })};
}

Cost by_size(std::int64_t largest, core::Device device) {
  std::printf("%10s  %22s  %22s  %22s\n", "size", "pageable -> device", "pinned -> device", "device -> host");
  Cost cost;
  for (std::int64_t bytes = 4096; bytes <= largest; bytes *= 8) {
    Row row = measure(bytes, device);
    auto size = static_cast<double>(bytes);
    std::printf("%10s", size_text(size).c_str());
    for (double time : {row.pageable, row.pinned, row.back}) {
      std::printf("  %9.1f us %6.1f GB/s", time * 1e6, size / time / 1e9);
    }
    std::printf("\n");
    if (bytes == 4096) cost.latency = row.pinned;
    cost.rate = std::max(cost.rate, size / row.pinned);
  }
  return cost;
}

/// The same bytes as one tensor, as many, and as many that are joined for the trip.
void one_or_many(std::int64_t count, core::Device device) {
  std::vector<Tensor> small;
  for (std::int64_t i = 0; i < count; ++i) small.push_back(core::ones({1024}));
  Tensor large = core::ones({count * 1024});
  double one = seconds([&] { (void)large.to(device); });
  double many = seconds([&] {
    for (const Tensor& each : small) (void)each.to(device);
  });
  double joined = seconds([&] { (void)core::cat(small).to(device).split(1024); });
  std::printf(
      "%lld tensors of 4 KiB one by one %.0f us, joined, moved and split again %.0f us, as one tensor %.0f us\n",
      static_cast<long long>(count), many * 1e6, joined * 1e6, one * 1e6);
}

/// Operations a second of a matrix product of 1024 x 1024.
double product_rate(core::Device device) {
  Tensor a = core::ones({1024, 1024}, {.device = device});
  return 2.0 * 1024 * 1024 * 1024 / seconds([&] { (void)core::matmul(a, a); });
}

void when_it_pays(const Cost& cost, core::Device device) {
  double here = product_rate("cpu"), there = product_rate(device);
  std::printf("matrix products: CPU %.0f GFLOP/s, %s %.0f GFLOP/s\n", here / 1e9, device.str().c_str(), there / 1e9);
  if (there < 1.2 * here) {
    std::printf("the trip never pays here: the device is not faster than the CPU\n");
    return;
  }
  std::printf("the trip pays from %.0f operations for every byte moved\n", 1 / cost.rate / (1 / here - 1 / there));
}

void run(samples::Program& program) {
  if (!core::cuda::is_available()) {
    throw core::Error(core::ErrorCode::device, "there is no device; CORE_LOGICAL_DEVICES=1 stands in for one");
  }
  constexpr std::int64_t kMost = 1 << 20;  // MiB, or tensors of 4 KiB
  for (const char* name : {"megabytes", "tensors"}) {
    const std::int64_t value = program.integer(name);
    if (value <= kMost) continue;
    throw core::Error(core::ErrorCode::value, "--" + std::string(name) + " is at most " + std::to_string(kMost) +
                                                  ", not " + std::to_string(value));
  }
  core::Device device("cuda:0");
  core::DeviceInfo info = core::cuda::device_info(0);
  std::printf("cuda:0 is %s\n", info.name.c_str());
  if (info.is_logical)
    std::printf("(its memory is the host's: a move is a copy within it, and pinning changes nothing)\n");
  core::set_num_threads(1);
  Cost cost = by_size(program.integer("megabytes") << 20, device);
  std::printf("latency %.1f us, %.1f GB/s: below %s the latency is the larger part, so join what is smaller\n",
              cost.latency * 1e6, cost.rate / 1e9, size_text(cost.latency * cost.rate).c_str());
  one_or_many(program.integer("tensors"), device);
  Tensor there = core::ones({1024}, {.device = device});
  std::printf("to() of a tensor that is there already: %.0f ns\n", seconds([&] {
                                                                     for (int i = 0; i < 1000; ++i)
                                                                       (void)there.to(device);
                                                                   }) * 1e6);
  when_it_pays(cost, device);
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv,
      {.about = "Measures what moving data to a device costs",
       .options = {{"megabytes", 128, "the largest tensor", 1}, {"tensors", 4096, "how many small ones", 1}}},
      run);
}
