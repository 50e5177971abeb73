// "DataParallel works on any model (CNN, RNN, Capsule Net)": each of them on all devices against the same without the
// wrapper, outputs and gradients. Tutorial 000, and its question: PyTorch itself has no capsule network; the zoo has.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"
#include "zoo/capsnet.h"
#include "zoo/lenet.h"
#include "zoo/recurrent.h"

namespace {

using core::Tensor;
using samples::print;

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i].detach().cpu() - b[i].detach().cpu()).abs().max().item<double>());
  }
  return largest;
}

/// The loss is that of `loss(model, x)`; both models start from the same parameters.
template <class M, class Loss>
void compare(const char* name, M plain, const Tensor& x, const Loss& loss) {
  core::DataParallel parallel(plain.clone());
  parallel.to(core::try_gpu());
  loss(plain, x).backward();
  loss(parallel, x.to(core::try_gpu())).backward();
  std::vector<Tensor> gradients[2];
  for (const Tensor& parameter : plain.parameters()) gradients[0].push_back(parameter.grad());
  for (const Tensor& parameter : parallel.parameters()) gradients[1].push_back(parameter.grad());
  double difference = largest_difference(gradients[0], gradients[1]);
  std::size_t devices = parallel.device_ids().size();
  print(name, devices == 0 ? "on the CPU:" : "over " + std::to_string(devices) + " devices:", "gradients",
        difference <= 1e-5 ? "equal to rounding" : "differ by " + std::to_string(difference));
}

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  Tensor images = core::rand({7, 1, 28, 28});
  Tensor labels = core::randint(0, 10, {7});
  compare("CNN        ", zoo::LeNet5(), images, [&](auto& net, const Tensor& x) {
    Tensor logits = net(x);
    return core::cross_entropy(logits, labels.to(logits.device()));
  });
  Tensor tokens = core::randint(0, 65, {7, 12});
  compare("RNN        ", zoo::CharLSTM(), tokens, [&](auto& net, const Tensor& x) { return net(x).square().mean(); });
  zoo::CapsNet capsules({.channels = 32, .types = 4});
  compare("Capsule Net", capsules, images, [&](auto& net, const Tensor& x) {
    Tensor y = labels.to(x.device());
    return zoo::capsule_loss(net(x, y), x, y);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv,
      {.about = "A CNN, an RNN and a capsule network under DataParallel", .options = {{"seed", 0, "of all numbers"}}},
      run);
}
