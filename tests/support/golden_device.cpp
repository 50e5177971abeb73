#include "tests/support/golden_device.h"

#include <cstdlib>
#include <string>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"

namespace test {
namespace {

/// The slots that a CUDA device has, on host memory; products, which a library computes there, are the CPU's.
struct EmulatedTables {
  core::ElementwiseTable elementwise;
  core::ReductionTable reduction;
  core::CopyTable copy;
  core::IndexingTable indexing;
  core::NnTable nn;
  core::RecurrentTable recurrent;
  core::RandomTable random;
  core::OptimizerTable optimizer;
  core::OpTables all;

  EmulatedTables() {
    namespace kernels = core::emulated_kernels;
    kernels::fill_elementwise(elementwise);
    kernels::fill_compare(elementwise);
    kernels::fill_ternary(elementwise);
    kernels::fill_reductions(reduction);
    kernels::fill_scans(reduction);
    kernels::fill_sorts(reduction);
    kernels::fill_copies(copy);
    kernels::fill_indexing(indexing);
    kernels::fill_random(random);
    kernels::fill_convolution(nn);
    kernels::fill_pooling(nn);
    kernels::fill_norms(nn);
    kernels::fill_softmax(nn);
    kernels::fill_losses(nn);
    kernels::fill_attention(nn);
    kernels::fill_recurrent(recurrent);
    kernels::fill_optimizers(optimizer);
    all = {&elementwise, &reduction, core::cpu_op_tables().matmul, &copy, &indexing, &nn, &recurrent,
           &random,      &optimizer};
  }
};

const core::OpTables& emulated_kernels() {
  static const auto* tables = new EmulatedTables;
  return tables->all;
}

const core::OpTables& golden_kernels() {
  const char* kernels = std::getenv("CKPT_GOLDEN_KERNELS");
  const bool emulates = kernels != nullptr && std::string(kernels) == "cuda";
  return emulates ? emulated_kernels() : core::cpu_op_tables();
}

/// Whether there is no GPU to compute on.
bool on_host_memory() {
  return !core::cuda::is_available() || core::cuda::device_name(0).find("host memory") != std::string::npos;
}

}  // namespace

core::Device golden_device() {
  const char* name = std::getenv("CKPT_GOLDEN_DEVICE");
  return name != nullptr && *name != '\0' ? core::Device(name) : core::Device();
}

bool on_golden_device() {
  return !golden_device().is_cpu();
}

void compute_on_golden_device() {
  set_golden_devices(0);
  core::set_default_device(golden_device());
}

void set_golden_devices(int count) {
  if (!on_golden_device()) return core::set_logical_devices(count);
  if (on_host_memory()) core::set_opaque_devices(count == 0 ? 1 : count, golden_kernels());
}

void set_emulated_devices(int count) {
  core::set_opaque_devices(count, emulated_kernels());
}

bool drew_on_golden_device() {
  if (!on_golden_device()) return false;
  const core::Generator generator = core::default_generator(golden_device());
  core::Generator fresh = generator.clone();
  fresh.manual_seed(generator.initial_seed());
  return fresh.state() != generator.state();
}

}  // namespace test
