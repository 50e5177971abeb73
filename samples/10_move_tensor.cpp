// Moves a tensor to a device and back. Tutorial 000, first program.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

void run(samples::Program& program) {
  core::Tensor x = core::empty({2, 3});  // T.Tensor(2, 3): whatever lay in memory; here what it was in the tutorial
  x.copy_(core::tensor({{4.0046e-11, 6.4097e-10, 8.1546e-33}, {7.2661e+31, 6.8608e+22, 5.4959e+31}}));
  print(x);
  if (core::cuda::is_available()) {
    core::Device device("cuda");                              // no index: the current device
    core::Tensor y = core::ones_like(x, {.device = device});  // made there
    print(y);
    x = x.to(device);  // x cpu->cuda
    print(x);
    x = x.to("cpu", core::DType::f64);  // x cuda->cpu
    print(x);
  }
  program.keep("x", x);
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv, {.about = "Moves a tensor to a device and back"}, run);
}
