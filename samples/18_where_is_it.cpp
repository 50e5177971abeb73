// Where a tensor and a model are. Tutorial 003.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

struct TestModel : core::ModuleOf<TestModel> {
  core::Linear fc;
  TestModel(std::int64_t input_dim, std::int64_t output_dim) : fc(input_dim, output_dim) {}
  void members(core::Members& m) override { m.child("fc", fc); }
  core::Tensor forward(const core::Tensor& x) { return fc(x); }
};

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  print(core::cuda::is_available());
  core::Tensor x = core::randn({3, 2});
  print(x.device());
  TestModel model(2, 3);
  print(model.parameters().front().device());
  program.keep("y", model(x));
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv, {.about = "Where a tensor and a model are", .options = {{"seed", 0, "of all random numbers"}}}, run);
}
