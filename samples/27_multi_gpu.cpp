// The other parts of the multi-GPU examples that tutorial 000 asks for (the first is 14_parallel_block.cpp): the
// primitives, the functional form, and a model that is partly on the CPU and partly on a device. Runs on any number of
// devices, none included, and gives the same numbers.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using core::Tensor;
using samples::print;

/// DataParallel from its four primitives.
Tensor data_parallel_by_hand(core::Linear& module, const Tensor& input, std::vector<core::Device> devices) {
  if (devices.empty()) return module(input);
  core::Device output_device = devices.front();
  auto inputs = core::scatter_values(std::tuple(input), devices);  // a small batch gives fewer than there are devices
  devices.resize(inputs.size());
  auto replicas = core::replicate(module, devices);
  auto outputs = core::parallel_apply(replicas, inputs, devices);
  return core::gather(outputs, output_device);
}

struct DistributedModel : core::ModuleOf<DistributedModel> {
  core::Device device;
  core::Embedding embedding{1000, 10};
  core::Linear rnn{10, 10};

  explicit DistributedModel(core::Device given) : device(given) { rnn.to(device); }
  void members(core::Members& m) override { m.child("embedding", embedding).child("rnn", rnn); }
  Tensor forward(const Tensor& x) {
    Tensor on_cpu = embedding(x);   // here
    return rnn(on_cpu.to(device));  // there; backward comes back by itself
  }
};

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  std::vector<core::Device> devices = core::try_all_gpus();
  if (!core::cuda::is_available()) devices.clear();
  core::Linear net(10, 4);
  Tensor x = core::randn({6, 10});
  Tensor wanted = net(x);
  net.to(core::try_gpu());

  print("primitives:", core::allclose(data_parallel_by_hand(net, x, devices).cpu(), wanted));
  print("functional form:", core::allclose(core::data_parallel(net, x).cpu(), wanted));

  DistributedModel model(core::try_gpu());
  Tensor y = model(core::tensor({1, 2, 3}));
  y.sum().backward();
  print("partly on the CPU:", y.sizes(), "gradients on the devices of their parameters:",
        model.embedding.weight.grad().device() == model.embedding.weight.device() &&
            model.rnn.weight.grad().device() == model.rnn.weight.device());
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv,
      {.about = "Primitives of DataParallel, its functional form, a model on two kinds of device",
       .options = {{"seed", 0, "of all random numbers"}}},
      run);
}
