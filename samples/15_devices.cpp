// Devices: how they are named, how many there are, and what to use when there are fewer. Tutorial 002.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;
using samples::repr;

void run(samples::Program&) {
  print(repr(std::tuple(core::Device("cpu"), core::Device("cuda"), core::Device("cuda:1"))));
  print(core::cuda::device_count());
  samples::pprint(repr(std::tuple(core::try_gpu(), core::try_gpu(10), core::try_all_gpus())));
  core::Tensor x = core::tensor({1, 2, 3});
  print(repr(x.device()));
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv, {.about = "Devices, try_gpu, try_all_gpus"}, run);
}
