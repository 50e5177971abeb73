// The training frame of tutorial 004: a flag, the default tensor type, DataParallel, SGD; then saving and resuming.
// With
// --no-cuda everything stays on the CPU, also where there are devices. Writes train_frame.ckpt into the current folder.
#include <cstdio>

#include "libckpt/bridge.h"
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"
#include "samples/support/scratch_folder.h"

namespace {

using core::Tensor;
using samples::print;
using Net = core::DataParallel<core::Sequential>;

core::Sequential build_net() {
  return core::Sequential{core::Linear(4, 8), core::ReLU(), core::Linear(8, 3)};
}

/// From here on tensors and modules are made on cuda:0 where the flag says so, and nobody has to move them.
void choose_default_tensor_type(bool cuda) {
  if (core::cuda::is_available()) {
    if (cuda) core::set_default_tensor_type("torch.cuda.FloatTensor");
    if (!cuda) {
      print(
          "WARNING: It looks like you have a CUDA device, but aren't using CUDA.\n"
          "Run with --cuda for optimal training speed.");
      core::set_default_tensor_type("torch.FloatTensor");
    }
  } else {
    core::set_default_tensor_type("torch.FloatTensor");
  }
}

/// A wrapped net; on the CPU when the flag is off, and then called without the wrapper, which would ask for devices.
struct Trained {
  Net net{build_net()};
  core::SGD optimizer;
  bool cuda;

  Trained(double lr, bool use_cuda) : optimizer(net.parameters(), {.lr = lr, .momentum = 0.9}), cuda(use_cuda) {
    if (!cuda) net.cpu();
  }

  std::vector<Tensor> steps(const Tensor& x, const Tensor& y, int count) {
    std::vector<Tensor> losses;
    for (int k = 0; k < count; ++k) {
      Tensor loss = core::cross_entropy(cuda ? net(x) : net.module()(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      losses.push_back(loss.detach());
    }
    return losses;
  }
};

void run(samples::Program& program) {
  bool cuda = program.flag("cuda");
  choose_default_tensor_type(cuda);
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  std::int64_t n = program.integer("n");
  Tensor x = core::randn({n, 4}), y = core::randint(0, 3, {n});

  Trained trained(program.number("lr"), cuda);
  std::vector<Tensor> losses = trained.steps(x, y, 5);
  samples::ScratchFolder scratch;  // for the file
  ckpt::save_training("train_frame.ckpt", trained.net, trained.optimizer, {.step = 5});
  std::vector<Tensor> straight = trained.steps(x, y, 5);

  Trained other(program.number("lr"), cuda);
  ckpt::resume_training("train_frame.ckpt", other.net, other.optimizer);
  std::vector<Tensor> resumed = other.steps(x, y, 5);
  losses.insert(losses.end(), straight.begin(), straight.end());
  for (std::size_t k = 0; k < losses.size(); ++k) std::printf("step %zu loss %.4f\n", k + 1, losses[k].item<double>());
  print("resumed equal:", core::stack(straight).equal(core::stack(resumed)));
  for (const auto& [key, tensor] : trained.net.state_dict()) {
    print(key);
    program.keep("final." + key, tensor);
  }
  program.keep("x", x);
  program.keep("y", y);
  program.keep("losses", core::stack(losses));
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv,
                              {.about = "A training frame with a flag for the GPU",
                               .options = {{"cuda", true, "use the GPUs that are there"},
                                           {"seed", 0, "of all random numbers"},
                                           {"n", 20, "rows", 1},
                                           {"lr", 0.1, "learning rate"}}},
                              run);
}
