// A first program for who knows PyTorch: 09_from_pytorch.py line by line. The two print the same text.
#include <cstdio>
#include <iostream>

#include "libckpt/bridge.h"
#include "libcore/core.h"

struct Net : core::ModuleOf<Net> {
  core::Linear hidden{4, 16};
  core::Dropout drop{0.1};
  core::Linear out{16, 3};

  void members(core::Members& m) override { m.child("hidden", hidden).child("drop", drop).child("out", out); }
  core::Tensor forward(const core::Tensor& x) { return out(drop(core::relu(hidden(x)))); }
};

int main(int argc, char** argv) {
  core::manual_seed(0);
  core::Tensor x = core::randn({120, 4});
  core::Tensor y = core::argmax(x.slice(1, 0, 3), 1);
  core::DataLoader loader(core::TensorDataset(x, y), {.batch_size = 16, .shuffle = true});

  Net net;
  std::cout << net << '\n';
  core::AdamW optimizer(net.parameters(), {.lr = 0.01});
  core::CosineAnnealingLR schedule(optimizer, {.T_max = 5});

  for (int epoch = 0; epoch < 5; ++epoch) {
    double total = 0;
    for (auto& [inputs, labels] : loader) {
      core::Tensor loss = core::cross_entropy(net(inputs), labels);
      optimizer.zero_grad();
      loss.backward();
      core::clip_grad_norm_(net.parameters(), 1.0);
      optimizer.step();
      total += loss.item<double>() * static_cast<double>(inputs.size(0));
    }
    schedule.step();
    std::printf("epoch %d: loss %.4f\n", epoch, total / static_cast<double>(x.size(0)));
  }

  net.eval();
  {
    core::NoGradGuard no_grad;
    std::cout << net(x.slice(0, 0, 2)) << '\n';
  }
  std::cout << net(x).sum() << '\n';
  if (argc > 1) ckpt::save(net.state_dict(), argv[1]);
}
