// A training program against the installed tree: one step, save, load into a second model. usage: trainer OUT.ckpt
#include <libckpt/bridge.h>
#include <libcore/core.h>
#include <zoo/mlp.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  core::manual_seed(0);
  zoo::MLP model({.inputs = 4, .hidden = 3, .classes = 2});
  core::SGD optimizer(model.parameters(), {.lr = 0.1});
  core::Tensor loss = core::mse_loss(model(core::ones({5, 4})), core::zeros({5, 2}));
  loss.backward();
  optimizer.step();
  ckpt::save(model.state_dict(), argv[1]);
  zoo::MLP other({.inputs = 4, .hidden = 3, .classes = 2});
  std::cout << ckpt::load_into(other, argv[1]);
  return other.fc1.weight.equal(model.fc1.weight) ? 0 : 1;
}
