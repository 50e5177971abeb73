#include "tools/run/transfer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "libcore/backend/device_registry.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/foreach_copy.h"
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

/// The sizes that are measured, ascending.
std::vector<std::uint64_t> sizes_for(core::Device device) {
  std::vector<std::uint64_t> sizes{4,          1ULL << 10, 4ULL << 10,  16ULL << 10, 256ULL << 10,
                                   1ULL << 20, 4ULL << 20, 16ULL << 20, 64ULL << 20};
  if (core::backend_for(device).info().is_logical) return sizes;
  const std::uint64_t room = core::cuda::mem_get_info(device).free / 4;
  for (const std::uint64_t bytes : {256ULL << 20, 1ULL << 30}) {
    if (bytes < room) sizes.push_back(bytes);
  }
  return sizes;
}

/// The line through one column of the table.
CostModel model_of(const std::vector<Transfer>& sizes, double Transfer::*column) {
  std::vector<std::uint64_t> bytes;
  std::vector<double> seconds;
  for (const Transfer& t : sizes) {
    if (t.bytes < 4 << 10) continue;
    bytes.push_back(t.bytes);
    seconds.push_back(t.*column);
  }
  return fit(bytes, seconds);
}

/// The same bytes in three ways.
void measure_parts(TransferReport& report) {
  report.parts = 1024;
  report.part_bytes = 4 << 10;
  const core::Device device = report.device;
  const core::Tensor whole = host_bytes(report.parts * report.part_bytes);
  std::vector<core::Tensor> parts;
  for (std::uint64_t i = 0; i < report.parts; ++i) parts.push_back(host_bytes(report.part_bytes));
  report.one_large = best_time(device, [&] { whole.to(device); });
  report.together = best_time(device, [&] { core::to_device(parts, device); });
  report.many_small = best_time(device, [&] {
    for (const core::Tensor& part : parts) part.to(device);
  });
}

}  // namespace

/// Least squares of the relative deviations; a line that would begin below zero begins there.
CostModel fit(const std::vector<std::uint64_t>& bytes, const std::vector<double>& seconds) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double x = static_cast<double>(bytes[i]), y = seconds[i], weight = 1 / (y * y);
    w += weight, wx += weight * x, wxx += weight * x * x, wy += weight * y, wxy += weight * x * y;
  }
  double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  double start = (wy - slope * wx) / w;
  if (start < 0) start = 0, slope = wxy / wxx;
  CostModel model{.latency = start, .bytes_per_second = 1 / slope};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double expected = start + slope * static_cast<double>(bytes[i]);
    model.error = std::max(model.error, std::abs(expected / seconds[i] - 1));
  }
  return model;
}

TransferReport measure_transfers(core::Device device) {
  TransferReport report;
  report.device = device;
  for (const std::uint64_t bytes : sizes_for(device)) report.sizes.push_back(measure(device, bytes));
  measure_parts(report);
  report.to_device = model_of(report.sizes, &Transfer::to_device);
  report.from_pinned = model_of(report.sizes, &Transfer::from_pinned);
  report.to_host = model_of(report.sizes, &Transfer::to_host);
  double rate = 0;
  for (const Transfer& t : report.sizes) rate = std::max(rate, static_cast<double>(t.bytes) / t.to_device);
  report.break_even = static_cast<std::uint64_t>(report.sizes.front().to_device * rate);
  return report;
}

}  // namespace cli
