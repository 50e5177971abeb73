// set_default_tensor_type: what is made without a device is made on the current GPU, modules too, and printing names
// the device of those that are elsewhere. Tutorial 004. PyTorch has deprecated it, says so, and so do we; the last
// lines are what takes its place.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

void run(samples::Program&) {
  core::set_warning_handler([](const std::string& text) { print("UserWarning:", text); });
  print(core::ones({2}));
  if (core::cuda::is_available()) {
    core::set_default_tensor_type("torch.cuda.FloatTensor");
    print(core::ones({2}), "on", core::ones({2}).device());
    print(core::ones({2}, {.device = "cpu"}));
    print("a new Linear is on", core::Linear(2, 2).weight.device());
  }
  core::set_default_tensor_type("torch.DoubleTensor");
  print(core::ones({2}), "is", core::ones({2}).dtype());
  print(core::ones({2}, {.dtype = core::DType::f32}));
  try {
    core::set_default_tensor_type("torch.LongTensor");
  } catch (const core::Error& e) {
    print(std::string(core::python_name(e.code())) + ":", e.what());
  }

  core::set_default_dtype(core::DType::f32);
  core::set_default_device(core::try_gpu());
  print(core::ones({2}), "on", core::ones({2}).device());
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv, {.about = "The default tensor type and its warning"}, run);
}
