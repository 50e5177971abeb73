// Tensors on two devices, copies between them, a net on the first. Tutorial 002. With fewer than two devices what would
// be on the second stays on the CPU. Without --seed the numbers are those that the tutorial shows.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

void run(samples::Program& program) {
  bool is_seeded = program.was_given("seed");
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  core::Tensor X = core::ones({2, 3}, {.device = core::try_gpu()});
  print(X);
  core::Tensor Y = is_seeded ? core::rand({2, 3}) : core::tensor({{0.4067, 0.6026, 0.7900}, {0.8645, 0.8511, 0.3288}});
  Y = Y.to(core::try_gpu(1));
  print(Y);

  core::Tensor Z = X.to(core::try_gpu(1));  // X.cuda(1)
  print(X);
  print(Z);
  print(Y + Z);
  print(Z.to(core::try_gpu(1)).is_same(Z));  // Z.cuda(1) is Z: nothing is copied

  core::Sequential net(core::Linear(3, 1));
  if (!is_seeded) {
    core::NoGradGuard no_grad;
    net.parameter("0.weight").fill_(0.03);
    net.parameter("0.bias").fill_(0.0558);
  }
  net = net.to(core::try_gpu());
  print(net(X));
  print(samples::repr(net.parameter("0.weight").data_alias().device()));
  program.keep("Y", Y);
  program.keep("weight", net.parameter("0.weight"));
  program.keep("bias", net.parameter("0.bias"));
  program.keep("out", net(X));
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv,
                              {.about = "Tensors on two devices and a net on the first",
                               .options = {{"seed", 0, "draw the numbers instead of taking the tutorial's"}}},
                              run);
}
