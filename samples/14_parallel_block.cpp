// DataParallel around one block of a model; works unchanged without devices. First part of the multi-GPU examples that
// tutorial 000 asks for; the other parts are in 27_multi_gpu.cpp.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

struct DataParallelModel : core::ModuleOf<DataParallelModel> {
  core::Linear block1{10, 20};
  core::DataParallel<core::Linear> block2{core::Linear(20, 20)};
  core::Linear block3{20, 20};

  void members(core::Members& m) override { m.child("block1", block1).child("block2", block2).child("block3", block3); }
  core::Tensor forward(const core::Tensor& x) { return block3(block2(block1(x))); }
};

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  DataParallelModel model;
  print(model);
  for (const auto& [name, parameter] : model.named_parameters()) print(name, parameter.sizes());
  core::Tensor x = core::randn({6, 10});
  model.to(core::try_gpu());
  core::Tensor y = model(x.to(core::try_gpu()));
  print(y.sizes());
  print(y[0].slice(0, 0, 4));
  program.keep("y", y);
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv,
      {.about = "DataParallel around one block of a model", .options = {{"seed", 0, "of all random numbers"}}}, run);
}
