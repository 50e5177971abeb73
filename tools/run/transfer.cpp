#include "tools/run/transfer.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "libcore/backend/device_registry.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/tensor.h"

namespace cli {
namespace {

constexpr double kSecondsEach = 0.04;
constexpr int kMaxTries = 200;

/// The shortest of as many tries as fit into kSecondsEach, at least three.
double best_time(core::Device device, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9, spent = 0;
  for (int i = 0; i < 3 || (spent < kSecondsEach && i < kMaxTries); ++i) {
    core::cuda::synchronize(device);
    const auto begin = Clock::now();
    work();
    core::cuda::synchronize(device);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

core::Tensor host_bytes(std::uint64_t bytes) {
  return core::zeros({static_cast<std::int64_t>(bytes)}, {.dtype = core::DType::u8, .device = core::Device("cpu")});
}

Transfer measure(core::Device device, std::uint64_t bytes) {
  const core::Tensor host = host_bytes(bytes);
  const core::Tensor pinned = core::pin_memory(host);
  const core::Tensor there = host.to(device);
  Transfer transfer{.bytes = bytes};
  transfer.to_device = best_time(device, [&] { host.to(device); });
  transfer.from_pinned = best_time(device, [&] { pinned.to({.device = device, .non_blocking = true}); });
  transfer.to_host = best_time(device, [&] { there.cpu(); });
  return transfer;
}

}  // namespace

TransferReport measure_transfers(core::Device device) {
  TransferReport report;
  report.device = device;
  for (std::uint64_t bytes :
       {4ULL, 1ULL << 10, 16ULL << 10, 256ULL << 10, 1ULL << 20, 4ULL << 20, 16ULL << 20, 64ULL << 20}) {
    report.sizes.push_back(measure(device, bytes));
  }
  report.parts = 1024;
  report.part_bytes = 4 << 10;
  const core::Tensor part = host_bytes(report.part_bytes), whole = host_bytes(report.parts * report.part_bytes);
  report.one_large = best_time(device, [&] { whole.to(device); });
  report.many_small = best_time(device, [&] {
    for (std::uint64_t i = 0; i < report.parts; ++i) part.to(device);
  });
  double rate = 0;
  for (const Transfer& t : report.sizes) rate = std::max(rate, static_cast<double>(t.bytes) / t.to_device);
  report.break_even = static_cast<std::uint64_t>(report.sizes.front().to_device * rate);
  return report;
}

}  // namespace cli
