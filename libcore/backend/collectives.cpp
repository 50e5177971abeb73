#include "libcore/backend/collectives.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cuda/nccl.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/graph_capture.h"

namespace core {
namespace {

std::atomic<bool>& enabled() {
  static std::atomic<bool> on = [] {
    const char* text = std::getenv("CORE_NCCL");
    return text == nullptr || std::string_view(text) != "0";
  }();
  return on;
}

/// The GPUs of a collective; none where NCCL has nothing to do with them.
std::vector<CudaBackend*> gpus_of(std::span<const Device> devices) {
  std::vector<CudaBackend*> gpus;
  for (Device device : devices) {
    auto* gpu = dynamic_cast<CudaBackend*>(&backend_for(device));
    if (gpu == nullptr || (!gpus.empty() && &gpu->api() != &gpus[0]->api())) return {};
    const bool is_twice = std::any_of(gpus.begin(), gpus.end(), [&](auto* one) { return one->gpu() == gpu->gpu(); });
    if (is_twice) return {};
    gpus.push_back(gpu);
  }
  return gpus;
}

/// Null where these devices have to be copied to.
gpu::Nccl* nccl_for(std::span<const Device> devices, std::vector<CudaBackend*>& gpus) {
  if (devices.size() < 2 || !enabled() || GraphCapture::any()) return nullptr;
  gpus = gpus_of(devices);
  gpu::Nccl* nccl = gpus.empty() ? nullptr : gpus[0]->api().collectives();
  if (nccl == nullptr) return nullptr;
  std::vector<int> numbers;
  for (const CudaBackend* gpu : gpus) numbers.push_back(gpu->gpu());
  const gpu::RelaxedCapture relaxed(gpus[0]->api());
  return nccl->connect(numbers) ? nccl : nullptr;
}

template <class Start>
bool run(std::span<const detail::CollectivePart> parts, Start start) {
  std::vector<Device> devices;
  for (const auto& part : parts) devices.push_back(part.device);
  std::vector<CudaBackend*> gpus;
  gpu::Nccl* nccl = nccl_for(devices, gpus);
  if (nccl == nullptr) return false;
  std::vector<gpu::Nccl::Rank> ranks;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    gpus[i]->check_alive();
    ranks.push_back({gpus[i]->gpu(), parts[i].in, parts[i].out, gpus[i]->current_stream()});
  }
  const CudaBackend::Current here(*gpus[0]);
  start(*nccl, ranks);
  return true;
}

}  // namespace

namespace nccl {

bool is_available(const std::vector<Device>& devices) {
  std::vector<CudaBackend*> gpus;
  return nccl_for(devices, gpus) != nullptr;
}

std::string version() {
  if (!cuda::is_available()) return {};
  const auto* gpu = dynamic_cast<CudaBackend*>(&backend_for(DeviceType::cuda));
  const gpu::Nccl* nccl = gpu != nullptr ? gpu->api().collectives() : nullptr;
  if (nccl == nullptr) return {};
  const int number = nccl->version();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

bool is_enabled() {
  return enabled();
}
void set_enabled(bool on) {
  enabled() = on;
}

}  // namespace nccl

bool detail::broadcast_by_nccl(std::span<const CollectivePart> parts, std::size_t bytes) {
  return bytes > 0 && run(parts, [&](gpu::Nccl& nccl, const auto& ranks) { nccl.broadcast(ranks, bytes); });
}

bool detail::sum_by_nccl(std::span<const CollectivePart> parts, std::size_t root, std::int64_t count, DType dtype) {
  if (count == 0 || !gpu::Nccl::can_sum(dtype)) return false;
  return run(parts, [&](gpu::Nccl& nccl, const auto& ranks) {
    nccl.reduce(ranks, root, static_cast<std::size_t>(count), dtype);
  });
}

}  // namespace core
