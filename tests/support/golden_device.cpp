#include "tests/support/golden_device.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "libcore/backend/cuda_math.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"

namespace test {
namespace {

const core::OpTables& golden_kernels() {
  const char* kernels = std::getenv("CKPT_GOLDEN_KERNELS");
  if (kernels == nullptr || std::string(kernels) != "cuda") return core::logical_op_tables();
  return emulated_tables();
}

/// Whether there is no GPU to compute on.
bool on_host_memory() {
  return !core::cuda::is_available() || core::cuda::device_name(0).find("host memory") != std::string::npos;
}

/// Exit status of a test that is skipped.
constexpr int kSkipped = 77;

}  // namespace

bool on_golden_gpu() {
  const char* text = std::getenv("CKPT_GOLDEN_GPU");
  return text != nullptr && std::string(text) == "1";
}

core::Device golden_device() {
  const char* name = std::getenv("CKPT_GOLDEN_DEVICE");
  return name != nullptr && *name != '\0' ? core::Device(name) : core::Device();
}

bool on_golden_device() {
  return !golden_device().is_cpu();
}

void compute_on_golden_device() {
  set_golden_devices(0);
  core::cudnn::set_allow_tf32(false);  // the data were computed in f32
  core::set_default_device(golden_device());
}

void set_golden_devices(int count) {
  if (!on_golden_device()) return core::set_logical_devices(count);
  if (on_golden_gpu() && on_host_memory()) {
    std::puts("skipped: there is no GPU");
    std::exit(kSkipped);
  }
  if (on_host_memory()) core::set_opaque_devices(count == 0 ? 1 : count, golden_kernels());
}

void set_emulated_devices(int count) {
  core::set_opaque_devices(count, emulated_tables());
}

bool drew_on_golden_device() {
  if (!on_golden_device()) return false;
  const core::Generator generator = core::default_generator(golden_device());
  core::Generator fresh = generator.clone();
  fresh.manual_seed(generator.initial_seed());
  return fresh.state() != generator.state();
}

bool is_same_error(const std::string& ours, const std::string& wanted) {
  if (ours == wanted) return true;
  return wanted.find("not implemented for") != std::string::npos && ours == wanted + " on " + golden_device().str();
}

bool is_same_node(const std::string& ours, const std::string& wanted) {
  if (ours == wanted) return true;
  const bool is_layer = wanted == "MkldnnRnnLayerBackward0" || wanted == "StackBackward0";
  return on_golden_gpu() && is_layer && ours == "CudnnRnnBackward0";
}

}  // namespace test
