// What wrapping does to the names: every key begins with "module." (tutorial 000 writes "model."), because the model is
// the wrapper's child of that name. module() gives the model back.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

struct Model : core::ModuleOf<Model> {
  core::Linear fc;
  Model(std::int64_t input_size, std::int64_t output_size) : fc(input_size, output_size) {}
  void members(core::Members& m) override { m.child("fc", fc); }
  core::Tensor forward(const core::Tensor& input) { return fc(input); }
};

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  Model model(5, 2);
  core::DataParallel wrapped(model);
  print(model.state_dict().keys());
  print(wrapped.state_dict().keys());
  print(wrapped.module().state_dict().keys());
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv,
      {.about = "Keys of a model before and after wrapping", .options = {{"seed", 0, "of all random numbers"}}}, run);
}
