// The devices in the shape of nvidia-smi, before and after a tensor of 24 bytes; and which device of the machine stands
// behind which name. Tutorials 002 and 004. Try CUDA_VISIBLE_DEVICES=1,3 or 3,1 (no spaces), an empty one, -1.
#include <iostream>

#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

void print_order() {
  print(core::cuda::device_count(), "devices");
  for (int i = 0; i < core::cuda::device_count(); ++i) {
    core::DeviceInfo info = core::cuda::device_info(i);
    print(info.device, "is number", info.ordinal, "of the machine:", info.name + ",", info.pci_bus_id, info.uuid);
  }
}

void run(samples::Program& program) {
  if (program.flag("order")) return print_order();
  std::cout << core::cuda::device_table();
  core::Tensor X = core::ones({2, 3}, {.device = core::try_gpu()});
  print(X);
  if (!X.is_cuda()) return;
  std::cout << core::cuda::device_table();
  print("24 bytes of values;", core::cuda::memory_allocated(), "allocated: blocks are multiples of 512;",
        core::cuda::memory_reserved(), "reserved: small blocks are cut from pieces of 2 MiB");
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv, {.about = "Table of the devices", .options = {{"order", false, "only which device has which name"}}},
      run);
}
