// Saving and loading with and without the wrapper: the two levels of keys, and the error when they do not match.
// Tutorial 004. Writes net_parm.pth, paral_net_parm.pth and inner_parm.pth into the current folder; PyTorch reads them.
// All cures of the error are in 29_module_prefix.cpp.
#include "libckpt/bridge.h"
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"
#include "samples/support/scratch_folder.h"

namespace {

using samples::print;

struct MyModule : core::ModuleOf<MyModule> {
  core::Linear fc;
  MyModule(std::int64_t input_size, std::int64_t output_size) : fc(input_size, output_size) {}
  void members(core::Members& m) override { m.child("fc", fc); }
  core::Tensor forward(const core::Tensor& x) { return fc(x); }
};

void print_keys(const core::StateDict& state) {
  for (const auto& [key, tensor] : state) print(key);
}

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  std::int64_t i = program.integer("i"), o = program.integer("o");
  MyModule net(i, o);
  samples::ScratchFolder scratch;  // all files of this program
  ckpt::save(net.state_dict(), "net_parm.pth");
  print_keys(ckpt::load("net_parm.pth"));

  core::DataParallel paral_net(net);
  ckpt::save(paral_net.state_dict(), "paral_net_parm.pth");
  core::StateDict file = ckpt::load("paral_net_parm.pth");
  print_keys(file);

  MyModule new_net(i, o);
  try {
    new_net.load_state_dict(file);
  } catch (const core::Error& e) {
    print(std::string(core::python_name(e.code())) + ":", e.what());
  }

  ckpt::save(paral_net.module().state_dict(), "inner_parm.pth");  // one level further in
  core::StateDict inner = ckpt::load("inner_parm.pth");
  print_keys(inner);
  print(paral_net.module().load_state_dict(inner));
  print(new_net.load_state_dict(inner));
  print(paral_net.load_state_dict(file));
  print(new_net.load_state_dict(file, /*strict=*/false));  // says what it left out: everything
  program.keep("weight", net.fc.weight);
  program.keep("bias", net.fc.bias);
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv,
                              {.about = "Saving and loading with and without DataParallel",
                               .options = {{"seed", 0, "of all random numbers"},
                                           {"i", 3, "input_size of the model", 1},
                                           {"o", 5, "output_size of the model", 1}}},
                              run);
}
